import { useSignal } from "@preact/signals";
import { editsOf } from "./address";
import { useStore } from "./context";
import { add, asCommand, asPython, inWords, type Edit } from "./edits";
import { bare } from "./format";
import { rowPositions } from "./positions";
import type { Read, SiteInfo } from "./protocol";

interface Props {
  read: Read;
  site: SiteInfo | null; // null where no weights are shown
  head?: number;
  rows?: readonly number[];
}

/** The changes in effect: undo, redo, reset, and what repeats them elsewhere. */
export function Changes({ read, site, head = -1, rows = [] }: Props) {
  const store = useStore();
  const { history, edits, info, text, target } = store;
  const json = useSignal("");
  const refused = useSignal("");
  const copied = useSignal("");
  const base = {
    site: site?.name ?? "",
    ...(site && head >= 0 && site.heads.length > 1 ? { heads: [head] } : {}),
    rows: site ? rows.flatMap((row) => rowPositions(read, site, row)) : [],
  };
  const repeatable = info.value?.reads !== "captions" || store.shown.value !== null; // a file does not know where its image lies
  const put = (edit: Edit) => store.edit(add(edits.value, edit));
  const copy = async (name: string, what: string) => {
    try {
      await navigator.clipboard.writeText(what);
      copied.value = name;
    } catch {
      copied.value = "";
      json.value = what; // a browser without a clipboard: the text stands in the field, ready to be selected
    }
    setTimeout(() => (copied.value = ""), 1500);
  };
  const reads = info.value?.reads;
  const sentence = reads === "pairs" || reads === "captions" ? (target.value ?? read.tokens.slice(1, -1).join(" ")) : null;
  const input = { path: info.value?.path ?? "", text: text.value, target: sentence, scene: reads === "captions" ? store.shown.value : null };
  const own = () => {
    const more = editsOf(json.value);
    refused.value = more.length ? "" : "This is no edit: an edit is an object with do and site.";
    if (more.length) {
      store.edit([...edits.value, ...more]);
      json.value = "";
    }
  };
  return (
    <section class="changes" aria-label="Changes">
      <h2 class="minor">Changes</h2>
      {store.host.edits ? (
      <div class="buttons">
        <button class="quiet" disabled={history.value.done.length < 2} onClick={store.undo}>
          Undo
        </button>
        <button class="quiet" disabled={!history.value.undone.length} onClick={store.redo}>
          Redo
        </button>
        <button class="quiet" disabled={!edits.value.length} onClick={store.reset}>
          Reset
        </button>
      </div>
      ) : (
        <Versions />
      )}
      {site?.holds === "weights" && store.host.edits && (
        <div class="buttons">
          <button class="quiet" title="The chosen words attend equally to every word that they see" onClick={() => put({ do: "uniform", ...base })}>
            Attend equally
          </button>
          {site.heads.length > 1 && head >= 0 && (
            <button class="quiet" title="The chosen words get the mean of all heads" onClick={() => put({ do: "mean", ...base })}>
              Mean of heads
            </button>
          )}
        </div>
      )}
      {edits.value.length ? (
        <ol class="edits">
          {edits.value.map((edit, at) => (
            <li key={JSON.stringify(edit)}>
              <span>{inWords(edit, namer(read, edit, "row"), namer(read, edit, "column"))}</span>
              {store.host.edits && <button class="remove" aria-label={`Remove change ${at + 1}`} onClick={() => store.edit(edits.value.filter((_, other) => other !== at))}>
                ×
              </button>}
            </li>
          ))}
        </ol>
      ) : (
        <p class="muted">None yet. The model predicts with its own weights.</p>
      )}
      {edits.value.length > 0 && info.value && (
        <div class="buttons">
          {repeatable && (
            <>
              <button class="quiet" onClick={() => void copy("command", asCommand(input, edits.value))}>
                {copied.value === "command" ? "Copied" : "Copy as command"}
              </button>
              <button class="quiet" onClick={() => void copy("python", asPython(input, edits.value))}>
                {copied.value === "python" ? "Copied" : "Copy as Python"}
              </button>
            </>
          )}
          <button class="quiet" onClick={() => void copy("json", JSON.stringify(edits.value))}>
            {copied.value === "json" ? "Copied" : "Copy as JSON"}
          </button>
        </div>
      )}
      {store.host.edits && <details>
        <summary>Any other change, as JSON</summary>
        <label class="field">
          <span class="hidden">An edit as JSON</span>
          <textarea
            rows={3}
            spellcheck={false}
            placeholder={`{"do": "scale", "site": "${site?.name ?? read.sites[0]?.name ?? ""}", "by": 0.5}`}
            value={json.value}
            onInput={(event) => (json.value = event.currentTarget.value)}
          />
        </label>
        <button class="quiet" disabled={!json.value.trim()} onClick={own}>
          Apply
        </button>
        {refused.value && <p class="error">{refused.value}</p>}
      </details>}
    </section>
  );
}

/** In a file: the model with the recorded changes, and without them. */
function Versions() {
  const { history, undo, redo, edits } = useStore();
  const version = (title: string, on: boolean, choose: () => void) => (
    <button role="radio" aria-checked={on} onClick={() => !on && choose()}>
      {title}
    </button>
  );
  return (
    <div class="segments" role="radiogroup" aria-label="Version of the model" data-steps={history.value.done.length}>
      {version("Before", !edits.value.length, undo)}
      {version("After", edits.value.length > 0, redo)}
    </div>
  );
}

/** The word at a position of the model, for the rows or columns of an edit. */
function namer(read: Read, edit: Edit, axis: "row" | "column") {
  const site = read.sites.find((one) => one.name === edit.site);
  if (read.image && (edit.site === read.image.site || (axis === "column" && site?.column_side === "given"))) return (position: number) => `region ${position}`;
  if (axis === "row" && site?.row_side === "whole") return () => "the whole text";
  const given = site && (axis === "row" ? site.row_side : site.column_side) === "given";
  const names = given ? (read.given ?? []) : read.tokens;
  const spans = given ? read.given_spans : read.spans;
  const ahead = axis === "row" && site ? site.ahead : 0;
  return (position: number) => {
    const place = spans ? spans.findIndex(([first, last]) => position + ahead >= first && position + ahead < last) : position + ahead;
    return bare(names[place] ?? String(position));
  };
}
