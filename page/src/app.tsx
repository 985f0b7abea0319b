import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import type { View } from "./address";
import { Attend } from "./attend";
import { useStore } from "./context";
import { DoubtView } from "./doubt";
import { shell } from "./format";
import { Hints } from "./hints";
import { LessonsView } from "./lessons";
import { MemoryView } from "./memory";
import { Models } from "./models";
import { ReadView } from "./read";
import { Scenes } from "./scenes";
import { SensesView } from "./senses";
import { TrainView } from "./train";
import { TrainedView } from "./trained";
import { WriteView } from "./write";

const TITLES: Record<View, string> = {
  read: "Reading",
  attend: "Attention",
  write: "Writing",
  doubt: "Doubt",
  memory: "Memory",
  senses: "Senses",
  trained: "Training",
  lessons: "Lessons",
};
const SHOWN: Record<View, () => ComponentChildren> = {
  read: () => <ReadView />,
  attend: () => <Attend />,
  write: () => <WriteView />,
  doubt: () => <DoubtView />,
  memory: () => <MemoryView />,
  senses: () => <SensesView />,
  trained: () => <TrainedView />,
  lessons: () => <LessonsView />,
};

export function App() {
  const store = useStore();
  const { runs, training, connection, view, host } = store;
  const learning = runs.value !== null && runs.value.length === 0 && training.value;
  return (
    <>
      <Header />
      {connection.value === "gone" && (
        <p class="banner" role="alert">
          The lab does not answer. Is <code>regard lab</code> still running? This page tries again.
        </p>
      )}
      {connection.value === "restarted" && (
        <p class="banner" role="alert">
          The lab was started again. Open the address that <code>regard lab</code> printed, and close this page.
        </p>
      )}
      <main>
        {view.value === "lessons" ? (
          <Current />
        ) : learning ? (
          <TrainView />
        ) : (
          <>
            {host.asks && host.address && <Hints />}
            {host.asks ? <Composer /> : <Held />}
            {runs.value !== null && runs.value.length === 0 ? <p class="empty">There is no run to look at.</p> : <Current />}
          </>
        )}
      </main>
    </>
  );
}

function Current() {
  const { view } = useStore();
  return (
    <div id="view" role="tabpanel" aria-labelledby={`tab-${view.value}`} data-view={view.value}>
      {SHOWN[view.value]()}
    </div>
  );
}

function Header() {
  const { view, theme, setTheme, edits, host } = useStore();
  const tabs = useRef<HTMLDivElement>(null);
  const views = host.views;
  const keys = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const next = views[(views.indexOf(view.value) + step + views.length) % views.length]!;
    view.value = next;
    tabs.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  const tab = `#tab-${view.value}`;
  useEffect(() => {
    if (host.address) tabs.current?.querySelector(tab)?.scrollIntoView({ block: "nearest", inline: "nearest" }); // a notebook stays where it is
  }, [tab]);
  const other = theme.value === "light" ? "dark" : "light";
  return (
    <header>
      <h1>
        regard <span>{host.title}</span>
      </h1>
      <div role="tablist" aria-label="Views" class="tabs" onKeyDown={keys} ref={tabs}>
        {views.map((name) => (
          <button
            key={name}
            id={`tab-${name}`}
            role="tab"
            aria-selected={view.value === name}
            aria-controls="view"
            tabIndex={view.value === name ? 0 : -1}
            onClick={() => (view.value = name)}
          >
            {TITLES[name]}
          </button>
        ))}
      </div>
      {edits.value.length > 0 && (
        <button class="pill" onClick={() => (view.value = "attend")} title="Show the changes">
          {edits.value.length === 1 ? "1 change" : `${edits.value.length} changes`}
        </button>
      )}
      {host.saves && <Save />}
      <button class="quiet theme" aria-label={`Use ${other} colours`} onClick={() => setTheme(other)}>
        <span aria-hidden="true">{theme.value === "light" ? "☾" : "☀"}</span>
      </button>
    </header>
  );
}

