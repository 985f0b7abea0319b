import { render } from "preact";
import { effect } from "@preact/signals";
import { App } from "./app";
import type { Channel } from "./channel";
import { paint } from "./colour";
import { StoreContext } from "./context";
import { makeStore, type Store } from "./store";

// Widths from which the page has two columns, and wide ones; below the first, it is narrow.
const ROOMS: readonly (readonly [number, string])[] = [[0, "one"], [561, "broad"], [960, "two"], [1500, "wide"]];

/**
 * Show the page in an element. All that it knows comes through the channel. The colours are those of `root`.
 * The returned function takes the page away.
 */
export function mount(element: HTMLElement, channel: Channel, root: HTMLElement = document.documentElement): () => void {
  const store = makeStore(channel);
  const unpaint = effect(() => paint(store.theme.value, root));
  const measure = () =>
    (element.dataset.room = ROOMS.filter(([width]) => element.clientWidth >= width).map(([, name]) => name).join(" "));
  measure();
  const watcher = new ResizeObserver(measure);
  watcher.observe(element);
  render(
    <StoreContext.Provider value={store}>
      <App />
    </StoreContext.Provider>,
    element,
  );
  const listener = (event: Event) => keys(event as KeyboardEvent, store);
  const listens = channel.host.address ? window : element;
  listens.addEventListener("keydown", listener);
  void store.loadRuns();
  return () => {
    unpaint();
    watcher.disconnect();
    listens.removeEventListener("keydown", listener);
    store.close();
    render(null, element);
  };
}

/** Undo and redo, outside the fields of text, which have their own. */
function keys(event: KeyboardEvent, store: Store): void {
  const target = event.composedPath()[0]; // also inside a shadow root
  const typing = target instanceof HTMLTextAreaElement || target instanceof HTMLInputElement;
  if (typing && (target as HTMLInputElement).type !== "range") return;
  if (!(event.ctrlKey || event.metaKey)) return;
  if (event.key === "z" && !event.shiftKey) store.undo();
  else if (event.key === "y" || (event.key.toLowerCase() === "z" && event.shiftKey)) store.redo();
  else return;
  event.preventDefault();
}
