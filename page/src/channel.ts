// The page asks its questions through a channel. This one asks the lab's server.

import type { View } from "./address";
import type {
  Answer, MosaicQuestion, Next, NextQuestion, Piece, Progress, Read, ReadQuestion, Rows, RowsQuestion, Runs,
  SaveQuestion, Scenes, ScenesQuestion, TileQuestion, WriteQuestion,
} from "./protocol";

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
  readonly address: boolean; // the address bar is the page's own
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
  /** Send every piece as it is written. The returned function stops the writing. */
  write(question: WriteQuestion, piece: (piece: Piece) => void, end: (error: string | null) => void): () => void;
  train(): Promise<Progress>;
  training(): Promise<Progress>;
  /** A file that opens offline. */
  save(question: SaveQuestion): Promise<Blob>;
}

const SERVER: Host = { title: "lab", views: ["read", "attend", "write"], asks: true, edits: true, saves: true, start: "", address: true };

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

  function write(question: WriteQuestion, piece: (piece: Piece) => void, end: (error: string | null) => void) {
    const stop = new AbortController();
    const run = async () => {
      const response = await send("write", question, "write", stop.signal);
      if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
        throw new Failed(((await response.json()) as Answer).error);
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return end(null);
        text += value;
        const events = text.split("\n\n");
        text = events.pop()!;
        for (const event of events) {
          const answer = JSON.parse(event.replace(/^data: /, "")) as Answer;
          if (answer.state === "working") piece(answer.result as Piece);
          else return end(answer.state === "failed" ? answer.error : null);
        }
      }
    };
    run().catch((error: unknown) => end(stop.signal.aborted ? null : told(error)));
    return () => stop.abort();
  }

  async function save(question: SaveQuestion): Promise<Blob> {
    const response = await send("save", question, "save");
    if (response.headers.get("content-type")?.startsWith("text/html")) return response.blob();
    throw new Failed(((await response.json()) as Answer).error);
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
    write,
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
