// The page in a file asks its questions here. The answers were recorded; nothing is computed by a model.

import type { Host, Channel } from "./channel";
import { Failed } from "./channel";
import type {
  MosaicQuestion, Next, NextQuestion, Packed, ReadQuestion, RecordedMap, RecordedModel, RecordedVersion, Recording, Rows,
  RowsQuestion, SiteInfo, TileQuestion,
} from "./protocol";

/** The unpacked numbers of a map: (heads, rows, columns). */
export interface Numbers {
  shape: [number, number, number];
  data: Float32Array;
}

const refused = () => Promise.reject(new Failed("A file holds what was recorded: open the model in the lab."));

export function recordedChannel(recording: Recording): Channel {
  const held = recording.models.map((model) => model.after.read);
  const host: Host = {
    title: recording.title,
    views: held.some((read) => read.surprisal.some((nats) => nats !== null)) ? ["read", "attend"] : ["attend"],
    asks: false,
    edits: false,
    saves: false,
    start: recording.view,
    address: location.protocol !== "about:", // a frame in a notebook has no address
    theme: null,
  };
  const unpacked = new Map<Packed, Promise<Numbers>>();

  function model(of: ReadQuestion): RecordedModel {
    const found = recording.models.find((one) => one.info.id === of.run);
    if (!found) throw new Failed("This model was not recorded.");
    return found;
  }

  /** Only the model with all of its recorded changes, and the model without changes, were recorded. */
  function version(of: ReadQuestion): RecordedVersion {
    const { before, after } = model(of);
    return of.edits?.length ? after : (before ?? after);
  }

  function siteOf(of: ReadQuestion, name: string): { site: SiteInfo; map: RecordedMap } {
    const { read, maps } = version(of);
    const site = read.sites.find((one) => one.name === name);
    if (!site || !maps[name]) throw new Failed(`${name} was not recorded.`);
    return { site, map: maps[name] };
  }

  function numbersOf(packed: Packed): Promise<Numbers> {
    let numbers = unpacked.get(packed);
    if (!numbers) unpacked.set(packed, (numbers = unpack(packed)));
    return numbers;
  }

  return {
    host,
    runs: () => Promise.resolve({ runs: recording.models.map((one) => one.info), training: false }),
    read: async (question) => version(question).read,
    async next({ of, place }: NextQuestion): Promise<Next> {
      const next = model(of).next[place];
      if (!next) throw new Failed("The comparison at this word was not recorded.");
      return next;
    },
    async rows(question: RowsQuestion): Promise<Rows> {
      const { map } = siteOf(question.of, question.site);
      const { shape, data } = await numbersOf(map.numbers);
      const [heads, rows, columns] = shape;
      const places = question.rows.map((row) => map.rows.indexOf(row));
      if (places.includes(-1)) throw new Failed("This row was not recorded.");
      const line = (head: number, row: number) => Array.from(data.subarray((head * rows + row) * columns, (head * rows + row + 1) * columns));
      return { numbers: Array.from({ length: heads }, (_, head) => places.map((row) => line(head, row))) };
    },
    async tile(question: TileQuestion): Promise<Uint8Array> {
      const { site, map } = siteOf(question.of, question.site);
      const numbers = await numbersOf(map.coarse ?? map.numbers);
      return tile(site, plane(numbers, question.head), map.coarse ? null : map.rows, question);
    },
    async mosaic(question: MosaicQuestion): Promise<Uint8Array> {
      const parts: Uint8Array[] = [];
      for (const name of question.sites) {
        const { site, map } = siteOf(question.of, name);
        const numbers = await numbersOf(map.coarse ?? map.numbers);
        for (let head = 0; head < numbers.shape[0]; head++) parts.push(small(site, plane(numbers, head), question.size ?? 32, question.gain ?? 1));
      }
      const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
      let at = 0;
      for (const part of parts) {
        bytes.set(part, at);
        at += part.length;
      }
      return bytes;
    },
    write(_question, _piece, end) {
      end("A file cannot write: open the model in the lab.");
      return () => {};
    },
    scenes: refused,
    add: refused,
    senses: refused,
    trained: refused,
    course: refused,
    lesson: refused,
    measure: refused,
    train: refused,
    training: refused,
    save: refused,
  };
}

