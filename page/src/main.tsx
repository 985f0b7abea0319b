import { serverChannel } from "./channel";
import { mount } from "./mount";
import "./lab.css";

mount(document.getElementById("lab")!, serverChannel());
