// Written by page/protocol.py from src/regard/page/protocol.py. Do not edit.

/** The input of a model. */
export interface ReadQuestion {
  run: string;
  text: string;
  target?: string | null;
  words?: boolean;
  top?: number;
  edits?: Record<string, unknown>[];
}

/** The numbers of some rows at a site, for every head. */
export interface RowsQuestion {
  of: ReadQuestion;
  site: string;
  rows: number[];
}

/** A part of a map as bytes, a byte for each block of cells; head -1 is the mean of all heads. */
export interface TileQuestion {
  of: ReadQuestion;
  site: string;
  head: number;
  row: number;
  column: number;
  rows: number;
  columns: number;
  block?: number;
  gain?: number;
}

/** A small map of each head at each site as bytes, `size` by `size` for each. */
export interface MosaicQuestion {
  of: ReadQuestion;
  sites: string[];
  size?: number;
  gain?: number;
}

/** The distribution of the token after a position, with and without the edits. */
export interface NextQuestion {
  of: ReadQuestion;
  place: number;
  top?: number;
}

/** A text to go on from. `ids` are tokens that were written before, after the prompt. */
export interface WriteQuestion {
  run: string;
  prompt: string;
  ids?: number[];
  length?: number;
  temperature?: number;
  top_k?: number | null;
  seed?: number;
  top?: number;
  edits?: Record<string, unknown>[];
}

/** A view to save as a file that opens offline. */
export interface SaveQuestion {
  of: ReadQuestion[];
  view: string;
}

/** Ask again for an answer that takes long. */
export interface WaitQuestion {
  ticket: string;
}

/** A line of the list of runs. */
export interface RunInfo {
  id: string;
  name: string;
  path: string;
  family: string;
  tokens: string;
  reads: "text" | "pairs";
  loss: number | null;
}

/** The list of runs, and whether the lab trains a model of its own. */
export interface Runs {
  runs: RunInfo[];
  training: boolean;
}

/** A site of a model that holds weights or values. Axes are numbers of `Read.axes`. */
export interface SiteInfo {
  name: string;
  holds: "weights" | "values";
  heads: string[];
  rows: number;
  columns: number;
  row_side: "read" | "given";
  column_side: "read" | "given";
  first: number;
  first_column: number;
  ahead: number;
  extra: boolean;
  most: number;
  block: number;
  known: number[] | null;
}

/** The predictions of a model at every position of a text, and the sites that can be looked at. */
export interface Read {
  tokens: string[];
  word: number[];
  spans: [number, number][] | null;
  given_spans: [number, number][] | null;
  surprisal: (number | null)[];
  ranks: (number | null)[];
  likeliest: [string, number][][];
  given: string[] | null;
  before: (number | null)[] | null;
  notes: string[];
  kind: string;
  vocabulary: number;
  axes: string[][];
  sites: SiteInfo[];
  terms: [string, number][][];
  terms_of: "probability" | "score" | null;
}

/** (heads, rows, columns) of a site. */
export interface Rows {
  numbers: number[][][];
}

/** A possible next token with its probability before and after the edits. */
export interface Chance {
  id: number;
  token: string;
  before: number;
  after: number;
}

/** The distribution after a position. `moved` is half the sum of all absolute differences. */
export interface Next {
  chances: Chance[];
  true: Chance | null;
  true_rank_before: number | null;
  true_rank_after: number | null;
  moved: number;
}

/** One written token. */
export interface Piece {
  id: number;
  token: string;
  text: string;
  probability: number;
  likeliest: [number, string, number][];
  ended: boolean;
}

/** The training of the lab's own model. */
export interface Progress {
  state: "none" | "starting" | "training" | "done" | "failed";
  seconds: number;
  limit: number;
  losses: ([number, number, number | null])[];
  sample: string;
  run: string | null;
  error: string;
}

/** Numbers (heads, rows, columns) as bytes, compressed and in base64. */
export interface Packed {
  shape: [number, number, number];
  weighs: boolean;
  levels: number;
  most: number;
  data: string;
}

/** The map of a site: some rows as they are, and of a long text all rows in blocks. */
export interface RecordedMap {
  rows: number[];
  numbers: Packed;
  coarse: Packed | null;
}

/** What a model said with or without the edits. */
export interface RecordedVersion {
  read: Read;
  maps: Record<string, RecordedMap>;
}

/** What a model said about a text. */
export interface RecordedModel {
  info: RunInfo;
  after: RecordedVersion;
  before: RecordedVersion | null;
  next: Next[];
}

/** The content of a file that opens offline. */
export interface Recording {
  title: string;
  view: string;
  models: RecordedModel[];
}

/** The envelope of every answer to a question. */
export interface Answer {
  state: "done" | "working" | "dropped" | "failed";
  ticket: string;
  error: string;
  result: unknown;
}
