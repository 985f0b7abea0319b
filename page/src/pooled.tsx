import { useSignal } from "@preact/signals";
import { average, useNames, useRows } from "./attend";
import { shareClass } from "./colour";
import { useStore } from "./context";
import { bare, percent } from "./format";
import { Weights, type MapProps } from "./weights";

/** One row of weights for a whole text: the text in the colours of its weights, and a bar for each word. */
export function Pooled(part: MapProps) {
  const { read, of, site, head } = part;
  const { host } = useStore();
  const names = useNames(read, site);
  const numbers = useRows(of, site, [0]);
  const over = useSignal<number | null>(null);
  const weights = numbers ? average(numbers.after, head) : null;
  const most = Math.max(1e-9, ...(weights ?? []));
  const joined = read.kind !== "word" && read.spans === null;
  return (
    <section class="pooled" aria-label="Weights of the words">
      <p class="tokens weighed">
        {names.columns.map((name, at) => {
          const share = weights?.[at] ?? 0;
          const glued = joined && at > 0 && !/^\s/.test(name) ? " continues" : "";
          return (
            <span key={at} class={`token ${shareClass(share / most)}${glued}${over.value === at ? " over" : ""}`} title={percent(share)}>
              {bare(name)}
            </span>
          );
        })}
      </p>
      <Weights {...part} numbers={numbers} hover={(at) => (over.value = at)} />
      <p class="muted small">
        The label is read from a weighted sum of these words.
        {host.edits && " Drag a bar, or type its number; the other words share the rest."}
      </p>
    </section>
  );
}
