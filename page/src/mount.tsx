import { render } from "preact";
import { effect } from "@preact/signals";
import { App } from "./app";
import type { Channel } from "./channel";
import { paint } from "./colour";
import { StoreContext } from "./context";
import { makeStore } from "./store";

/** Show the lab in an element. All that it knows comes through the channel. */
export function mount(element: HTMLElement, channel: Channel): void {
  const store = makeStore(channel);
  effect(() => paint(store.theme.value, document.documentElement));
  render(
    <StoreContext.Provider value={store}>
      <App />
    </StoreContext.Provider>,
    element,
  );
  void store.loadRuns();
}
