import { useStore } from "./context";
import { Bars, Comparison } from "./expected";
import { visible } from "./format";
import type { Next } from "./protocol";

/** The distribution of the labels of a text. With changes, old and new stand side by side. */
export function Labels({ labels, name }: { labels: Next; name: string }) {
  const { edits, view, host } = useStore();
  return (
    <section class="expected labels" aria-label={`How ${name} labels the text`}>
      <h2>
        <span class="muted">label </span>
        <span class="word">{visible(likeliest(labels))}</span>
      </h2>
      {view.value !== "doubt" && host.views.includes("doubt") && (
        <button class="link small" onClick={() => (view.value = "doubt")}>
          How far can the attention move?
        </button>
      )}
      {edits.value.length ? (
        <Comparison next={labels} what="label" />
      ) : (
        <Bars rows={labels.chances.map((one) => ({ word: one.token, p: one.before, here: false }))} />
      )}
    </section>
  );
}

export function likeliest(labels: Next): string {
  return labels.chances.reduce((best, one) => (one.after > best.after ? one : best)).token;
}
