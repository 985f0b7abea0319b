import { useSignal } from "@preact/signals";
import { Blanks, blanksOf } from "./blanks";
import { useStore } from "./context";
import { surprisalLevel } from "./colour";
import { Expected, Terms } from "./expected";
import { bits, percent, visible } from "./format";
import { Labels, likeliest } from "./labels";
import { ladder, type LadderRow } from "./ladder";
import type { Reading } from "./store";
import { Scale, Tokens } from "./tokens";

/** The text under every chosen model, coloured by surprisal. */
export function ReadView() {
  const { chosen, place, hovered, readings, active, info } = useStore();
  const main = active.value === null ? null : readings.value[active.value];
  const read = main?.read;
  const end = read ? read.tokens.length - (read.given === null ? 0 : 1) : 1; // nothing is predicted after the end of a caption
  const shown = hovered.value ?? place.value ?? end;
  const several = chosen.value.length > 1;
  return (
    <div class="columns">
      <div class="stage">
        {(several || !(read?.labels || read?.fills)) && <Scale />}
        <div class={several ? "strips several" : "strips"}>
          {chosen.value.map((run) => (
            <Strip key={run} run={run} />
          ))}
        </div>
        {several && <Ladder />}
      </div>
      <div class="side">
        {read?.labels ? (
          <Labels labels={read.labels} name={info.value?.name ?? ""} />
        ) : read?.fills && active.value !== null ? (
          <Blanks run={active.value} read={read} place={[shown, place.value, ...blanksOf(read)].find((one) => one !== null && read.likeliest[one]?.length) ?? undefined} />
        ) : (
          active.value !== null && <Expected run={active.value} place={Math.min(shown, read?.tokens.length ?? shown)} />
        )}
        {active.value !== null && <Terms run={active.value} place={shown} />}
      </div>
    </div>
  );
}

function Strip({ run }: { run: string }) {
  const store = useStore();
  const { readings, runs, place, hovered, active, text, chosen } = store;
  const info = runs.value?.find((one) => one.id === run);
  const reading = readings.value[run];
  const mine = run === active.value;
  const first = reading?.read?.labels || reading?.read?.fills ? 0 : 1; // the start mark of a language model is no word
  const act = (at: number | null) => {
    if (!mine && at !== null) chosen.value = [run, ...chosen.value.filter((one) => one !== run)];
    place.value = at;
  };
  return (
    <section class={`strip${reading?.asking ? " asking" : ""}`} aria-busy={reading?.asking ?? true} aria-label={info?.name}>
      <h2>
        <span class="name">{info?.name}</span> <span class="muted">{info?.family}</span>
        {reading?.read && <Sum reading={reading} />}
      </h2>
      {reading?.error && (
        <p class="error" role="alert">
          {reading.error}{" "}
          <button class="link" onClick={() => store.retry(run)}>
            Try again
          </button>
        </p>
      )}
      {reading?.read?.image && <img class="whole" src={reading.read.image.data} alt="The image that the model captions" />}
      {reading?.read ? (
        <Tokens
          label={`The text as ${info?.name} reads it`}
          tokens={reading.read.tokens.slice(first).map((word, at) => ({
            text: word,
            nats: reading.read!.surprisal[at + first]!,
            empty: reading.read!.fills && (reading.read!.likeliest[at]?.length ?? 0) > 0,
          }))}
          joined={reading.read.kind !== "word" && reading.read.spans === null}
          first={first}
          selected={mine ? place.value : null}
          pick={act}
          hover={mine ? (at) => (hovered.value = at) : undefined}
          {...(reading.read.given === null && !reading.read.labels && !reading.read.fills ? { after: "…" } : {})}
        />
      ) : !text.value.trim() ? (
        <p class="empty">Type a text above: each word gets the colour of its surprisal.</p>
      ) : (
        !reading?.error && <div class="skeleton" aria-label="The model is being opened" />
      )}
      {reading?.read?.notes.map((note) => (
        <p class="note" key={note}>
          {note}
        </p>
      ))}
    </section>
  );
}

function Sum({ reading }: { reading: Reading }) {
  const read = reading.read!;
  if (read.labels) {
    const label = likeliest(read.labels);
    return (
      <span class="sum">
        {visible(label)} {percent(read.labels.chances.find((one) => one.token === label)!.after)}
      </span>
    );
  }
  if (read.fills) {
    const many = blanksOf(read).length;
    return <span class="sum">{many === 1 ? "1 blank" : `${many} blanks`}</span>;
  }
  const known = read.surprisal.filter((one): one is number => one !== null);
  const sum = known.reduce((total, one) => total + one, 0);
  const before = read.before?.reduce<number>((total, one) => total + (one ?? 0), 0);
  const change = before === undefined ? null : (sum - before) / Math.LN2;
  return (
    <span class="sum">
      {bits(sum)} bits in {known.length} tokens
      {change !== null && Math.abs(change) > 0.005 && (
        <span class={change > 0 ? "down" : "up"}> ({change > 0 ? "+" : "−"}{Math.abs(change).toFixed(2)})</span>
      )}
    </span>
  );
}

const SHOWN = 200;

/** Who knew each word: a row for each word, a column for each model. Any column sorts the rows. */
function Ladder() {
  const { chosen, readings, runs } = useStore();
  const by = useSignal<{ column: number; down: boolean }>({ column: -1, down: false });
  const all = useSignal(false);
  const models = chosen.value.flatMap((id) => {
    const read = readings.value[id]?.read;
    return read && !read.labels && !read.fills ? [{ name: runs.value?.find((run) => run.id === id)?.name ?? id, read }] : [];
  });
  if (models.length < 2) return null;
  const table = ladder(models.map((model) => model.read));
  if (table === null)
    return <p class="note">These models split the text into different words, so that a ladder cannot compare them.</p>;
  const { column, down } = by.value;
  const value = (row: LadderRow) => (column < 0 ? row.place : column < models.length ? (row.nats[column] ?? -1) : row.spread);
  const rows = [...table].sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)));
  const sort = (to: number) => (by.value = { column: to, down: by.value.column === to ? !by.value.down : to >= 0 });
  const head = (to: number, title: string) => (
    <th scope="col" aria-sort={column === to ? (down ? "descending" : "ascending") : "none"} class={to < 0 ? "" : "number"}>
      <button onClick={() => sort(to)}>
        {title}
        <span aria-hidden="true">{column === to ? (down ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
  return (
    <section class="ladder" aria-label="Who knew each word">
      <h2>Who knew each word</h2>
      <div class="wide" tabIndex={0} role="region" aria-label="Surprisal of each word in bits">
        <table>
          <thead>
            <tr>
              {head(-1, "word")}
              {models.map((model, at) => head(at, model.name))}
              {head(models.length, "difference")}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, all.value ? undefined : SHOWN).map((row) => (
              <tr key={row.place}>
                <th scope="row">{visible(row.word)}</th>
                {row.nats.map((nats, at) => (
                  <td key={at} class={`number s${surprisalLevel(nats)}`}>
                    {row.best === at && <span aria-label="the best">● </span>}
                    {bits(nats)}
                  </td>
                ))}
                <td class="number">{bits(row.spread)}</td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">sum</th>
              {models.map((_, at) => (
                <td key={at} class="number">
                  {bits(table.reduce((sum, row) => sum + (row.nats[at] ?? 0), 0))}
                </td>
              ))}
              <td />
            </tr>
          </tfoot>
        </table>
      </div>
      {rows.length > SHOWN && !all.value && (
        <button class="quiet" onClick={() => (all.value = true)}>
          Show all {rows.length} words
        </button>
      )}
    </section>
  );
}
