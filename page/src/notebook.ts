// The page in an output cell of a notebook. The kernel answers, through the messages of the widget.

import { Dropped, Failed, told, type Channel, type Host, type Measures } from "./channel";
import type {
  Answer, Course, LessonPage, Next, Piece, Progress, Read, Rows, Runs, Scene, Scenes, Senses, Stage, Trained, WriteQuestion,
} from "./protocol";
import { mount } from "./mount";

/** The part of anywidget's model that the page uses. */
export interface WidgetModel {
  get(name: string): unknown;
  send(message: unknown): void;
  on(event: "msg:custom", receive: (message: unknown, buffers: DataView[]) => void): void;
  off(event: "msg:custom", receive: (message: unknown, buffers: DataView[]) => void): void;
}

type Receive = (answer: Answer, bytes: Uint8Array | null) => void;

export function notebookChannel(model: WidgetModel): Channel & { close: () => void } {
  const host: Host = {
    title: "",
    views: ["read", "attend", "write", "doubt", "memory", "senses"],
    asks: true,
    edits: true,
    saves: true,
    start: String(model.get("start") ?? ""),
    address: false,
    theme: notebookTheme(),
  };
  const waiting = new Map<number, Receive>();
  let last = 0;

  const receive = (message: unknown, buffers: DataView[]) => {
    const { id, answer } = message as { id: number; answer: Answer };
    const first = buffers[0];
    waiting.get(id)?.(answer, first ? new Uint8Array(first.buffer, first.byteOffset, first.byteLength) : null);
    if (answer.state !== "working") waiting.delete(id);
  };
  model.on("msg:custom", receive);

  function send(kind: string, question: unknown, view: string, take: Receive): number {
    waiting.set(++last, take);
    model.send({ id: last, kind, view, question });
    return last;
  }

  function ask<T>(kind: string, question: unknown, view: string): Promise<T> {
    return new Promise((done, fail) => {
      send(kind, question, view, (answer, bytes) => {
        if (answer.state === "done") done((bytes ?? answer.result) as T);
        else fail(answer.state === "dropped" ? new Dropped() : new Failed(answer.error));
      });
    });
  }

  /** Send every piece as it comes; the last answer is the result. */
  function follow(kind: string, question: unknown, piece: (piece: unknown) => void, stop: AbortSignal): Promise<unknown> {
    return new Promise((done, fail) => {
      const id = send(kind, question, kind, (answer) => {
        if (answer.state === "working") piece(answer.result);
        else if (answer.state === "done") done(answer.result);
        else fail(new Failed(answer.error));
      });
      stop.addEventListener("abort", () => {
        waiting.delete(id);
        model.send({ id, kind: "stop" });
        fail(new Dropped());
      });
    });
  }

  function write(question: WriteQuestion, piece: (piece: Piece) => void, end: (error: string | null) => void) {
    const stop = new AbortController();
    follow("write", question, (one) => piece(one as Piece), stop.signal).then(
      () => end(null),
      (error: unknown) => end(error instanceof Dropped ? null : told(error)),
    );
    return () => stop.abort();
  }

  const absent = () => Promise.reject(new Failed("A notebook has no such view: run regard lab."));
  return {
    host,
    runs: () => ask<Runs>("runs", null, "runs"),
    read: (question, view) => ask<Read>("read", question, view),
    rows: (question, view) => ask<Rows>("rows", question, view),
    next: (question, view) => ask<Next>("next", question, view),
    tile: (question, view) => ask<Uint8Array>("tile", question, view),
    mosaic: (question, view) => ask<Uint8Array>("mosaic", question, view),
    scenes: (question) => ask<Scenes>("scenes", question, "scenes"),
    add: (question) => ask<Scene>("add", question, "add"),
    senses: (question) => ask<Senses>("senses", question, "senses"),
    trained: (question) => ask<Trained>("trained", question, "trained"),
    course: () => ask<Course>("course", {}, "course"),
    lesson: (question) => ask<LessonPage>("lesson", question, "lesson"),
    write,
    measure: <K extends keyof Measures>(name: K, question: Measures[K][0], stage: (stage: Stage) => void, stop: AbortSignal) =>
      follow(name, question, (one) => stage(one as Stage), stop) as Promise<Measures[K][1]>,
    train: absent as () => Promise<Progress>,
    training: absent as () => Promise<Progress>,
    save: async (question) => new Blob([(await ask<Uint8Array<ArrayBuffer>>("save", question, "save"))], { type: "text/html" }),
    close: () => model.off("msg:custom", receive),
  };
}

/** JupyterLab and VS Code say on the body whether they are dark. */
function notebookTheme(): "light" | "dark" | null {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false" ? "dark" : "light";
  return vscodeThemeKind === undefined ? null : vscodeThemeKind.endsWith("dark") ? "dark" : "light";
}

/** What anywidget calls for each output cell. The page has a shadow root, so that no style leaves it or enters it. */
export function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  const outside = document.createElement("div");
  outside.dataset.lmSuppressShortcuts = "true"; // the notebook's keys do not act while the page has the focus
  const inside = outside.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = String(model.get("sheet"));
  const cell = document.createElement("div");
  cell.className = "cell";
  inside.append(style, cell);
  el.append(outside);
  const channel = notebookChannel(model);
  const close = mount(cell, channel, outside);
  return () => {
    channel.close();
    close();
    outside.remove();
  };
}
