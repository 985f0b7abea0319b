import { useStore } from "./context";
import { Bars, Compared } from "./expected";
import { bare } from "./format";
import { positionsOf } from "./positions";
import type { Read } from "./protocol";

/** The places of the blanks of a text. */
export function blanksOf(read: Read): number[] {
  return read.likeliest.flatMap((words, place) => (words.length ? [place] : []));
}

/** For a model that fills blanks: the likeliest words of a blank. With changes, old and new stand side by side. */
export function Blanks({ run, read, place }: { run: string; read: Read; place: number | undefined }) {
  const { edits, host, active, view, place: pinned } = useStore();
  const chosen = place !== undefined && read.likeliest[place]?.length ? place : undefined;
  const attends = read.sites.some((site) => site.holds === "weights");
  return (
    <section class="expected" aria-label="Words of the blank">
      <h2>
        <span class="muted">word of the blank </span>
        {chosen !== undefined && <q class="context">{read.tokens.slice(Math.max(0, chosen - 2), chosen + 3).map(bare).join(" ")}</q>}
      </h2>
      {chosen === undefined ? (
        <p class="muted">{blanksOf(read).length ? "Choose a blank (___)." : "Write ___ in the text for a word that the model should fill in."}</p>
      ) : (
        <>
          {attends && run === active.value && host.views.includes("doubt") && view.value !== "doubt" && (
            <button
              class="link small"
              onClick={() => {
                pinned.value = chosen;
                view.value = "doubt";
              }}
            >
              How far can the attention move?
            </button>
          )}
          {edits.value.length > 0 && host.asks && run === active.value ? (
            <Compared run={run} after={positionsOf(read, chosen)[0]!} what="word" />
          ) : (
            <Bars rows={read.likeliest[chosen]!.map(([word, p]) => ({ word, p, here: false }))} />
          )}
        </>
      )}
    </section>
  );
}