/** The view as a file that opens offline. */
function Save() {
  const store = useStore();
  const busy = useSignal(false);
  const said = useSignal<string | null>(null);
  const ready = store.chosen.value.some((run) => store.readings.value[run]?.of);
  const save = async () => {
    busy.value = true;
    said.value = null;
    try {
      // as in a link, the changes are those of the first model
      const of = store.chosen.value.flatMap((run, at) => {
        const asked = store.readings.value[run]?.of;
        return asked ? [at ? { ...asked, edits: [] } : asked] : [];
      });
      const address = URL.createObjectURL(await store.channel.save({ of, view: store.address() }));
      const link = Object.assign(document.createElement("a"), { href: address, download: `${(store.info.value?.name ?? "regard").replace(/[^\w.-]+/g, "-")}.html` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      said.value = store.failed(error);
    }
    busy.value = false;
  };
  return (
    <>
      {said.value && (
        <span class="error small" role="alert">
          {said.value}
        </span>
      )}
      <button class="quiet" disabled={!ready || busy.value} aria-busy={busy.value} title="Save this view as a file that opens offline" onClick={() => void save()}>
        Save
      </button>
    </>
  );
}

/** In a file: the text that was read, and how to go on from it. */
function Held() {
  const { text, info, reading, chosen } = useStore();
  if (info.value === null) return null;
  const read = reading.value?.read;
  const given = info.value.reads === "pairs";
  const said = read?.tokens.slice(1, -1).join(read.kind === "word" ? " " : "");
  return (
    <section class="held" aria-label="Text and models">
      {text.value && (
        <p class="prompt" dir="auto">
          {text.value}
          {given && said && <span class="muted"> → {said}</span>}
        </p>
      )}
      {chosen.value.length > 1 && (
        <div class="choices">
          <Models />
        </div>
      )}
      {info.value.path && (
        <p class="note">
          This file holds what was recorded. <code>regard lab {shell(info.value.path)}</code> opens the model, to read other texts and to change its weights.
        </p>
      )}
    </section>
  );
}

function Composer() {
  const store = useStore();
  const { text, target, info, words, reading, missing } = store;
  const pairs = info.value?.reads === "pairs";
  const images = info.value?.reads === "captions";
  const written = images ? "Caption" : "Translation";
  const subwords = info.value !== null && info.value.tokens !== "word" && !images;
  const own = (pairs || images) && target.value === null ? (reading.value?.read?.tokens.slice(1, -1).join(" ") ?? "") : target.value;
  return (
    <section class="composer" aria-label="Text and models">
      <div class="fields">
        {images ? (
          <Scenes run={info.value!.id} />
        ) : (
          <label class="field">
            <span>{pairs ? "Sentence" : info.value?.reads === "blanks" ? "Text, with ___ for each word to fill in" : "Text"}</span>
            <textarea
              value={text.value}
              rows={2}
              maxLength={100_000}
              spellcheck={false}
              autofocus={store.host.address}
              placeholder="Type or paste a text"
              onInput={(event) => store.setText(event.currentTarget.value)}
            />
          </label>
        )}
        {(pairs || images) && (
          <label class="field">
            <span>
              {written}: {target.value === null ? "the model's own" : "yours"}
            </span>
            <textarea
              value={own ?? ""}
              rows={2}
              spellcheck={false}
              onInput={(event) => (target.value = event.currentTarget.value || null)}
            />
            {target.value !== null && (
              <button class="link" onClick={() => (target.value = null)}>
                Read the model's own {written.toLowerCase()}
              </button>
            )}
          </label>
        )}
      </div>
      <div class="choices">
        <Models />
        {subwords && (
          <label class="check">
            <input type="checkbox" checked={words.value} onChange={(event) => (words.value = event.currentTarget.checked)} />
            Join subwords to words
          </label>
        )}
        {missing.value.length > 0 && (
          <p class="note" role="status">
            The link names {missing.value.join(", ")}, which is not among the runs here.
          </p>
        )}
      </div>
    </section>
  );
}
