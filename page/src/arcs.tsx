import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { average, useNames, useRows } from "./attend";
import { useStore } from "./context";
import { bare, visible } from "./format";
import { GoldKey } from "./gold";
import { goldLinks, isKnown } from "./positions";
import { Weights, type MapProps } from "./weights";

const LINE = 30; // the height of a word, in pixels; the style sheet has the same
const MOST = 120; // words on each side
const FAINT = 0.08; // weights below are not drawn for rows that are not chosen

/** Words that attend on the left, words that are attended to on the right, and lines between them. */
export function Arcs({ read, of, site, head, rows }: MapProps) {
  const store = useStore();
  const names = useNames(read, site);
  const numbers = useRows(of, site, rows);
  const hovered = useSignal<number | null>(null);
  const column = useSignal<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const tile = useSignal<{ key: string; bytes: Uint8Array } | null>(null);
  const last = Math.max(...rows);
  const from = Math.max(site.first, Math.min(last - MOST + 20, site.first + names.rows.length - MOST));
  const fromColumn = site.row_side === site.column_side ? Math.max(from, site.first_column) : site.first_column;
  const rowCount = Math.min(MOST, names.rows.length - (from - site.first));
  const columnCount = Math.min(MOST, names.columns.length - (fromColumn - site.first_column));
  const key = JSON.stringify([of, site.name, head, from, fromColumn, rowCount, columnCount]);
  useEffect(() => {
    let late = false;
    if (site.block > 1) return; // blocks of cells are no lines between words
    store.channel
      .tile({ of, site: site.name, head, row: from, column: fromColumn, rows: rowCount, columns: columnCount }, "arcs")
      .then((bytes) => !late && (tile.value = { key, bytes }), (error: unknown) => void store.failed(error));
    return () => {
      late = true;
    };
  }, [key]);
  const exact = numbers ? average(numbers.after, head) : null;
  const middle = (place: number) => place * LINE + LINE / 2;
  const path = (row: number, to: number) => {
    const [a, b] = [middle(row - from), middle(to - fromColumn)];
    return `M0 ${a}C50 ${a} 50 ${b} 100 ${b}`;
  };

  const faint = [];
  if (tile.value?.bytes.length === rowCount * columnCount)
    for (let row = 0; row < rowCount; row++)
      for (let to = 0; to < columnCount; to++) {
        if (site.extra && to + fromColumn === site.first_column + names.columns.length - 1) continue; // not a word
        const share = (tile.value.bytes[row * columnCount + to]! / 255) ** 2;
        const over = hovered.value === row + from || column.value === to + fromColumn;
        if (over ? share > 0.01 : share > FAINT && !rows.includes(row + from))
          faint.push(
            <path
              key={`${row}-${to}`}
              class={over ? "over" : "faint"}
              d={path(row + from, to + fromColumn)}
              stroke-width={0.6 + 3 * share}
              opacity={over ? 0.25 + 0.75 * Math.sqrt(share) : 0.3 * share}
            />,
          );
      }

  const gold = goldLinks(read, site).filter(([row, to]) => row >= from && row < from + rowCount && to >= fromColumn && to < fromColumn + columnCount);
  const pick = (row: number, several: boolean) => {
    if (!isKnown(site, row)) return;
    const has = store.rows.value.includes(row);
    if (!several) store.rows.value = [row];
    else if (has && store.rows.value.length > 1) store.rows.value = store.rows.value.filter((one) => one !== row);
    else if (!has) store.rows.value = [...rows, row].sort((a, b) => a - b);
  };
  const keys = (event: KeyboardEvent) => {
    const found = (event.target as HTMLElement).closest<HTMLElement>("[data-row]");
    const here = found ? Number(found.dataset.row) : last;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      let to = here;
      for (let next = here + step; next >= from && next < from + rowCount && to === here; next += step) if (isKnown(site, next)) to = next;
      pick(to, event.shiftKey);
      box.current?.querySelector<HTMLElement>(`[data-row="${to}"]`)?.focus();
    } else if (event.key === " " || event.key === "Enter") pick(here, true);
    else return;
    event.preventDefault();
  };
  const shownColumns = Array.from({ length: columnCount }, (_, at) => fromColumn + at);
  return (
    <>
      {(names.rows.length > MOST || names.columns.length > MOST) && (
        <p class="note">
          {rowCount} of {names.rows.length} words, up to the chosen one; the map shows all.
        </p>
      )}
      <div class="arcs" ref={box}>
        <div class="from" role="listbox" aria-label="Words that attend" aria-multiselectable="true" onKeyDown={keys}>
          {Array.from({ length: rowCount }, (_, at) => {
            const row = from + at;
            const chosen = rows.includes(row);
            return (
              <span
                key={row}
                role="option"
                data-row={row}
                aria-selected={chosen}
                tabIndex={row === last ? 0 : -1}
                class={chosen ? "word chosen" : isKnown(site, row) ? "word" : "word unknown"}
                aria-disabled={!isKnown(site, row)}
                title={`${visible(names.rows[row - site.first]!)}${isKnown(site, row) ? "" : ": this row was not recorded"}`}
                onClick={(event) => pick(row, event.ctrlKey || event.metaKey || event.shiftKey)}
                onMouseEnter={() => (hovered.value = row)}
                onMouseLeave={() => (hovered.value = null)}
              >
                {bare(names.rows[row - site.first]!)}
              </span>
            );
          })}
        </div>
        <svg
          class="lines"
          viewBox={`0 0 100 ${Math.max(rowCount, columnCount) * LINE}`}
          preserveAspectRatio="none"
          style={{ height: `${Math.max(rowCount, columnCount) * LINE}px` }}
          role="img"
          aria-label={`Lines from each word to the words that it attends to, ${head < 0 ? "mean of all heads" : site.heads[head]}`}
        >
          {gold.map(([row, to]) => (
            <path key={`g${row}-${to}`} class="gold" d={path(row, to)} />
          ))}
          {faint}
          {exact &&
            rows
              .filter((row) => row >= from)
              .map((row) =>
                shownColumns.map((to) => {
                  const share = own(numbers!.after, head, rows.indexOf(row), to - site.first_column);
                  return (
                    share > 0.004 && (
                      <path key={`c${row}-${to}`} class="chosen" d={path(row, to)} stroke-width={1 + 6 * share} opacity={0.15 + 0.85 * Math.sqrt(share)} />
                    )
                  );
                }),
              )}
        </svg>
        <Weights read={read} of={of} site={site} head={head} rows={rows} columns={shownColumns} numbers={numbers} hover={(at) => (column.value = at)} />
      </div>
      {gold.length > 0 && <GoldKey />}
      <p class="muted small">
        Choose a word on the left (several with Shift or Ctrl).
        {store.host.edits &&
          " Drag a bar on the right, or type its number; the other weights of the row share the rest. Drag a word onto another to move its weight."}
        {site.known !== null && " The rows of the pale words were not recorded."}
      </p>
    </>
  );
}

function own(numbers: number[][][], head: number, row: number, column: number): number {
  if (head >= 0) return (numbers[head] ?? numbers[0]!)[row]?.[column] ?? 0;
  return numbers.reduce((sum, one) => sum + (one[row]?.[column] ?? 0), 0) / numbers.length;
}
