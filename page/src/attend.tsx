import { useEffect, useMemo } from "preact/hooks";
import { useSignal } from "@preact/signals";
import type { Form } from "./address";
import { Arcs } from "./arcs";
import { Blanks, blanksOf } from "./blanks";
import { Changes } from "./changes";
import { useStore } from "./context";
import { isSilent, toggleSilence, add } from "./edits";
import { Expected, Glance, Terms } from "./expected";
import { HeatMap } from "./heatmap";
import { OverImage } from "./image";
import { Labels } from "./labels";
import { Mosaic } from "./mosaic";
import { Pooled } from "./pooled";
import { columnNames, isKnown, rowNames, siteOf } from "./positions";
import type { Read, ReadQuestion, SiteInfo } from "./protocol";
import type { Reading } from "./store";
import { TermsByWord } from "./terms";
import { Waiting } from "./waiting";
import { Weights, type MapProps } from "./weights";

const FORMS: readonly (readonly [Form, string])[] = [
  ["arcs", "Arcs"],
  ["map", "Map"],
  ["mosaic", "All"],
];

/** What the model attends to. Weights can be dragged, and the prediction follows. */
export function Attend() {
  const now = useStore().reading.value;
  if (!now?.read || !now.of) return <Waiting empty="Type a text above: its attention appears here." />;
  return <Attention now={now} read={now.read} of={now.of} />;
}

function Attention({ now, read, of }: { now: Reading; read: Read; of: ReadQuestion }) {
  const store = useStore();
  const site = siteOf(read, store.site.value);
  if (site === null) return <NoSites read={read} />;
  const weighs = site.holds === "weights";
  const form: Form = store.form.value === "arcs" && !weighs ? "map" : store.form.value;
  const head = store.head.value < site.heads.length ? store.head.value : -1;
  const shown = head < 0 && (!weighs || site.heads.length === 1) ? 0 : head;
  const names = rowNames(read, site);
  const last = site.first + names.length - 1;
  const kept = store.rows.value.filter((row) => row >= site.first && row <= last && isKnown(site, row));
  // the last word, or the first one of a caption that names a thing: "a red circle"
  const rows = kept.length ? kept : [site.known?.[site.known.length - 1] ?? startingRow(read, site, last)];
  const place = site.row_side === "read" ? Math.max(...rows) + 1 : read.tokens.length;
  const part = { read, of, site, head: shown, rows };
  const predicts = read.likeliest.some((one) => one.length > 0); // weights from elsewhere have no predictions
  return (
    <div class={predicts || read.labels ? "columns" : "columns alone"}>
      <div class={`stage${now.asking ? " asking" : ""}`} aria-busy={now.asking}>
        <Controls read={read} site={site} head={shown} form={form} weighs={weighs} />
        {now.error && (
          <p class="error" role="alert">
            {now.error}
          </p>
        )}
        {form === "mosaic" ? (
          <Mosaic read={read} of={of} site={site} head={shown} />
        ) : form === "map" ? (
          <>
            <HeatMap {...part} />
            {weighs && <RowWeights {...part} />}
            {!weighs && store.host.views.includes("memory") && store.info.value?.reads === "text" && (
              <button class="link" onClick={() => (store.view.value = "memory")}>
                How far back does this model remember?
              </button>
            )}
          </>
        ) : site.row_side === "whole" ? (
          <Pooled {...part} />
        ) : read.image && site.column_side === "given" ? (
          <OverImage {...part} picture={read.image} />
        ) : (
          <Arcs {...part} />
        )}
        {read.notes.map((note) => (
          <p class="note" key={note}>
            {note}
          </p>
        ))}
      </div>
      <div class="side">
        {read.fills ? (
          <Blanks run={of.run} read={read} place={[...rows].reverse().find((row) => read.likeliest[row]?.length)} />
        ) : read.labels ? (
          <Labels labels={read.labels} name={store.info.value?.name ?? ""} />
        ) : (
          predicts && (
            <>
              <Expected run={of.run} place={place} />
              <Glance run={of.run} place={place} />
            </>
          )
        )}
        {(store.host.edits || store.history.value.done.length > 1 || store.history.value.undone.length > 0) && <Changes read={read} site={site} head={shown} rows={rows} />}
        <Terms run={of.run} place={place} />
      </div>
    </div>
  );
}

/** The row that is shown first: of the last word, also of a translation, of the first blank, or of the first caption word that names a thing. */
function startingRow(read: Read, site: SiteInfo, last: number): number {
  if (read.image) return Math.min(site.first + 2, last);
  if (read.given && site.row_side === "read") return Math.max(site.first, last - 1); // before the end of a translation
  if (!read.fills) return last;
  return Math.min(last, Math.max(site.first, blanksOf(read)[0] ?? last));
}

function RowWeights(part: MapProps) {
  return <Weights {...part} numbers={useRows(part.of, part.site, part.rows)} titled />;
}

function NoSites({ read }: { read: Read }) {
  const { active, place } = useStore();
  const shown = Math.min(place.value ?? read.tokens.length - 1, read.tokens.length);
  return (
    <div class="columns">
      <div class="stage">
        <TermsByWord read={read} />
      </div>
      <div class="side">
        {active.value && <Expected run={active.value} place={shown} />}
        {active.value && <Terms run={active.value} place={shown} />}
      </div>
    </div>
  );
}

interface ControlProps {
  read: Read;
  site: SiteInfo;
  head: number;
  form: Form;
  weighs: boolean;
}

