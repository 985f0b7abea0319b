// From what stands on the screen (tokens, or words of several tokens) to positions of the model, and back.

import type { Read, SiteInfo } from "./protocol";

type Spans = readonly (readonly [number, number])[] | null;

function span(spans: Spans, place: number): number[] {
  if (spans === null) return [place];
  const [first, last] = spans[place] ?? [place, place + 1];
  return Array.from({ length: last - first }, (_, at) => first + at);
}

/** The positions of a row of a map. Row j of a map with `ahead` is named by token j + 1, at position j. */
export function rowPositions(read: Read, site: SiteInfo, row: number): number[] {
  if (site.row_side === "whole") return [row];
  if (site.row_side === "given") return span(read.given_spans, row);
  if (read.spans === null) return [row];
  return span(read.spans, row + site.ahead).map((position) => position - site.ahead);
}

export function columnPositions(read: Read, site: SiteInfo, column: number): number[] {
  return span(site.column_side === "given" ? read.given_spans : read.spans, column);
}

/** The positions of a token, or of the tokens of a word. */
export function positionsOf(read: Read, place: number): number[] {
  return span(read.spans, place);
}

/** The position of the model after which the token (or word) at a place is predicted. */
export function predictedAfter(read: Read, place: number): number {
  const before = span(read.spans, place - 1);
  return before[before.length - 1]!;
}

/** Whether a row may attend to a column. */
export function sees(site: SiteInfo, row: number, column: number, columns: number): boolean {
  if (site.extra && column === site.first_column + columns - 1) return true;
  return !site.causal || column <= row;
}

/** Whether the numbers of a row can be asked: a file holds those that were recorded. */
export function isKnown(site: SiteInfo, row: number): boolean {
  return site.known === null || site.known.includes(row);
}

/** The gold links of a map of the target over the source, as positions of rows and columns. */
export function goldLinks(read: Read, site: SiteInfo): [number, number][] {
  if (site.holds !== "weights" || site.row_side !== "read" || site.column_side !== "given") return [];
  return (read.right ?? []).map(([row, column]) => [site.first + row, site.first_column + column]);
}

export function rowNames(read: Read, site: SiteInfo): string[] {
  return read.axes[site.rows]!;
}

export function columnNames(read: Read, site: SiteInfo): string[] {
  if (read.image && site.column_side === "given") return read.axes[site.columns]!.map((number) => `region ${number}`);
  return site.columns < 0 ? Array.from({ length: -site.columns }, (_, at) => String(at)) : read.axes[site.columns]!;
}

/** The site that is shown first: attention over a source, else the first weights, else the first values. */
export function siteOf(read: Read, wanted: string | null): SiteInfo | null {
  const weights = read.sites.filter((site) => site.holds === "weights");
  return (
    read.sites.find((site) => site.name === wanted) ??
    weights.find((site) => site.column_side === "given" && site.row_side === "read") ??
    weights[0] ??
    read.sites.find((site) => site.heads.length > 1) ??
    read.sites[0] ??
    null
  );
}
