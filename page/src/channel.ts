// The page asks its questions through a channel. This one asks the lab's server.

import { VIEWS, type View } from "./address";
import type { Theme } from "./colour";
import type {
  AddQuestion, Answer, Course, Doubted, DoubtQuestion, Forgotten, ForgetQuestion, Heads, HeadsQuestion, LessonPage, LessonQuestion,
  MosaicQuestion, Next, NextQuestion, Piece, Progress, Read, ReadQuestion, Rows, RowsQuestion, Runs, Said, SaveQuestion, SayQuestion,
  Scene, Scenes, ScenesQuestion, Senses, SensesQuestion, Stage, TileQuestion, Trained, TrainedQuestion, WriteQuestion,
} from "./protocol";

/** Long measurements, with their questions and results. */
export interface Measures {
  doubt: [DoubtQuestion, Doubted];
  say: [SayQuestion, Said];
  heads: [HeadsQuestion, Heads];
  forget: [ForgetQuestion, Forgotten];
}

/** A newer question of the same view has replaced this one. */
export class Dropped extends Error {}
/** The server says what is wrong with the question. */
export class Failed extends Error {}
/** The server does not answer. */
export class Gone extends Error {}
/** The server was started again and does not know this page. */
export class Restarted extends Error {}

/** What the page may do where it is shown: on the lab's server, in a notebook, or in a file. */
export interface Host {
  readonly title: string; // beside the name of the page
  readonly views: readonly View[];
  readonly asks: boolean; // about any text
  readonly edits: boolean; // weights can be changed
  readonly saves: boolean; // a view becomes a file
  readonly start: string; // the view that opens, as in the address bar; "": the address bar says which
  readonly address: boolean; // the address bar, and the keys of the whole page, are the page's own
  readonly theme: Theme | null; // of what is around the page, if that is known
}

export interface Channel {
  readonly host: Host;
  runs(): Promise<Runs>;
  read(question: ReadQuestion, view: string): Promise<Read>;
  rows(question: RowsQuestion, view: string): Promise<Rows>;
  next(question: NextQuestion, view: string): Promise<Next>;
  tile(question: TileQuestion, view: string): Promise<Uint8Array>;
  mosaic(question: MosaicQuestion, view: string): Promise<Uint8Array>;
  scenes(question: ScenesQuestion): Promise<Scenes>;
  add(question: AddQuestion): Promise<Scene>;
  senses(question: SensesQuestion): Promise<Senses>;
  trained(question: TrainedQuestion): Promise<Trained>;
  course(): Promise<Course>;
  lesson(question: LessonQuestion): Promise<LessonPage>;
  /** Send every piece as it is written. The returned function stops the writing. */
  write(question: WriteQuestion, piece: (piece: Piece) => void, end: (error: string | null) => void): () => void;
  /** Make a long measurement: each stage is told before it begins. The signal stops it. */
  measure<K extends keyof Measures>(name: K, question: Measures[K][0], stage: (stage: Stage) => void, stop: AbortSignal): Promise<Measures[K][1]>;
  train(): Promise<Progress>;
  training(): Promise<Progress>;
  /** A file that opens offline. */
  save(question: SaveQuestion): Promise<Blob>;
}

export const SERVER: Host = { title: "lab", views: VIEWS, asks: true, edits: true, saves: true, start: "", address: true, theme: null };

