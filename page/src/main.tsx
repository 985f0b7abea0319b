import { serverChannel } from "./channel";
import { mount } from "./mount";
import { render } from "./notebook";
import { recordedChannel } from "./recorded";
import "./lab.css";

const element = document.getElementById("lab");
if (element?.dataset.host === "server") mount(element, serverChannel());
if (element?.dataset.host === "file") mount(element, recordedChannel(JSON.parse(document.getElementById("recording")!.textContent!)));

export default { render }; // for anywidget
