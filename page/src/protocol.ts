// Written by page/protocol.py from protocol.py, messages.py and recorded.py. Do not edit.

/** The input of a model. */
export interface ReadQuestion {
  run: string;
  text: string;
  target?: string | null;
  scene?: string | number | null;
  words?: boolean;
  top?: number;
  edits?: Record<string, unknown>[];
  step?: number | null;
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

/** The images among which that of a captioner is chosen. */
export interface ScenesQuestion {
  run: string;
}

/** An image file that a person adds to those of a captioner. */
export interface AddQuestion {
  run: string;
  name: string;
  data: string;
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
  reads: "text" | "pairs" | "labels" | "captions" | "blanks";
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
  row_side: "read" | "given" | "whole";
  column_side: "read" | "given" | "whole";
  causal: boolean;
  first: number;
  first_column: number;
  ahead: number;
  extra: boolean;
  most: number;
  block: number;
  known: number[] | null;
}

/** A possible next token, or label, with its probability before and after the edits. */
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

/** The image that a captioner sees, with its regions. */
export interface Picture {
  data: string;
  width: number;
  height: number;
  columns: number;
  boxes: [number, number, number, number][];
  site: string;
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
  labels: Next | null;
  image: Picture | null;
  right: [number, number][] | null;
  fills: boolean;
}

/** (heads, rows, columns) of a site. */
export interface Rows {
  numbers: number[][][];
}

/** An image for a captioner. */
export interface Scene {
  id: string;
  data: string;
  caption: string;
  file: string | null;
}

/** The images to choose from. */
export interface Scenes {
  scenes: Scene[];
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

/** The envelope of every answer to a question. */
export interface Answer {
  state: "done" | "working" | "dropped" | "failed";
  ticket: string;
  error: string;
  result: unknown;
}

/** Asks how far attention can move at a prediction, and what other methods say of its words. */
export interface DoubtQuestion {
  of: ReadQuestion;
  place: number;
  word?: string | null;
  epsilon?: number;
}

/** Asks for the least change of attention that makes the model say a word, or give a label. */
export interface SayQuestion {
  of: ReadQuestion;
  place: number;
  say: string;
}

/** Asks for the scores and the label of each head. */
export interface HeadsQuestion {
  run: string;
}

/** Asks how far back a model remembers. */
export interface ForgetQuestion {
  run: string;
}

/** The senses of a word, and their terms in the score of the token after a position. */
export interface SensesQuestion {
  of: ReadQuestion;
  word: string;
  place: number;
  top?: number;
}

/** The record of a finished training. */
export interface TrainedQuestion {
  run: string;
}

/** The list of the lessons. */
export interface CourseQuestion {

}

/** A lesson with inputs that are written as after `--set`. */
export interface LessonQuestion {
  name: string;
  inputs: Record<string, string>;
}

/** The stage of a long measurement, and the share of its work that is done. */
export interface Stage {
  about: string;
  done: number | null;
}

/** The farthest weights of a site with which the prediction stays. Divergences are in nats. */
export interface MovedWeights {
  name: string;
  divergence: number;
  most: number;
  variation: number;
  entropy: number;
  permuted_divergence: number;
  permuted_variation: number;
  uniform_divergence: number;
  uniform_variation: number;
}

/** The scores of the words by one method, and the judgement of its order of words. */
export interface Method {
  name: string;
  scores: number[];
  comprehensiveness: number;
  sufficiency: number;
}

/** The measurements of one prediction. */
export interface Doubted {
  words: string[];
  target: string;
  probability: number;
  epsilon: number;
  moved: MovedWeights[];
  own: number[];
  farthest: number[];
  methods: Method[];
  disagreements: number[][];
  image: Picture | null;
}

/** A part of a change: the share of the weight of one word that goes to another. */
export interface LeastMove {
  site: string;
  head: number | null;
  source: string;
  to: string;
  share: number;
}

/** The least change in some sites that makes the model say a word. `moved` is None if none was found. */
export interface LeastChange {
  name: string;
  moved: number | null;
  before: number;
  after: number;
  moves: LeastMove[];
  edits: Record<string, unknown>[];
}

/** The changes of each site alone and of all sites together. */
export interface Said {
  word: string;
  changes: LeastChange[];
}

/** The share of a head's weight on the positions of a definition, and chance. */
export interface HeadScore {
  kind: string;
  value: number;
  chance: number;
}

/** The scores and the label of a head. */
export interface HeadInfo {
  site: string;
  head: number;
  label: string | null;
  entropy: number;
  scores: HeadScore[];
}

/** The scores and labels of all heads, with the definitions of the labels. */
export interface Heads {
  heads: HeadInfo[];
  kinds: Record<string, string>;
  notes: string[];
}

/** The rise of the loss if what lies beyond the last words is cut off, shuffled or thinned out. */
export interface Rise {
  change: string;
  beyond: number;
  rise: number;
  error: number;
}

/** The reach of a model. Curves are (distance, number). */
export interface Forgotten {
  loss: number;
  words: number;
  reach: [number, number][];
  rises: Rise[];
  holds: Record<string, [number, number][]>;
  notes: string[];
}

/** The words that a sense says, and the words whose sense of the same number is alike. */
export interface Sense {
  number: number;
  says: [string, number][];
  alike: [string, number][];
}

/** The senses of a word, and the terms of each sense of each word in the score of the next word. */
export interface Senses {
  senses: Sense[];
  tokens: string[];
  next: string;
  probability: number;
  terms: number[][];
  bias: number;
}

/** The record of a finished training. */
export interface Trained {
  losses: ([number, number, number | null])[];
  samples: [number, string][];
  frames: number[];
}

/** A lesson of the course. */
export interface LessonInfo {
  name: string;
  about: string;
  builds_on: string[];
}

/** The lessons in their order. */
export interface Course {
  lessons: LessonInfo[];
}

/** An input of a lesson, written as after `--set`. */
export interface LessonInput {
  name: string;
  value: string;
  usual: string;
}

/** A possible answer. */
export interface LessonChoice {
  text: string;
  reason: string;
  right: boolean;
}

/** A step of a lesson. The question is asked before the numbers are shown. */
export interface LessonStep {
  title: string;
  formula: string;
  math: string;
  intro: string;
  question: string;
  choices: LessonChoice[];
  picture: string;
  values: [string, string][];
  says: string;
}

/** A lesson with its inputs. */
export interface LessonPage {
  name: string;
  about: string;
  builds_on: string[];
  inputs: LessonInput[];
  steps: LessonStep[];
  task: string;
  solution: string;
}

/** A view to save as a file that opens offline. */
export interface SaveQuestion {
  of: ReadQuestion[];
  view: string;
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

/** A model's recorded answers, with or without the edits. */
export interface RecordedVersion {
  read: Read;
  maps: Record<string, RecordedMap>;
}

/** A model's recorded answers about a text. */
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