export function serverChannel(): Channel {
  const client = crypto.getRandomValues(new Uint32Array(2)).join("-");

  async function send(path: string, body: unknown, view: string, signal?: AbortSignal): Promise<Response> {
    let response: Response;
    try {
      response = await fetch(`/api/${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-lab-view": `${client}/${view}` },
        body: JSON.stringify(body),
        ...(signal ? { signal } : {}),
      });
    } catch {
      throw new Gone();
    }
    return checked(response);
  }

  async function checked(response: Response): Promise<Response> {
    if (response.status === 401) throw new Restarted();
    if (!response.ok) throw new Failed(await response.text());
    return response;
  }

  async function get<T>(path: string): Promise<T> {
    let response: Response;
    try {
      response = await fetch(`/api/${path}`);
    } catch {
      throw new Gone();
    }
    return (await checked(response)).json() as Promise<T>;
  }

  /** Ask, and ask again with a ticket while the server is still working. */
  async function ask(path: string, question: unknown, view: string): Promise<unknown> {
    let response = await send(path, question, view);
    for (;;) {
      if (response.headers.get("content-type") === "application/octet-stream")
        return new Uint8Array(await response.arrayBuffer());
      const answer = (await response.json()) as Answer;
      if (answer.state === "done") return answer.result;
      if (answer.state === "dropped") throw new Dropped();
      if (answer.state === "failed") throw new Failed(answer.error);
      response = await send("wait", { ticket: answer.ticket }, view);
    }
  }

  /** Follow a stream of server-sent events to its end. Return the result, if the end has one. */
  async function follow(path: string, question: unknown, piece: (piece: unknown) => void, stop: AbortSignal): Promise<unknown> {
    const response = await send(path, question, path, stop);
    if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
      throw new Failed(((await response.json()) as Answer).error);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Gone();
      text += value;
      const events = text.split("\n\n");
      text = events.pop()!;
      for (const event of events) {
        const answer = JSON.parse(event.replace(/^data: /, "")) as Answer;
        if (answer.state === "failed") throw new Failed(answer.error);
        if (answer.state === "done") return answer.result;
        piece(answer.result);
      }
    }
  }

  function write(question: WriteQuestion, piece: (piece: Piece) => void, end: (error: string | null) => void) {
    const stop = new AbortController();
    follow("write", question, (one) => piece(one as Piece), stop.signal).then(
      () => end(null),
      (error: unknown) => end(stop.signal.aborted ? null : told(error)),
    );
    return () => stop.abort();
  }

  async function measure<K extends keyof Measures>(name: K, question: Measures[K][0], stage: (stage: Stage) => void, stop: AbortSignal) {
    try {
      return (await follow(name, question, (one) => stage(one as Stage), stop)) as Measures[K][1];
    } catch (error) {
      throw stop.aborted ? new Dropped() : error;
    }
  }

  async function save(question: SaveQuestion): Promise<Blob> {
    return new Blob([(await ask("save", question, "save")) as Uint8Array<ArrayBuffer>], { type: "text/html" });
  }

  return {
    host: SERVER,
    save,
    runs: () => get<Runs>("runs"),
    read: (question, view) => ask("read", question, view) as Promise<Read>,
    rows: (question, view) => ask("rows", question, view) as Promise<Rows>,
    next: (question, view) => ask("next", question, view) as Promise<Next>,
    tile: (question, view) => ask("tile", question, view) as Promise<Uint8Array>,
    mosaic: (question, view) => ask("mosaic", question, view) as Promise<Uint8Array>,
    scenes: (question) => ask("scenes", question, "scenes") as Promise<Scenes>,
    add: (question) => ask("add", question, "add") as Promise<Scene>,
    senses: (question) => ask("senses", question, "senses") as Promise<Senses>,
    trained: (question) => ask("trained", question, "trained") as Promise<Trained>,
    course: () => ask("course", {}, "course") as Promise<Course>,
    lesson: (question) => ask("lesson", question, "lesson") as Promise<LessonPage>,
    write,
    measure,
    train: async () => (await (await send("train", {}, "train")).json()) as Progress,
    training: () => get<Progress>("training"),
  };
}

/** An error in words for the reader. */
export function told(error: unknown): string {
  if (error instanceof Gone) return "The lab does not answer. Is `regard lab` still running?".replaceAll("`", "");
  if (error instanceof Restarted) return "The lab was started again. Open the address that it printed.";
  return error instanceof Failed ? error.message : "The page made a mistake. Reload it.";
}
