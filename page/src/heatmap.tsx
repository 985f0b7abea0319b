import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useNames } from "./attend";
import { palette, sequential, signed } from "./colour";
import { useStore } from "./context";
import { bare, weight } from "./format";
import { GoldKey } from "./gold";
import { goldLinks, isKnown } from "./positions";
import type { MapProps } from "./weights";

const TILE = 128; // cells of a tile in each direction
const NAMED = 12; // from this size of a cell on, words stand at the axes
const SIZES = [1, 2, 4, 8, 12, 16, 22, 30];
const KEPT = 300; // tiles that are remembered

interface Tile {
  picture: OffscreenCanvas | null; // null while the server computes it
  bytes: Uint8Array | null;
}

/** A heat map of any size. The server sends the tiles that are in sight, as bytes. */
export function HeatMap({ read, of, site, head, rows }: MapProps) {
  const store = useStore();
  const names = useNames(read, site);
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const tiles = useRef(new Map<string, Tile>());
  const shown = useRef(new Map<string, Tile>()); // of the last reading: drawn until the new tiles are there
  const cursor = useSignal<{ row: number; column: number } | null>(null);
  const [height, width] = [names.rows.length, names.columns.length];
  const size = useSignal(0); // 0: as large as the room allows
  const room = useSignal(0);
  const weighs = site.holds === "weights";
  const gold = goldLinks(read, site);
  const theme = store.theme.value;

  const fit = room.value > 0 ? Math.min(30, (room.value - 90) / Math.max(width, 1)) : 8;
  const cell = size.value || (fit >= 1 ? Math.floor(fit) : fit);
  const tall = weighs ? cell : Math.max(cell, size.value ? cell : Math.min(22, Math.max(cell, 420 / height))); // of values, rows are few
  const named = tall >= NAMED;
  const left = named ? 86 : 8;
  const top = cell >= NAMED && weighs ? 76 : 8;
  const block = Math.max(site.block, cell >= 1 ? 1 : 2 ** Math.ceil(Math.log2(1 / cell)));
  const key = JSON.stringify([of, site.name, head]);
  const gain = weighs ? gainOf(width) : 1;

  const drawing = useRef(() => {});
  const draw = () => drawing.current(); // always with the numbers of the last rendering
  drawing.current = () => {
    const view = canvas.current;
    const box = scroller.current;
    if (!view || !box) return;
    const ratio = devicePixelRatio || 1;
    const [wide, high] = [box.clientWidth, box.clientHeight];
    if (view.width !== Math.round(wide * ratio) || view.height !== Math.round(high * ratio)) {
      view.width = Math.round(wide * ratio);
      view.height = Math.round(high * ratio);
      view.style.width = `${wide}px`;
      view.style.height = `${high}px`;
    }
    const pen = view.getContext("2d")!;
    const style = getComputedStyle(box);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, wide - left, high - top);
    pen.clip();
    pen.imageSmoothingEnabled = false;
    pen.fillStyle = `rgb(${(weighs ? sequential(0, theme) : signed(0, theme)).join(" ")})`;
    pen.fillRect(left - box.scrollLeft, top - box.scrollTop, width * cell, height * tall);
    const [span, fall] = [TILE * block * cell, TILE * block * tall];
    const [x0, y0] = [left - box.scrollLeft, top - box.scrollTop];
    for (let down = Math.floor(Math.max(0, box.scrollTop) / fall); down * TILE * block < height && y0 + down * fall < high; down++)
      for (let across = Math.floor(Math.max(0, box.scrollLeft) / span); across * TILE * block < width && x0 + across * span < wide; across++) {
        const tile = need(down, across);
        if (tile?.picture) pen.drawImage(tile.picture, x0 + across * span, y0 + down * fall, span, fall);
      }
    pen.strokeStyle = style.getPropertyValue("--gold");
    pen.lineWidth = 2;
    for (const [row, column] of gold)
      pen.strokeRect(x0 + (column - site.first_column) * cell + 1, y0 + (row - site.first) * tall + 1, Math.max(2, cell - 2), Math.max(2, tall - 2));
    pen.strokeStyle = style.getPropertyValue("--accent");
    pen.lineWidth = 1.5;
    for (const row of rows) pen.strokeRect(x0, y0 + (row - site.first) * tall, width * cell, Math.max(2, tall));
    if (cursor.value) pen.strokeRect(x0 + cursor.value.column * cell, y0 + cursor.value.row * tall, Math.max(3, cell), Math.max(3, tall));
    pen.restore();
    if (!named) return;
    pen.fillStyle = style.color;
    pen.font = `12px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (let row = Math.max(0, Math.floor((top - y0) / tall)); row < height && y0 + row * tall < high; row++) {
      const y = y0 + (row + 0.5) * tall;
      if (y > top - 2) pen.fillText(cut(bare(names.rows[row]!), 11), left - 8, y);
    }
    if (!weighs || cell < NAMED) return;
    pen.textAlign = "left";
    for (let column = Math.max(0, Math.floor((left - x0) / cell)); column < width && x0 + column * cell < wide; column++) {
      const x = x0 + (column + 0.5) * cell;
      if (x < left) continue;
      pen.save();
      pen.translate(x, top - 8);
      pen.rotate(-Math.PI / 3);
      pen.fillText(cut(bare(names.columns[column]!), 10), 0, 0);
      pen.restore();
    }
  };

  const need = (down: number, across: number): Tile | undefined => {
    const name = `${block}/${down}/${across}`;
    const known = tiles.current.get(name);
    if (known) return known.picture ? known : shown.current.get(name);
    const cells = TILE * block;
    if (site.causal && !site.extra && site.first_column + across * cells > site.first + (down + 1) * cells - 1) return undefined;
    const waiting: Tile = { picture: null, bytes: null };
    const mine = tiles.current;
    mine.set(name, waiting);
    if (mine.size > KEPT) mine.delete(mine.keys().next().value!);
    store.channel
      .tile(
        { of, site: site.name, head, row: site.first + down * cells, column: site.first_column + across * cells, rows: cells, columns: cells, block, gain },
        `tile/${name}`,
      )
      .then(
        (bytes) => {
          waiting.bytes = bytes;
          waiting.picture = picture(bytes, palette(weighs, store.theme.value));
          if (mine === tiles.current) requestAnimationFrame(draw);
        },
        (error: unknown) => {
          mine.delete(name);
          void store.failed(error);
        },
      );
    return shown.current.get(name);
  };

  useEffect(() => {
    const watcher = new ResizeObserver(() => {
      room.value = scroller.current?.clientWidth ?? 0;
      requestAnimationFrame(draw);
    });
    watcher.observe(scroller.current!);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    shown.current = tiles.current;
    tiles.current = new Map();
  }, [key, theme]);
  useEffect(() => {
    const frame = requestAnimationFrame(draw);
    return () => cancelAnimationFrame(frame);
  });

  const at = (event: MouseEvent) => {
    const box = scroller.current!;
    const edge = box.getBoundingClientRect();
    const column = Math.floor((event.clientX - edge.left - left + box.scrollLeft) / cell);
    const row = Math.floor((event.clientY - edge.top - top + box.scrollTop) / tall);
    return row >= 0 && row < height && column >= 0 && column < width ? { row, column } : null;
  };
  const pick = (row: number, several: boolean) => {
    const place = row + site.first;
    if (!isKnown(site, place)) return;
    store.rows.value = several ? [...new Set([...rows, place])].sort((a, b) => a - b) : [place];
  };
  const keys = (event: KeyboardEvent) => {
    const step = ({ ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] } as Record<string, [number, number]>)[event.key];
    const here = cursor.value ?? { row: Math.max(...rows) - site.first, column: 0 };
    if (step) {
      cursor.value = { row: bound(here.row + step[0], height), column: bound(here.column + step[1], width) };
      const box = scroller.current!;
      const [x, y] = [cursor.value.column * cell, cursor.value.row * tall];
      const [w, h] = [box.clientWidth - left - 2 * cell, box.clientHeight - top - 2 * tall];
      box.scrollLeft = Math.min(x, Math.max(box.scrollLeft, x - w));
      box.scrollTop = Math.min(y, Math.max(box.scrollTop, y - h));
    } else if (event.key === "Enter" || event.key === " ") pick(here.row, event.shiftKey);
    else if (event.key === "+") zoom(1);
    else if (event.key === "-") zoom(-1);
    else return;
    event.preventDefault();
  };
  const zoom = (way: 1 | -1) => {
    const next = way > 0 ? SIZES.find((one) => one > cell + 0.01) : [...SIZES].reverse().find((one) => one < cell - 0.01);
    size.value = next === undefined ? (way > 0 ? 30 : 0) : next <= fit && way < 0 && fit < 1 ? 0 : next;
  };
  const number = cursor.value ? value(tiles.current, cursor.value.row, cursor.value.column, block, weighs ? -1 / gain : site.most) : null;
  const room_high = Math.min(560, height * tall + top + 14);
  return (
    <section class="map" aria-label="Heat map">
      <div class="zoom">
        <button class="quiet" aria-label="Smaller cells" onClick={() => zoom(-1)}>
          −
        </button>
        <button class="quiet" aria-label="Larger cells" onClick={() => zoom(1)}>
          +
        </button>
        <button class="quiet" onClick={() => (size.value = 0)}>
          Fit
        </button>
        <p class="readout" role="status">
          {cursor.value ? (
            <>
              <q>{bare(names.rows[cursor.value.row]!)}</q> → {weighs ? <q>{bare(names.columns[cursor.value.column]!)}</q> : `feature ${cursor.value.column}`}
              {number !== null && (
                <>
                  {" "}
                  <strong>{weighs && gain > 1 && number > 0.99 / gain ? "≥" : site.block > 1 ? "≤" : "≈"} {Math.abs(number) < 0.0005 && number ? number.toExponential(0) : weight(number)}</strong>
                </>
              )}
            </>
          ) : (
            `${height} × ${width}${weighs ? " words" : " (positions × features)"}${site.block > 1 ? `: each square is the largest weight of ${site.block} × ${site.block}` : ""}`
          )}
        </p>
      </div>
      <div
        ref={scroller}
        class="scroller"
        tabIndex={0}
        role="application"
        aria-label={`Map of ${site.name}. Arrow keys move, Enter chooses the row.`}
        style={{ height: `${room_high}px` }}
        onScroll={() => requestAnimationFrame(draw)}
        onMouseMove={(event) => (cursor.value = at(event))}
        onMouseLeave={() => (cursor.value = null)}
        onClick={(event) => {
          const found = at(event);
          if (found) pick(found.row, event.shiftKey || event.ctrlKey || event.metaKey);
        }}
        onKeyDown={keys}
      >
        <canvas ref={canvas} />
        <div class="extent" style={{ width: `${left + width * cell}px`, height: `${top + height * tall}px` }} />
      </div>
      {gold.length > 0 && <GoldKey />}
    </section>
  );
}

function picture(bytes: Uint8Array, colours: Uint32Array): OffscreenCanvas {
  const made = new OffscreenCanvas(TILE, TILE);
  const pen = made.getContext("2d")!;
  const image = pen.createImageData(TILE, TILE);
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0; at < pixels.length; at++) pixels[at] = colours[bytes[at]!]!;
  pen.putImageData(image, 0, 0);
  return made;
}

/** From this length on, colours are relative to a row that attends equally, so that long texts are not pale. */
export function gainOf(columns: number): number {
  return Math.max(1, columns / 24);
}

/** The number of a cell, as exact as its byte. Weights have `most` below 0: the largest that a byte can hold. */
function value(tiles: Map<string, Tile>, row: number, column: number, block: number, most: number): number | null {
  const cells = TILE * block;
  const bytes = tiles.get(`${block}/${Math.floor(row / cells)}/${Math.floor(column / cells)}`)?.bytes;
  if (!bytes) return null;
  const byte = bytes[Math.floor((row % cells) / block) * TILE + Math.floor((column % cells) / block)]!;
  return most < 0 ? -most * (byte / 255) ** 2 : ((byte - 128) / 127) * most;
}

function cut(word: string, letters: number): string {
  return word.length > letters ? `${word.slice(0, letters - 1)}…` : word;
}

function bound(place: number, size: number): number {
  return Math.min(size - 1, Math.max(0, place));
}
