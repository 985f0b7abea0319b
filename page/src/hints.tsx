import { useSignal } from "@preact/signals";
import { recall, remember } from "./store";

const HINTS = [
  "Type a text. The darker a word, the less the model expected it.",
  "Point at a word to see what the model expected there, and choose it to keep that.",
  "In Attention, drag a bar: the model then predicts with the weight that you gave it.",
];

/** Three hints on the first visit. */
export function Hints() {
  const open = useSignal(recall("hints") === null);
  if (!open.value) return null;
  const close = () => {
    open.value = false;
    remember("hints", "seen");
  };
  return (
    <aside class="hints" aria-label="First steps">
      <ol>
        {HINTS.map((hint) => (
          <li key={hint}>{hint}</li>
        ))}
      </ol>
      <button class="quiet" onClick={close}>
        Got it
      </button>
    </aside>
  );
}