/** Weights are packed as square roots, values as shares of the largest one around the middle level. */
export function numberAt(level: number, levels: number, most: number, weighs: boolean): number {
  if (weighs) return (level / levels) ** 2;
  const middle = (levels + 1) / 2;
  return ((level - middle) / (middle - 1)) * most;
}

async function unpack({ shape, levels, most, data, weighs }: Packed): Promise<Numbers> {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  const table = Float32Array.from({ length: levels + 1 }, (_, level) => numberAt(level, levels, most, weighs));
  const wide = levels > 255 ? 2 : 1;
  const numbers = new Float32Array(raw.length / wide);
  for (let at = 0; at < numbers.length; at++) numbers[at] = table[wide === 2 ? raw[2 * at]! + 256 * raw[2 * at + 1]! : raw[at]!]!;
  return { shape, data: numbers };
}

interface Plane {
  rows: number;
  columns: number;
  data: Float32Array;
}

/** The numbers of a head, or the mean of all heads if `head` is -1. */
function plane({ shape, data }: Numbers, head: number): Plane {
  const [heads, rows, columns] = shape;
  const size = rows * columns;
  if (head >= 0 || heads === 1) return { rows, columns, data: data.subarray(Math.max(0, head) * size, (Math.max(0, head) + 1) * size) };
  const mean = new Float32Array(size);
  for (let at = 0; at < data.length; at++) mean[at % size]! += data[at]! / heads;
  return { rows, columns, data: mean };
}

function level(number: number, site: SiteInfo, gain: number): number {
  if (site.holds === "weights") return Math.round(Math.sqrt(Math.min(1, number * gain)) * 255);
  return Math.min(255, Math.max(0, Math.round((number / (site.most || 1)) * 127 + 128)));
}

/** The bytes of a tile, as the server computes them. `rows` are the rows of the plane; null: all, in blocks. */
export function tile(site: SiteInfo, from: Plane, rows: readonly number[] | null, question: TileQuestion): Uint8Array {
  const block = question.block ?? 1;
  const [high, wide] = [Math.ceil(question.rows / block), Math.ceil(question.columns / block)];
  const bytes = new Uint8Array(high * wide).fill(site.holds === "weights" ? 0 : 128);
  const most = new Float32Array(high * wide);
  const [first, firstColumn] = [question.row - site.first, question.column - site.first_column];
  for (let row = 0; row < from.rows; row++) {
    // the cells of the map that a row of the plane stands for: one, or a block
    const down = (rows === null ? row * site.block : rows[row]! - site.first) - first;
    if (down < 0 || down >= question.rows) continue;
    const line = Math.floor(down / block) * wide;
    for (let column = 0; column < from.columns; column++) {
      const across = column * (rows === null ? site.block : 1) - firstColumn;
      if (across < 0 || across >= question.columns) continue;
      const at = line + Math.floor(across / block);
      const number = from.data[row * from.columns + column]!;
      if (Math.abs(number) > Math.abs(most[at]!)) most[at] = number;
    }
  }
  for (let at = 0; at < most.length; at++) if (most[at]) bytes[at] = level(most[at]!, site, question.gain ?? 1);
  return bytes;
}

/** A small map: the largest number of each block. */
export function small(site: SiteInfo, from: Plane, size: number, gain: number): Uint8Array {
  const [high, wide] = [Math.ceil(from.rows / size), Math.ceil(from.columns / size)];
  const most = new Float32Array(size * size);
  for (let row = 0; row < from.rows; row++)
    for (let column = 0; column < from.columns; column++) {
      const at = Math.floor(row / high) * size + Math.floor(column / wide);
      const number = from.data[row * from.columns + column]!;
      if (Math.abs(number) > Math.abs(most[at]!)) most[at] = number;
    }
  return Uint8Array.from(most, (number) => (number ? level(number, site, gain) : site.holds === "weights" ? 0 : 128));
}