function Controls({ read, site, head, form, weighs }: ControlProps) {
  const store = useStore();
  const group = (holds: string) => read.sites.filter((one) => one.holds === holds);
  const over = site.row_side === "whole" ? "Text" : read.image && site.column_side === "given" ? "Image" : "Arcs";
  const forms = FORMS.filter(([name]) => weighs || name !== "arcs").map(([name, title]) => [name, name === "arcs" ? over : title] as const);
  return (
    <div class="toolbar">
      <div class="segments" role="radiogroup" aria-label="Picture">
        {forms.map(([name, title]) => (
          <button key={name} role="radio" aria-checked={form === name} onClick={() => (store.form.value = name)}>
            {title}
          </button>
        ))}
      </div>
      <label class="small-field">
        <span class="hidden">Site</span>
        <select
          aria-label="Site"
          value={site.name}
          onChange={(event) => {
            store.site.value = event.currentTarget.value;
            if (head >= (read.sites.find((one) => one.name === event.currentTarget.value)?.heads.length ?? 0)) store.head.value = -1;
          }}
        >
          {["weights", "values"].map(
            (holds) =>
              group(holds).length > 0 && (
                <optgroup key={holds} label={holds === "weights" ? "Attention weights" : "Values over time"}>
                  {group(holds).map((one) => (
                    <option key={one.name} value={one.name}>
                      {one.name}
                    </option>
                  ))}
                </optgroup>
              ),
          )}
        </select>
      </label>
      {site.heads.length > 1 && <Heads site={site} head={head} weighs={weighs} />}
    </div>
  );
}

/** A button for each head; a second one silences it. */
function Heads({ site, head, weighs }: { site: SiteInfo; head: number; weighs: boolean }) {
  const store = useStore();
  const edits = store.edits.value;
  const numbered = site.heads.every((name) => name.startsWith("head "));
  return (
    <div class="heads" role="group" aria-label="Heads">
      {weighs && (
        <span class="head">
          <button aria-pressed={head < 0} onClick={() => (store.head.value = -1)}>
            mean
          </button>
        </span>
      )}
      {site.heads.map((name, number) => {
        const silent = weighs
          ? isSilent(edits, site.name, number)
          : edits.some((one) => one.do === "zero" && one.site === site.name && String(one.heads) === String([number]));
        const toggle = () => {
          if (weighs) return store.edit(toggleSilence(edits, site.name, number));
          const zero = { do: "zero", site: site.name, heads: [number] };
          store.edit(silent ? edits.filter((one) => JSON.stringify(one) !== JSON.stringify(zero)) : add(edits, zero));
        };
        const word = weighs ? "Silence" : "Set to zero:";
        return (
          <span key={name} class={silent ? "head silent" : "head"}>
            <button aria-pressed={head === number} aria-label={name} onClick={() => (store.head.value = number)}>
              {numbered ? name.slice(5) : name}
            </button>
            {store.host.edits && (
              <button class="mute" aria-pressed={silent} aria-label={`${word} ${name}`} title={`${word} ${name}`} onClick={toggle}>
                <svg viewBox="0 0 16 16" aria-hidden="true">
                  <path d="M2 6h3l4-3v10l-4-3H2z" />
                  {silent ? <path class="line" d="m11 6 4 4m0-4-4 4" /> : <path class="line" d="M11 5.5q2 2.5 0 5m2-7q3.5 4.500 0 9" />}
                </svg>
              </button>
            )}
          </span>
        );
      })}
    </div>
  );
}

export interface RowNumbers {
  fresh: boolean; // of the last reading, not of the one before
  after: number[][][];
  before: number[][][];
}

/** The exact numbers of some rows, of every head, with and without the changes. */
export function useRows(of: ReadQuestion, site: SiteInfo, rows: readonly number[]): RowNumbers | null {
  const store = useStore();
  const numbers = useSignal<{ key: string; site: string; rows: string; after: number[][][]; before: number[][][] } | null>(null);
  const key = JSON.stringify([of, site.name, rows]);
  useEffect(() => {
    let late = false;
    const ask = (question: ReadQuestion, seen: string) => store.channel.rows({ of: question, site: site.name, rows: [...rows] }, `rows/${seen}`);
    const both = of.edits?.length ? Promise.all([ask(of, "after"), ask({ ...of, edits: [] }, "before")]) : ask(of, "after").then((one) => [one, one] as const);
    both.then(
      ([after, before]) => {
        if (!late) numbers.value = { key, site: site.name, rows: String(rows), after: after.numbers, before: before.numbers };
      },
      (error: unknown) => void store.failed(error),
    );
    return () => {
      late = true;
    };
  }, [key]);
  const fits = numbers.value?.site === site.name && numbers.value.rows === String(rows);
  return fits ? { ...numbers.value!, fresh: numbers.value!.key === key } : null;
}

/** The mean over the rows, and over all heads if `head` is -1. */
export function average(numbers: readonly (readonly (readonly number[])[])[], head: number): number[] {
  const heads = head < 0 ? numbers : [numbers[head] ?? numbers[0]!];
  const size = heads[0]?.[0]?.length ?? 0;
  const sums = new Array<number>(size).fill(0);
  let many = 0;
  for (const one of heads)
    for (const row of one) {
      many++;
      for (let column = 0; column < size; column++) sums[column]! += row[column]!;
    }
  return sums.map((sum) => sum / (many || 1));
}

export function useNames(read: Read, site: SiteInfo) {
  return useMemo(() => ({ rows: rowNames(read, site), columns: columnNames(read, site) }), [read, site]);
}
