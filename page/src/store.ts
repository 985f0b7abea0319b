// The state of the page, and the questions that follow from it.

import { batch, computed, effect, signal, untracked, type ReadonlySignal } from "@preact/signals";
import { decode, encode, type Form, type View } from "./address";
import { Dropped, Failed, Gone, Restarted, told, type Channel } from "./channel";
import type { Theme } from "./colour";
import { change, current, EMPTY, redo, undo, type Edit, type History } from "./edits";
import type { Next, Read, ReadQuestion, RunInfo, Scene } from "./protocol";

export const MOST_MODELS = 4;
const SAMPLE = "The value of the object is the name of the class";
const SAMPLES = { pairs: "The tall cat sees you", blanks: "The value of the ___ is the name of the class", labels: "the ending was not bad , and the music was wonderful" };
// The families that a first visit shows, in this order; other runs are a click away.
const FIRST = ["transformer", "gpt2", "backpack", "attentive", "lstm", "gru", "rnn", "ngram", "recurrent-translator", "transformer-translator", "classifier", "captioner", "reader"];
const ADDED = "file-"; // the ids of images that a person added begin so
const PAUSE = 30; // milliseconds that typing must rest

export interface Reading {
  question: ReadQuestion;
  read: Read | null; // the last answer; it stays on the screen until the next one
  of: ReadQuestion | null; // the question that `read` answers
  error: string | null;
  asking: boolean;
}

export type Store = ReturnType<typeof makeStore>;

