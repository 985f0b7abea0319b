import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useStore } from "./context";
import { bare, bits, count, percent, signedPercent, visible } from "./format";
import { TwoBars } from "./twobars";
import { Word } from "./word";
import { predictedAfter } from "./positions";
import type { Chance, Next, Read } from "./protocol";

/** What a model expects at a place of the text. With changes, old and new stand side by side. */
export function Expected({ run, place, compact = false }: { run: string; place: number; compact?: boolean }) {
  const { readings, runs, edits, active, view, place: pinned, host } = useStore();
  const reading = readings.value[run];
  const read = reading?.read;
  const doubt = (at: number) => {
    pinned.value = at;
    view.value = "doubt";
  };
  if (!read) return <p class="muted">{reading?.error ?? "Waiting for the model …"}</p>;
  if (place < 1) return <p class="muted">Nothing is predicted before the first word.</p>;
  const last = place >= read.tokens.length;
  const token = last ? null : read.tokens[place]!;
  const before = read.tokens.slice(Math.max(1, place - 4), place).map(bare).join(" ");
  const name = runs.value?.find((one) => one.id === run)?.name;
  const changed = run === active.value && edits.value.length > 0;
  return (
    <section class="expected" aria-label={`What ${name} expects`}>
      <h2>
        {!compact && <span class="muted">after </span>}
        <q class="context">{before || "the beginning"}</q>
      </h2>
      {token !== null && (
        <dl class="facts">
          <div>
            <dt>the text has</dt>
            <dd class="word">{bare(token)}</dd>
          </div>
          <div>
            <dt>probability</dt>
            <dd>{read.surprisal[place] == null ? "–" : percent(Math.exp(-read.surprisal[place]!))}</dd>
          </div>
          <div>
            <dt>rank</dt>
            <dd>{read.ranks[place] == null ? "–" : `${count(read.ranks[place]!)} of ${count(read.vocabulary)}`}</dd>
          </div>
          <div>
            <dt>surprisal</dt>
            <dd>{bits(read.surprisal[place] ?? null)} bits</dd>
          </div>
        </dl>
      )}
      {!compact && run === active.value && host.views.includes("doubt") && view.value !== "doubt" && attends(read) && (
        <button class="link small" onClick={() => doubt(place)}>
          How far can the attention move?
        </button>
      )}
      {changed ? (
        <Compared run={run} after={predictedAfter(read, place)} what="next word" />
      ) : (
        <Bars rows={(read.likeliest[place - 1] ?? []).map(([word, p]) => ({ word, p, here: word === token }))} />
      )}
    </section>
  );
}

function attends(read: Read): boolean {
  return read.sites.some((site) => site.holds === "weights");
}

export function Bars({ rows }: { rows: readonly { word: string; p: number; here: boolean }[] }) {
  const most = Math.max(...rows.map((row) => row.p)) || 1; // the longest bar is the largest probability
  return (
    <table class="bars">
      <caption class="hidden">Probabilities, the largest first</caption>
      <tbody>
        {rows.map((row, at) => (
          <tr key={at} class={row.here ? "here" : ""}>
            <th scope="row"><Word token={row.word} /></th>
            <td class="bar">
              <span style={{ width: `${(row.p / most) * 100}%` }} />
            </td>
            <td class="number">{percent(row.p)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The distribution before and after the changes, with the difference. */
export function Compared({ run, after, what }: { run: string; after: number; what: string }) {
  const store = useStore();
  const next = useSignal<Next | null>(null);
  const error = useSignal<string | null>(null);
  const of = JSON.stringify(store.question(run));
  useEffect(() => {
    let late = false;
    store.nextFor(run, after, "expected").then(
      (answer) => {
        if (late) return;
        next.value = answer;
        error.value = null;
      },
      (reason: unknown) => !late && (error.value = store.failed(reason) ?? error.value),
    );
    return () => {
      late = true;
    };
  }, [run, after, of]);
  if (error.value !== null) return <p class="error">{error.value}</p>;
  return next.value === null ? <p class="muted">Comparing …</p> : <Comparison next={next.value} what={what} />;
}

/** Two distributions side by side. `what` names their outcomes. */
export function Comparison({ next, what }: { next: Next; what: string }) {
  const { chances, true: real, moved, true_rank_before, true_rank_after } = next;
  const rows = real === null || chances.some((one) => one.id === real.id) ? chances : [...chances, real];
  const most = Math.max(...rows.map((one) => Math.max(one.before, one.after))) || 1;
  return (
    <div class="compared">
      <TwoBars what={what} bars={["before", "after"]} numbers={["after", "change"]}>
        {rows.map((one) => (
          <Pair key={one.id} one={one} most={most} here={one.id === real?.id} />
        ))}
      </TwoBars>
      <p class="moved" role="status">
        {moved < 0.00005 ? "The prediction did not move." : `${percent(moved)} of the probability moved.`}
        {true_rank_before !== null && true_rank_before !== true_rank_after && (
          <>
            {" "}
            Rank of the true word: {count(true_rank_before)} → {count(true_rank_after!)}.
          </>
        )}
      </p>
    </div>
  );
}

function Pair({ one, most, here }: { one: Chance; most: number; here: boolean }) {
  const difference = one.after - one.before;
  return (
    <tr class={here ? "here" : ""}>
      <th scope="row"><Word token={one.token} /></th>
      <td class="bar">
        <span class="old" style={{ width: `${(one.before / most) * 100}%` }} />
        <span class={difference < 0 ? "new less" : "new more"} style={{ width: `${(one.after / most) * 100}%` }} />
      </td>
      <td class="number">{percent(one.after)}</td>
      <td class={difference < 0 ? "number down" : "number up"}>{signedPercent(difference)}</td>
    </tr>
  );
}

const PIECES = 8;

/** The terms whose sum is the prediction of a token. */
export function Terms({ run, place }: { run: string; place: number }) {
  const { readings } = useStore();
  const read = readings.value[run]?.read;
  const terms = read?.terms[place] ?? [];
  // a score that is features and bias alone says nothing
  if (!read || terms.length < (read.terms_of === "score" ? 3 : 2)) return null;
  const most = Math.max(...terms.map(([, value]) => Math.abs(value))) || 1;
  return (
    <section class="terms" aria-label="Terms of the prediction">
      <h2 class="minor">
        The {read.terms_of} of “{visible(read.tokens[place]!)}” is the sum of
      </h2>
      <table class="bars">
        <tbody>
          {terms.slice(0, PIECES).map(([name, value], at) => (
            <tr key={at}>
              <th scope="row">{visible(name)}</th>
              <td class="bar">
                <span class={value < 0 ? "less" : ""} style={{ width: `${(Math.abs(value) / most) * 100}%` }} />
              </td>
              <td class="number">{read.terms_of === "probability" ? percent(value) : value.toFixed(2)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** In a narrow window, the likeliest next words stay in sight below the weights. */
export function Glance({ run, place }: { run: string; place: number }) {
  const { readings } = useStore();
  const likeliest = readings.value[run]?.read?.likeliest[place - 1] ?? [];
  return (
    <p class="glance" aria-hidden="true">
      <span class="muted">next</span>
      {likeliest.slice(0, 3).map(([word, p]) => (
        <span key={word}>
          <Word token={word} /> <span class="number">{percent(p)}</span>
        </span>
      ))}
    </p>
  );
}
