// The edits of a model, with undo and redo. An edit is the same JSON as for `regard look --edit`.

import { shell } from "./format";
import type { Scene } from "./protocol";

export type Edit = Record<string, unknown> & { do: string; site: string };

export interface History {
  readonly done: readonly (readonly Edit[])[]; // every state, the last one is in effect
  readonly undone: readonly (readonly Edit[])[];
}

export const EMPTY: History = { done: [[]], undone: [] };

export function current(history: History): readonly Edit[] {
  return history.done[history.done.length - 1]!;
}

/** Begin a new state. With `same`, the state replaces the last one: a drag is one step. */
export function change(history: History, edits: readonly Edit[], same = false): History {
  const before = same && history.done.length > 1 ? history.done.slice(0, -1) : history.done;
  return { done: [...before, edits].slice(-200), undone: [] };
}

export function undo(history: History): History {
  if (history.done.length < 2) return history;
  return { done: history.done.slice(0, -1), undone: [...history.undone, current(history)] };
}

export function redo(history: History): History {
  const next = history.undone[history.undone.length - 1];
  return next === undefined ? history : { done: [...history.done, next], undone: history.undone.slice(0, -1) };
}

/** Add an edit. An edit of the same kind at the same place replaces the earlier one. */
export function add(edits: readonly Edit[], edit: Edit): Edit[] {
  const place = (one: Edit) => {
    const { value: _value, by: _by, share: _share, ...rest } = one;
    return JSON.stringify(Object.entries(rest).sort());
  };
  return [...edits.filter((one) => place(one) !== place(edit)), edit];
}

/** Silence a head, or let it speak again. */
export function toggleSilence(edits: readonly Edit[], site: string, head: number): Edit[] {
  const is = (one: Edit) => one.do === "silence" && one.site === site && String(one.heads) === String([head]);
  return edits.some(is) ? edits.filter((one) => !is(one)) : [...edits, { do: "silence", site, heads: [head] }];
}

export function isSilent(edits: readonly Edit[], site: string, head: number): boolean {
  return edits.some(
    (one) =>
      one.do === "silence" && one.site === site && (one.heads === undefined || (one.heads as number[]).includes(head)),
  );
}

/** An edit in a few words. `name` gives the word at a position. */
export function inWords(edit: Edit, row: (place: number) => string, column: (place: number) => string): string {
  const list = (value: unknown, name: (place: number) => string) =>
    Array.isArray(value) ? value.map((place) => `“${name(place as number)}”`).join(" ") : "";
  const parts = [];
  if (Array.isArray(edit.heads)) parts.push(`head ${edit.heads.join(", ")}`);
  if (Array.isArray(edit.words)) parts.push(`of “${edit.words.join("” “")}”`);
  if (Array.isArray(edit.rows)) parts.push(`at ${list(edit.rows, row)}`);
  if (Array.isArray(edit.columns)) parts.push(`to ${list(edit.columns, column)}`);
  if (typeof edit.source === "number") parts.push(`from “${column(edit.source)}” to “${column(edit.to as number)}”`);
  if (typeof edit.value === "number") parts.push(`= ${edit.value}`);
  if (typeof edit.by === "number") parts.push(`by ${edit.by}`);
  if (typeof edit.share === "number") parts.push(`share ${edit.share}`);
  if (typeof edit.text === "string") parts.push(`from “${edit.text}”`);
  return `${edit.do} ${edit.site} ${parts.join(" ")}`.trim();
}

const SCENES = "lab-scenes"; // the folder of the scenes that a copied command looks at
const COUNT = 12; // of the scenes that the server offers

/** The file of an image, as a command names it. Drawn scenes are written first. */
function imageFile({ id, file }: Seen): string {
  return file ?? `${SCENES}/${id.padStart(2, "0")}.png`;
}

type Seen = Pick<Scene, "id" | "file">;

/** What a model reads: a text, a sentence with its translation, or an image with its caption. */
export interface Input {
  path: string; // of the run
  text: string;
  target: string | null;
  scene: Seen | null; // the image of a captioner
}

export function asCommand({ path, text, target, scene }: Input, edits: readonly Edit[]): string {
  const edit = `--edit ${shell(JSON.stringify(edits))}`;
  if (scene !== null) {
    const draw = scene.file === null ? `[ -d ${SCENES} ] || regard scenes ${SCENES} --unseen --count ${COUNT}; ` : "";
    const file = scene.file === null ? imageFile(scene) : shell(scene.file);
    return `${draw}regard look ${shell(path)} --image ${file} --text ${shell(target ?? "")} ${edit}`;
  }
  const pair = target === null ? "" : ` --target ${shell(target)}`;
  return `regard look ${shell(path)} --text ${shell(text)}${pair} ${edit}`;
}

export function asPython({ path, text, target, scene }: Input, edits: readonly Edit[]): string {
  const quoted = (value: string) => JSON.stringify(value).replace(/\u2028/g, "\\u2028");
  const pair = target === null || scene !== null ? "" : `, target=${quoted(target)}`;
  const image = scene === null ? "" : `, image=${quoted(imageFile(scene))}`;
  const draw = ["from pathlib import Path", `if not Path("${SCENES}").exists():`, `    regard.scenes("${SCENES}", count=${COUNT}, unseen=True)`];
  return [
    "import regard",
    ...(scene === null || scene.file !== null ? [] : draw),
    "",
    `edits = ${quoted(JSON.stringify(edits))}`,
    `looked = regard.look(${quoted(path)}, ${quoted(scene === null ? text : (target ?? ""))}${image}${pair}, edit=edits)`,
    "looked.before, looked.record",
    "",
  ].join("\n");
}
