import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useStore } from "./context";
import type { Edit } from "./edits";
import { bare, percent, visible } from "./format";
import { useMeasure, Working } from "./measure";
import type { LeastChange, Read, ReadQuestion, SayQuestion } from "./protocol";

/** What would make the model say another word: the least change of attention, ready to be applied. */
export function Say({ of, place, read, words }: { of: ReadQuestion; place: number; read: Read; words: string[] }) {
  const word = useSignal("");
  const asked = useSignal<SayQuestion | null>(null);
  const { result, stage, error } = useMeasure("say", asked.value);
  const key = JSON.stringify([of, place]);
  useEffect(() => {
    asked.value = null; // another prediction: its search has not begun
  }, [key]);
  const search = (say: string) => {
    word.value = say;
    if (say) asked.value = { of, place, say };
  };
  return (
    <section class="say" aria-label="What would make it say another word">
      <h2>What would make it say …?</h2>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          search(word.value);
        }}
      >
        <input aria-label="A word" value={word.value} spellcheck={false} onInput={(event) => (word.value = event.currentTarget.value)} />
        <button class="quiet" type="submit" disabled={!word.value}>
          Search
        </button>
      </form>
      <div class="buttons">
        {words.slice(0, 5).map((one) => (
          <button key={one} type="button" class="quiet" aria-pressed={asked.value?.say === one} onClick={() => search(one)}>
            {bare(one)}
          </button>
        ))}
      </div>
      {asked.value && <Working stage={stage} />}
      {asked.value && error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {asked.value && !stage && !error && result && <Found word={result.word} changes={result.changes} read={read} />}
    </section>
  );
}

function Found({ word, changes, read }: { word: string; changes: LeastChange[]; read: Read }) {
  const store = useStore();
  const heads = (site: string) => read.sites.find((one) => one.name === site)?.heads.length ?? 0;
  const named = (name: string) => (read.image ? `region ${name}` : `“${visible(name)}”`);
  const reached = changes.filter((one) => one.moved !== null).sort((a, b) => a.moved! - b.moved!);
  const least = reached[0];
  if (!least)
    return (
      <p class="note">
        No weights that were tried make it say <q>{bare(word)}</q>; its highest probability was{" "}
        {percent(Math.max(...changes.map((one) => one.after)))}. The search may miss some.
      </p>
    );
  return (
    <>
      <p>
        Moving <strong>{least.moved!.toFixed(3)}</strong> of weight in {least.name} makes it say <q>{bare(word)}</q>:{" "}
        {percent(least.before)} → {percent(least.after)}.
      </p>
      <ul class="moves">
        {least.moves.slice(0, 8).map((move, at) => (
          <li key={at}>
            {move.site}
            {move.head !== null && heads(move.site) > 1 && ` head ${move.head}`}: {percent(move.share)} of {named(move.source)} →{" "}
            {named(move.to)}
          </li>
        ))}
        {least.moves.length > 8 && <li class="muted">and {least.moves.length - 8} more</li>}
      </ul>
      <button class="primary" onClick={() => store.edit([...store.edits.value, ...(least.edits as Edit[])])}>
        Make this change
      </button>
      {changes.length > 1 && (
        <details>
          <summary>Every site alone</summary>
          <ul class="moves">
            {changes.map((one) => (
              <li key={one.name}>
                {one.name}: {one.moved === null ? `not reached (at most ${percent(one.after)})` : `${one.moved.toFixed(3)} of weight`}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}
