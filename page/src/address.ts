// The address bar holds the view: a link restores it.

import type { Edit } from "./edits";

export const VIEWS = ["read", "attend", "write", "doubt", "memory", "senses", "trained", "lessons"] as const;
export type View = (typeof VIEWS)[number];
export type Form = "arcs" | "map" | "mosaic";

export interface Place {
  view: View;
  runs: string[]; // names
  text: string | null;
  target: string | null;
  scene: string | null;
  words: boolean;
  site: string | null;
  head: number; // -1: the mean of all heads
  rows: number[];
  form: Form;
  edits: Edit[]; // of the first run
  lesson: string | null;
  settings: Record<string, string>; // the inputs of the lesson that were changed
}

export function encode(place: Place): string {
  const items = new URLSearchParams();
  for (const run of place.runs) items.append("run", run);
  if (place.text !== null) items.set("text", place.text);
  if (place.target !== null) items.set("target", place.target);
  if (place.scene !== null) items.set("scene", place.scene);
  if (place.words) items.set("words", "1");
  if (place.view === "attend") {
    if (place.site !== null) items.set("site", place.site);
    if (place.head >= 0) items.set("head", String(place.head));
    if (place.rows.length) items.set("rows", place.rows.join("."));
    if (place.form !== "arcs") items.set("form", place.form);
  }
  if (place.view === "lessons") {
    if (place.lesson !== null) items.set("lesson", place.lesson);
    for (const [name, value] of Object.entries(place.settings)) items.append("set", `${name}=${value}`);
  }
  if (place.edits.length) items.set("edit", JSON.stringify(place.edits));
  return `#${place.view}?${items}`;
}

export function decode(hash: string): Place {
  const [view = "", query = ""] = split(hash.replace(/^#/, ""));
  const items = new URLSearchParams(query);
  const head = Number(items.get("head") ?? -1);
  return {
    view: VIEWS.find((one) => one === view) ?? "read",
    runs: items.getAll("run"),
    text: items.get("text"),
    target: items.get("target"),
    scene: /^[\w-]{1,40}$/.test(items.get("scene") ?? "") ? items.get("scene") : null,
    words: items.get("words") === "1",
    site: items.get("site"),
    head: Number.isInteger(head) && head >= -1 ? head : -1,
    rows: (items.get("rows") ?? "").split(".").filter((row) => /^\d{1,6}$/.test(row)).map(Number).slice(0, 64),
    form: items.get("form") === "map" ? "map" : items.get("form") === "mosaic" ? "mosaic" : "arcs",
    edits: editsOf(items.get("edit")),
    lesson: items.get("lesson"),
    settings: Object.fromEntries(items.getAll("set").filter((one) => one.includes("=")).map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)])),
  };
}

function split(text: string): string[] {
  const mark = text.indexOf("?");
  return mark < 0 ? [text] : [text.slice(0, mark), text.slice(mark + 1)];
}

/** The edits of a link: objects with `do` and `site`. The server checks the rest. */
export function editsOf(json: string | null): Edit[] {
  if (!json) return [];
  try {
    const value: unknown = JSON.parse(json);
    const items: unknown[] = Array.isArray(value) ? value : [value];
    return items.filter(
      (one): one is Edit =>
        typeof one === "object" && one !== null && typeof (one as Edit).do === "string" && typeof (one as Edit).site === "string",
    );
  } catch {
    return [];
  }
}
