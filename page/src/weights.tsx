import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { average, useNames, type RowNumbers } from "./attend";
import { useStore } from "./context";
import { add, type Edit } from "./edits";
import { bare, percent, signedPercent, weight } from "./format";
import { columnPositions, rowPositions, sees } from "./positions";
import type { Read, ReadQuestion, SiteInfo } from "./protocol";

export interface MapProps {
  read: Read;
  of: ReadQuestion;
  site: SiteInfo;
  head: number;
  rows: readonly number[];
}

interface Props extends MapProps {
  numbers: RowNumbers | null;
  titled?: boolean;
  columns?: readonly number[]; // the places that are shown; without them, all that the rows see
  hover?: (column: number | null) => void;
}

const STEP = 0.01;
const MOST = 100; // bars

/** The weights of the chosen rows, one bar for each word. A bar is dragged, or its number typed. */
export function Weights(props: Props) {
  const { read, of, site, head, rows, titled, hover, numbers } = props;
  const store = useStore();
  const names = useNames(read, site);
  const dragging = useSignal<{ column: number; value: number; held: boolean } | null>(null);
  const carried = useSignal<number | null>(null); // the word whose weight is being moved
  const failed = store.reading.value?.error != null;
  const settled = failed || (numbers?.fresh && JSON.stringify(of.edits) === JSON.stringify(store.edits.value));
  useEffect(() => {
    // a bar that was let go keeps its place until the model has answered
    if (settled && dragging.value && !dragging.value.held) dragging.value = null;
  }, [settled, dragging.value]);
  const after = numbers ? average(numbers.after, head) : null;
  const before = numbers ? average(numbers.before, head) : null;
  const row = Math.max(...rows);
  const all = names.columns.map((_, at) => site.first_column + at);
  const seen = props.columns ?? all.filter((column) => sees(site, row, column, all.length));
  const columns = props.columns ? seen : largest(seen, (column) => after?.[column - site.first_column] ?? 0);
  const changed = (of.edits?.length ?? 0) > 0;
  const visible = (column: number) => !(site.extra && column === all[all.length - 1]) && sees(site, row, column, all.length);
  const editable = (column: number) => store.host.edits && visible(column) && site.holds === "weights";

  const base = (): Omit<Edit, "do"> & { site: string } => ({
    site: site.name,
    ...(head >= 0 && site.heads.length > 1 ? { heads: [head] } : {}),
    rows: rows.flatMap((one) => rowPositions(read, site, one)),
  });
  const set = (column: number, value: number, same: boolean) => {
    const positions = columnPositions(read, site, column);
    const share = Number((Math.min(1, Math.max(0, value)) / positions.length).toFixed(4));
    store.edit(add(store.edits.value, { do: "set", ...base(), columns: positions, value: share }), same);
  };
  const move = (source: number, to: number) => {
    const target = columnPositions(read, site, to).at(-1)!;
    let next = [...store.edits.value];
    for (const position of columnPositions(read, site, source))
      next = add(next, { do: "move", ...base(), source: position, to: target, share: 1 });
    store.edit(next);
    carried.value = null;
  };

  return (
    <section class="weights" aria-label="Weights of the chosen words">
      {titled && (
        <h2 class="minor">
          <q>{rows.map((one) => bare(names.rows[one - site.first] ?? "")).join(" ")}</q> attends to
        </h2>
      )}
      {columns.length < seen.length && <p class="note">The {MOST} largest of {seen.length} weights.</p>}
      <ul>
        {columns.map((column) => {
          const at = column - site.first_column;
          const own = dragging.value?.column === column ? dragging.value.value : after?.[at];
          return (
            <Line
              key={column}
              name={bare(names.columns[at]!)}
              value={own ?? null}
              old={changed ? (before?.[at] ?? null) : null}
              editable={own !== undefined && editable(column)} // a weight that has not arrived cannot be changed
              pale={!visible(column)}
              carried={carried.value === column}
              carrying={carried.value !== null}
              hover={hover && ((inside) => hover(inside ? column : null))}
              drag={(value, same) => {
                dragging.value = { column, value, held: true };
                set(column, value, same);
              }}
              drop={() => dragging.value && (dragging.value = { ...dragging.value, held: false })}
              carry={() => (carried.value === null ? (carried.value = column) : carried.value === column ? (carried.value = null) : move(carried.value, column))}
            />
          );
        })}
      </ul>
      {carried.value !== null && (
        <p class="note" role="status">
          The weight of “{bare(names.columns[carried.value - site.first_column]!)}” goes to the next word that you choose.{" "}
          <button class="link" onClick={() => (carried.value = null)}>
            Cancel
          </button>
        </p>
      )}
    </section>
  );
}

