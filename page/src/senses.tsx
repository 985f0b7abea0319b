import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { Changes } from "./changes";
import { signed } from "./colour";
import { useStore } from "./context";
import { add, type Edit } from "./edits";
import { Expected } from "./expected";
import { bare, percent, short, visible } from "./format";
import type { Read, Sense, Senses, SensesQuestion } from "./protocol";
import type { Reading } from "./store";
import { Tokens } from "./tokens";
import { Waiting } from "./waiting";

const SITE = "senses"; // the site of a Backpack's sense vectors
const MOST = 3; // of a slider: three times the sense

/** The senses of a word of a Backpack, and what each adds to the score of the next word. */
export function SensesView() {
  const now = useStore().reading.value;
  if (!now?.read || !now.of) return <Waiting empty="Type a text above, and choose a word to see its senses." />;
  return <OfWord now={now} read={now.read} />;
}

function OfWord({ now, read }: { now: Reading; read: Read }) {
  const store = useStore();
  const { place, runs } = store;
  const found = useSignal<{ word: string; senses: Senses } | null>(null);
  const error = useSignal<string | null>(null);
  const last = read.tokens.length - 1;
  const chosen = Math.min(Math.max(1, place.value ?? last), last);
  const word = read.tokens[chosen]!;
  const question: SensesQuestion = { of: { ...now.of!, words: false }, word, place: last };
  const key = JSON.stringify(question);
  const name = runs.value?.find((run) => run.id === now.of!.run)?.name;
  useEffect(() => {
    let late = false;
    store.channel.senses(question).then(
      (senses) => {
        if (late) return;
        found.value = { word, senses };
        error.value = null;
      },
      (reason: unknown) => {
        const message = store.failed(reason);
        if (!late && message !== null) error.value = message;
      },
    );
    return () => {
      late = true;
    };
  }, [key]);
  return (
    <div class="columns">
      <div class="stage senses">
        <p class="muted small">Choose a word of the text: each of its senses says something of its own, whatever stands around it.</p>
        <Tokens
          label={`The text as ${name} reads it`}
          tokens={read.tokens.slice(1).map((one, at) => ({ text: one, nats: read.surprisal[at + 1]! }))}
          joined={read.kind !== "word" && read.spans === null}
          first={1}
          selected={chosen}
          pick={(to) => to !== null && (place.value = to)}
        />
        {error.value && (
          <p class="note" role="alert">
            {error.value}
          </p>
        )}
        {!error.value && found.value && (
          <div class={found.value.word === word ? "" : "asking"}>
            <h2>
              The senses of <q>{bare(found.value.word)}</q>
            </h2>
            <div class="sense-cards">
              {found.value.senses.senses.map((one) => (
                <Card key={one.number} sense={one} word={found.value!.word} />
              ))}
            </div>
            <Terms senses={found.value.senses} chosen={chosen} />
          </div>
        )}
      </div>
      <div class="side">
        <Expected run={now.of!.run} place={read.tokens.length} />
        <Changes read={read} site={null} />
      </div>
    </div>
  );
}

function Card({ sense, word }: { sense: Sense; word: string }) {
  const store = useStore();
  const held = useRef(false);
  const is = (one: Edit) =>
    one.do === "scale" && one.site === SITE && String(one.heads) === String(sense.number) && JSON.stringify(one.words) === JSON.stringify([word]);
  const own = store.edits.value.find(is);
  const by = typeof own?.by === "number" ? own.by : 1;
  const set = (value: number) => {
    const others = store.edits.value.filter((one) => !is(one));
    const edit = { do: "scale", site: SITE, heads: [sense.number], words: [word], by: value };
    store.edit(value === 1 ? others : add(store.edits.value, edit), held.current);
    held.current = true;
  };
  const most = Math.max(1e-9, ...sense.says.map(([, score]) => score));
  return (
    <section class={by === 1 ? "sense" : "sense changed"} aria-label={`Sense ${sense.number}`}>
      <h3>
        sense {sense.number} <span class="number">× {by.toFixed(1)}</span>
      </h3>
      <input
        type="range"
        min={0}
        max={MOST}
        step={0.1}
        value={by}
        aria-label={`Strength of sense ${sense.number}`}
        onPointerDown={() => (held.current = false)}
        onKeyDown={(event) => !event.repeat && (held.current = false)}
        onInput={(event) => set(Number(event.currentTarget.value))}
      />
      <ul>
        {sense.says.map(([name, score]) => (
          <li key={name} title={`raises the score by ${score.toFixed(2)}`}>
            <span class="fill" style={{ width: `${Math.max(0, (score / most) * 100)}%` }} />
            <span class="word">{bare(name)}</span>
          </li>
        ))}
      </ul>
      <p class="muted small">alike: {sense.alike.map(([name]) => bare(name)).join(" ")}</p>
    </section>
  );
}

/** The score of the next word as the sum over words of the text and their senses. */
function Terms({ senses, chosen }: { senses: Senses; chosen: number }) {
  const { theme, place } = useStore();
  const most = Math.max(1e-9, ...senses.terms.flat().map(Math.abs));
  const total = senses.terms.flat().reduce((sum, value) => sum + value, senses.bias);
  return (
    <section class="terms-of-senses" aria-label="Terms of the score">
      <h2>
        Where the score of <q>{bare(senses.next)}</q> comes from
      </h2>
      <p class="muted small">
        Its score, {total.toFixed(2)}, is the sum of these terms and its bias, {senses.bias.toFixed(2)}; its probability is{" "}
        {percent(senses.probability)}.
      </p>
      <div class="wide" tabIndex={0} role="region" aria-label="Terms of each word and sense">
        <table class="methods">
          <thead>
            <tr>
              <th scope="col">word</th>
              {senses.terms.map((_, sense) => (
                <th scope="col" key={sense} class="number">
                  {sense}
                </th>
              ))}
              <th scope="col" class="number">sum</th>
            </tr>
          </thead>
          <tbody>
            {senses.tokens.map((token, at) => (
              <tr key={at} class={at === chosen ? "here" : ""}>
                <th scope="row">
                  <button class="link plain" disabled={at === 0} onClick={() => (place.value = at)}>
                    {visible(token)}
                  </button>
                </th>
                {senses.terms.map((row, sense) => (
                  <td key={sense} class="cell number" title={`sense ${sense}: ${row[at]!.toFixed(3)}`} style={tinted(row[at]! / most, theme.value)}>
                    {short(row[at]!)}
                  </td>
                ))}
                <td class="number">{short(senses.terms.reduce((sum, row) => sum + row[at]!, 0))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The background of a number between -1 and 1, with ink that can be read on it. */
function tinted(share: number, theme: "light" | "dark") {
  const [r, g, b] = signed(share, theme);
  const light = (0.299 * r + 0.587 * g + 0.114 * b) / 255;
  return { background: `rgb(${r} ${g} ${b})`, color: light > 0.52 ? "#12161b" : "#ffffff" };
}
