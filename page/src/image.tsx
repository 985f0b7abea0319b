import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { average, useNames, useRows } from "./attend";
import { useStore } from "./context";
import { bare, percent } from "./format";
import type { Picture } from "./protocol";
import { Weights, type MapProps } from "./weights";

const VEIL = 0.78; // the opacity over a region without weight
const BARS = 8; // regions with a bar

/** An image under the weights of each word of its caption. A region can be weighed anew, or hidden. */
export function OverImage(part: MapProps & { picture: Picture }) {
  const { read, of, site, head, rows, picture } = part;
  const store = useStore();
  const names = useNames(read, site);
  const numbers = useRows(of, site, rows);
  const tile = useSignal<Uint8Array | null>(null);
  const over = useSignal<number | null>(null);
  const chosen = useSignal<number[]>([]);
  const columns = names.columns.length;
  const key = JSON.stringify([of, site.name, head]);
  useEffect(() => {
    let late = false;
    const all = { row: site.first, column: 0, rows: names.rows.length, columns };
    store.channel
      .tile({ of, site: site.name, head, ...all }, "image")
      .then((bytes) => !late && (tile.value = bytes), (error: unknown) => void store.failed(error));
    return () => {
      late = true;
    };
  }, [key]);
  const weights = numbers ? average(numbers.after, head) : null;
  const word = rows.map((row) => bare(names.rows[row - site.first] ?? "")).join(" ");
  const seen = over.value ?? chosen.value[chosen.value.length - 1] ?? null;
  const largest = [...(weights ?? [])].map((weight, at) => ({ weight, at })).sort((a, b) => b.weight - a.weight);
  const bars = [...new Set([...chosen.value, ...largest.slice(0, BARS).map((one) => one.at)])].sort((a, b) => a - b);
  return (
    <div class="over-image">
      <div class="looked-at">
        <figure>
          <div class="image">
            <img src={picture.data} alt="The image that the model captions" />
            <Veil picture={picture} weights={weights} />
            <Regions picture={picture} weights={weights} over={over.value} chosen={chosen.value} hidden={hiddenRegions(of.edits ?? [], picture.site)} hover={(at) => (over.value = at)} choose={(at) => (chosen.value = toggled(chosen.value, at))} />
          </div>
          <figcaption aria-live="polite">
            {seen === null ? (
              <span class="muted">Point at a region{store.host.edits && "; choose it to change it"}.</span>
            ) : (
              <>
                region {seen}, row {Math.floor(seen / picture.columns) + 1}, column {(seen % picture.columns) + 1}:{" "}
                <strong>{weights ? percent(weights[seen] ?? 0) : "…"}</strong> of <q>{word}</q>
              </>
            )}
          </figcaption>
          {store.host.edits && <Hide picture={picture} chosen={chosen.value} clear={() => (chosen.value = [])} />}
        </figure>
        <div class="bars-of">
          <h2 class="minor">
            <q>{word}</q> looks at the regions
          </h2>
          <Weights {...part} numbers={numbers} columns={bars} hover={(at) => (over.value = at)} />
        </div>
      </div>
      <h2 class="minor">Every word of the caption</h2>
      <div class="panels" role="listbox" aria-label="Words of the caption" aria-multiselectable="true" onKeyDown={(event) => step(event, store.rows, rows, site.first, names.rows.length)}>
        {names.rows.map((name, at) => {
          const row = site.first + at;
          const bytes = tile.value?.length === names.rows.length * columns ? tile.value.subarray(at * columns, (at + 1) * columns) : null;
          return (
            <div
              key={row}
              role="option"
              data-row={row}
              class={rows.includes(row) ? "panel chosen" : "panel"}
              aria-selected={rows.includes(row)}
              tabIndex={row === Math.max(...rows) ? 0 : -1}
              onClick={(event) => (store.rows.value = event.shiftKey || event.ctrlKey || event.metaKey ? toggled(rows, row) : [row])}
            >
              <span class="image">
                <img src={picture.data} alt="" />
                <Veil picture={picture} weights={bytes && Array.from(bytes, (byte) => (byte / 255) ** 2)} />
              </span>
              <span class="word">{bare(name)}</span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** The regions under little weight are darkened, and the one with the most has a frame. */
export function Veil({ picture, weights }: { picture: Picture; weights: readonly number[] | null }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { theme } = useStore();
  useEffect(() => {
    const pen = canvas.current!.getContext("2d")!;
    const [wide, high] = [picture.width, picture.height];
    pen.clearRect(0, 0, wide, high);
    if (!weights) return;
    const most = Math.max(1e-9, ...weights);
    pen.fillStyle = "#0b0e12";
    picture.boxes.forEach(([left, top, right, bottom], at) => {
      pen.globalAlpha = VEIL * (1 - (weights[at] ?? 0) / most);
      pen.fillRect(left, top, right - left, bottom - top);
    });
    pen.globalAlpha = 1;
    const [left, top, right, bottom] = picture.boxes[weights.indexOf(Math.max(...weights))]!;
    pen.lineWidth = wide / 64;
    pen.strokeStyle = getComputedStyle(canvas.current!).getPropertyValue("--frame");
    pen.strokeRect(left + pen.lineWidth / 2, top + pen.lineWidth / 2, right - left - pen.lineWidth, bottom - top - pen.lineWidth);
  }, [picture, weights, theme.value]);
  return <canvas ref={canvas} width={picture.width} height={picture.height} aria-hidden="true" />;
}

interface RegionProps {
  picture: Picture;
  weights: readonly number[] | null;
  over: number | null;
  chosen: readonly number[];
  hidden: ReadonlySet<number>;
  hover: (at: number | null) => void;
  choose: (at: number) => void;
}

function Regions({ picture, weights, over, chosen, hidden, hover, choose }: RegionProps) {
  const box = useRef<HTMLDivElement>(null);
  const { columns, boxes } = picture;
  const current = chosen[chosen.length - 1] ?? 0;
  const keys = (event: KeyboardEvent) => {
    const here = Number((event.target as HTMLElement).dataset.region ?? current);
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    if (event.key in steps) {
      const to = here + steps[event.key]!;
      if (to >= 0 && to < boxes.length) box.current?.querySelector<HTMLElement>(`[data-region="${to}"]`)?.focus();
    } else if (event.key === "Enter" || event.key === " ") choose(here);
    else return;
    event.preventDefault();
  };
  const share = (number: number) => `${number * 100}%`;
  return (
    <div ref={box} class="regions" role="listbox" aria-label="Regions of the image" aria-multiselectable="true" onKeyDown={keys} onMouseLeave={() => hover(null)}>
      {boxes.map(([left, top, right, bottom], at) => (
        <span
          key={at}
          role="option"
          data-region={at}
          aria-selected={chosen.includes(at)}
          aria-label={`region ${at}${hidden.has(at) ? ", hidden" : ""}${weights ? `, ${percent(weights[at] ?? 0)}` : ""}`}
          tabIndex={at === current ? 0 : -1}
          class={`${over === at ? "over " : ""}${hidden.has(at) ? "gone" : ""}`}
          style={{ left: share(left / picture.width), top: share(top / picture.height), width: share((right - left) / picture.width), height: share((bottom - top) / picture.height) }}
          onMouseEnter={() => hover(at)}
          onFocus={() => hover(at)}
          onClick={() => choose(at)}
        />
      ))}
    </div>
  );
}

/** Hide the chosen regions from the model: their vectors become 0, and the model captions what is left. */
function Hide({ picture, chosen, clear }: { picture: Picture; chosen: readonly number[]; clear: () => void }) {
  const store = useStore();
  const edits = store.edits.value;
  const hidden = hiddenRegions(edits, picture.site);
  const others = edits.filter((one) => !(one.do === "zero" && one.site === picture.site));
  const put = (regions: readonly number[]) => {
    const rows = [...regions].sort((a, b) => a - b);
    store.edit(rows.length ? [...others, { do: "zero", site: picture.site, rows }] : others);
    clear();
  };
  const back = chosen.filter((region) => hidden.has(region));
  return (
    <div class="buttons">
      <button class="quiet" disabled={chosen.length === back.length} onClick={() => put([...new Set([...hidden, ...chosen])])}>
        Hide {chosen.length > 1 ? `${chosen.length} regions` : "the region"}
      </button>
      {hidden.size > 0 && (
        <button class="quiet" onClick={() => put([...hidden].filter((region) => back.length > 0 && !back.includes(region)))}>
          {back.length ? "Show them again" : `Show all ${hidden.size} again`}
        </button>
      )}
    </div>
  );
}

function hiddenRegions(edits: readonly Record<string, unknown>[], site: string): Set<number> {
  const hides = edits.filter((one) => one.do === "zero" && one.site === site && Array.isArray(one.rows));
  return new Set(hides.flatMap((one) => one.rows as number[]));
}

function toggled(list: readonly number[], one: number): number[] {
  return list.includes(one) ? list.filter((other) => other !== one) : [...list, one];
}

function step(event: KeyboardEvent, signal: { value: number[] }, rows: readonly number[], first: number, count: number): void {
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by === undefined) return;
  const to = Math.min(first + count - 1, Math.max(first, Math.max(...rows) + by));
  signal.value = event.shiftKey ? [...new Set([...rows, to])] : [to];
  (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-row="${to}"]`)?.focus();
  event.preventDefault();
}