/** Of a long text, the columns with the largest weights, in the order of the text. */
function largest(columns: readonly number[], weight: (column: number) => number): number[] {
  if (columns.length <= MOST) return [...columns];
  return [...columns].sort((a, b) => weight(b) - weight(a)).slice(0, MOST).sort((a, b) => a - b);
}

interface LineProps {
  name: string;
  value: number | null;
  old: number | null;
  editable: boolean;
  pale: boolean;
  carried: boolean;
  carrying: boolean;
  hover?: ((inside: boolean) => void) | undefined;
  drag: (value: number, same: boolean) => void;
  drop: () => void;
  carry: () => void;
}

function Line({ name, value, old, editable, pale, carried, carrying, hover, drag, drop, carry }: LineProps) {
  const track = useRef<HTMLDivElement>(null);
  const held = useRef(false);
  const at = (event: PointerEvent) => {
    const box = track.current!.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const keys = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: STEP, ArrowUp: STEP, ArrowLeft: -STEP, ArrowDown: -STEP, PageUp: 0.1, PageDown: -0.1 };
    const now = value ?? 0;
    const to = event.key in steps ? now + steps[event.key]! : event.key === "Home" ? 0 : event.key === "End" ? 1 : null;
    if (to === null) return;
    event.preventDefault();
    drag(Math.min(1, Math.max(0, to)), event.repeat);
    drop();
  };
  const share = value ?? 0;
  return (
    <li
      class={`${pale ? "line fixed" : "line"}${carried ? " carried" : ""}`}
      onMouseEnter={() => hover?.(true)}
      onMouseLeave={() => hover?.(false)}
      onDragOver={(event) => carrying && editable && event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        if (carrying && editable) carry();
      }}
    >
      {editable ? (
        <button
          class="word"
          draggable
          aria-pressed={carried}
          title={carrying ? `Move the weight to ${name}` : `Move the weight of ${name} to another word`}
          onDragStart={() => !carrying && carry()}
          onClick={carry}
        >
          {name}
        </button>
      ) : (
        <span class="word">{name}</span>
      )}
      <div
        ref={track}
        class="track"
        {...(editable
          ? {
              role: "slider",
              tabIndex: 0,
              "aria-label": `Weight of ${name}`,
              "aria-valuemin": 0,
              "aria-valuemax": 1,
              "aria-valuenow": Number(share.toFixed(3)),
              "aria-valuetext": percent(share),
              onKeyDown: keys,
              onPointerDown: (event: PointerEvent) => {
                if (event.button !== 0) return;
                held.current = true;
                track.current!.setPointerCapture(event.pointerId);
                drag(at(event), false);
              },
              onPointerMove: (event: PointerEvent) => held.current && drag(at(event), true),
              onPointerUp: () => {
                held.current = false;
                drop();
              },
              onPointerCancel: () => {
                held.current = false;
                drop();
              },
            }
          : {})}
      >
        <span class="fill" style={{ width: `${share * 100}%` }} />
        {old !== null && Math.abs(old - share) > 0.0005 && <span class="was" style={{ left: `${old * 100}%` }} title={`before: ${weight(old)}`} />}
      </div>
      {editable ? (
        <input
          class="number"
          inputMode="decimal"
          aria-label={`Weight of ${name}, as a number`}
          value={value === null ? "" : weight(share)}
          onChange={(event) => {
            const to = Number(event.currentTarget.value.replace(",", "."));
            if (Number.isFinite(to) && to >= 0 && to <= 1) drag(to, false);
            else event.currentTarget.value = weight(share);
            drop();
          }}
        />
      ) : (
        <span class="number">{value === null ? "" : weight(share)}</span>
      )}
      <span class="difference">{old !== null && Math.abs(old - share) > 0.0005 ? signedPercent(share - old) : ""}</span>
    </li>
  );
}