export function makeStore(channel: Channel) {
  const { host } = channel;
  const held = decode(host.start);
  const linked = host.address && location.hash.length > 1 ? decode(location.hash) : held;
  // a file holds one text under certain changes; its address says how to look at them
  const start = host.asks ? linked : { ...linked, runs: held.runs, text: held.text, target: held.target, words: held.words, edits: held.edits };
  const view = signal<View>(host.views.includes(start.view) ? start.view : host.views[0]!);
  const runs = signal<RunInfo[] | null>(null);
  const missing = signal<string[]>([]); // the names of runs in the link that are not in the list
  const training = signal(false);
  const chosen = signal<string[]>([]); // ids; the first is the active model
  const text = signal(start.text ?? SAMPLE);
  const target = signal<string | null>(start.target);
  const scene = signal<string | null>(start.scene); // the image of a captioner; null: the first one
  const offered = signal<Scene[] | null>(null); // its images to choose from
  const words = signal(start.words);
  const lesson = signal(start.lesson);
  const settings = signal(start.settings);
  const site = signal<string | null>(start.site);
  const head = signal(start.head);
  const rows = signal<number[]>(start.rows);
  const form = signal<Form>(start.form);
  const place = signal<number | null>(null); // the token that is pinned, and the one under the pointer
  const hovered = signal<number | null>(null);
  const histories = signal<Record<string, History>>({});
  const readings = signal<Record<string, Reading>>({});
  const connection = signal<"fine" | "gone" | "restarted">("fine");
  const theme = signal<Theme>(host.theme ?? storedTheme());

  const active: ReadonlySignal<string | null> = computed(() => chosen.value[0] ?? null);
  const info = computed(() => runs.value?.find((run) => run.id === active.value) ?? null);
  const history = computed(() => histories.value[active.value ?? ""] ?? EMPTY);
  const edits = computed(() => current(history.value));
  const reading = computed(() => readings.value[active.value ?? ""] ?? null);
  const shown = computed(() => offered.value?.find((one) => (scene.value === null ? !one.id.startsWith(ADDED) : one.id === scene.value)) ?? null);

  function question(run: string): ReadQuestion {
    const own = runs.value?.find((one) => one.id === run);
    const applied = current(histories.value[run] ?? EMPTY);
    return {
      run,
      text: own?.reads === "captions" ? "" : text.value,
      target: own?.reads === "pairs" || own?.reads === "captions" ? target.value : null,
      scene: own?.reads === "captions" ? scene.value : null,
      words: words.value && own?.tokens !== "word" && own?.reads !== "captions",
      top: 12,
      edits: [...applied],
    };
  }

  function failed(error: unknown): string | null {
    if (error instanceof Dropped) return null;
    if (error instanceof Gone) connection.value = "gone";
    if (error instanceof Restarted) connection.value = "restarted";
    if (!(error instanceof Failed || error instanceof Gone || error instanceof Restarted)) console.error(error);
    return told(error);
  }

  const effects: (() => void)[] = [];
  const timers = new Map<string, ReturnType<typeof setTimeout>>();

  function ask(run: string): void {
    const wanted = question(run);
    const before = readings.value[run];
    if (before && JSON.stringify(before.question) === JSON.stringify(wanted) && before.error === null) return;
    const keep = before ?? { read: null, of: null };
    readings.value = { ...readings.value, [run]: { read: keep.read, of: keep.of, question: wanted, error: null, asking: true } };
    clearTimeout(timers.get(run));
    timers.set(run, setTimeout(() => void answer(run, wanted), before ? PAUSE : 0));
  }

  async function answer(run: string, wanted: ReadQuestion): Promise<void> {
    const latest = () => readings.value[run]?.question === wanted; // answers to older text are dropped
    if (!wanted.text.trim() && runs.value?.find((one) => one.id === run)?.reads !== "captions") {
      if (latest())
        readings.value = { ...readings.value, [run]: { question: wanted, read: null, of: null, error: null, asking: false } };
      return;
    }
    try {
      const read = await channel.read(wanted, `read/${run}`);
      connection.value = "fine";
      if (latest()) readings.value = { ...readings.value, [run]: { question: wanted, read, of: wanted, error: null, asking: false } };
    } catch (error) {
      const message = failed(error);
      if (latest() && message !== null)
        readings.value = { ...readings.value, [run]: { ...readings.value[run]!, error: message, asking: false } };
    }
  }

  async function loadRuns(): Promise<void> {
    try {
      const answer = await channel.runs();
      batch(() => {
        connection.value = "fine";
        training.value = answer.training && answer.runs.length === 0;
        const kept = chosen.value.filter((id) => answer.runs.some((run) => run.id === id));
        const named = start.runs.flatMap((name) => answer.runs.filter((run) => run.name === name).map((run) => run.id));
        const known = FIRST.flatMap((family) => answer.runs.filter((run) => run.family === family));
        const first = known[0] ?? answer.runs[0];
        chosen.value = kept.length ? kept : named.length ? named.slice(0, MOST_MODELS) : first ? [first.id] : [];
        missing.value = start.runs.filter((name) => !answer.runs.some((run) => run.name === name));
        const meant = !start.runs.length || start.runs[0] === answer.runs.find((run) => run.id === chosen.value[0])?.name;
        if (meant && start.edits.length && chosen.value[0] && !histories.value[chosen.value[0]])
          histories.value = { [chosen.value[0]]: change(EMPTY, start.edits) };
        const reads = answer.runs.find((run) => run.id === chosen.value[0])?.reads;
        if (start.text === null && (reads === "pairs" || reads === "labels" || reads === "blanks")) text.value = SAMPLES[reads];
        runs.value = answer.runs;
      });
    } catch (error) {
      failed(error);
      setTimeout(() => void loadRuns(), 1500);
    }
  }

  // The server is asked again, while it is gone, until it answers.
  effects.push(effect(() => {
    if (connection.value !== "gone") return;
    const timer = setInterval(() => {
      channel.runs().then(
        () => {
          connection.value = "fine";
          for (const run of chosen.value) readings.value[run]?.error && ask(run);
        },
        (error: unknown) => error instanceof Restarted && (connection.value = "restarted"),
      );
    }, 1500);
    return () => clearInterval(timer);
  }));

  effects.push(effect(() => {
    if (runs.value === null) return;
    void [text.value, target.value, scene.value, words.value, histories.value];
    const wanted = chosen.value;
    untracked(() => wanted.forEach(ask)); // an answer, such as an error, is no reason to ask again
  }));

  // The address follows the view; nothing is added to the browser's history while a person types.
  let timer: ReturnType<typeof setTimeout>;
  const address = () => {
    const names = chosen.value.flatMap((id) => runs.value!.filter((run) => run.id === id).map((run) => run.name));
    return encode({
      view: view.value, runs: names, text: text.value, target: target.value, words: words.value, site: site.value,
      scene: runs.value!.find((run) => run.id === chosen.value[0])?.reads === "captions" ? scene.value : null,
      head: head.value, rows: rows.value, form: form.value, edits: [...edits.value],
      lesson: lesson.value, settings: settings.value,
    });
  };
  if (host.address) {
    effects.push(effect(() => {
      if (runs.value === null || (runs.value.length === 0 && view.value !== "lessons")) return;
      const hash = address();
      clearTimeout(timer);
      timer = setTimeout(() => history_replace(hash), 150);
    }));
    history_replace(location.hash); // the token leaves the address bar at once
  }

  function setHistory(next: History): void {
    if (active.value !== null) histories.value = { ...histories.value, [active.value]: next };
  }

  return {
    channel, host, address, view, runs, missing, training, chosen, text, target, scene, offered, shown, words, lesson, settings, site, head, rows, form, place, hovered, readings,
    connection, theme, active, info, history, edits, reading, question, loadRuns, failed,
    retry: (run: string) => ask(run),
    close: () => effects.forEach((stop) => stop()),
    edit: (next: readonly Edit[], same = false) => setHistory(change(history.value, next, same)),
    undo: () => setHistory(undo(history.value)),
    redo: () => setHistory(redo(history.value)),
    reset: () => edits.value.length && setHistory(change(history.value, [])),
    setTheme(next: Theme) {
      theme.value = next;
      remember("theme", next);
    },
    /** Another text begins at its own last word. */
    setText(next: string) {
      batch(() => {
        text.value = next;
        place.value = null;
        hovered.value = null;
        rows.value = [];
      });
    },
    nextFor: (run: string, at: number, seen: string): Promise<Next> =>
      channel.next({ of: question(run), place: at, top: 12 }, `next/${seen}/${run}`),
  };
}

function history_replace(hash: string): void {
  window.history.replaceState(null, "", `${location.pathname}${hash}`);
}

function storedTheme(): Theme {
  const stored = recall("theme");
  if (stored === "light" || stored === "dark") return stored;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Keep a choice for the next visit, where the browser allows it. */
export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(`regard-lab-${key}`, value);
  } catch {
    // the browser keeps nothing: the choice holds for this visit
  }
}

export function recall(key: string): string | null {
  try {
    return localStorage.getItem(`regard-lab-${key}`);
  } catch {
    return null;
  }
}
