import { useSignal } from "@preact/signals";
import { sequential, signed, type Theme } from "./colour";
import { Blanks, blanksOf } from "./blanks";
import { useStore } from "./context";
import { Expected } from "./expected";
import { bare, percent, short, visible } from "./format";
import { Veil } from "./image";
import { Labels, likeliest } from "./labels";
import { useMeasure, Working } from "./measure";
import { positionsOf, predictedAfter } from "./positions";
import type { Doubted, DoubtQuestion, Picture, Read } from "./protocol";
import { Say } from "./say";
import type { Reading } from "./store";
import { Tokens } from "./tokens";
import { TwoBars } from "./twobars";
import { Waiting } from "./waiting";

/** How far the attention behind one prediction can move, and what other methods say of its words. */
export function DoubtView() {
  const now = useStore().reading.value;
  if (!now?.read || !now.of) return <Waiting empty="Type a text above, and choose a word to doubt its prediction." />;
  return <Prediction now={now} read={now.read} />;
}

function Prediction({ now, read }: { now: Reading; read: Read }) {
  const { place } = useStore();
  const ended = read.given !== null;
  const last = read.tokens.length - (ended ? 1 : 0);
  const blanks = read.fills ? blanksOf(read) : [];
  const chosen = read.fills
    ? (blanks.find((one) => one === place.value) ?? blanks[0])
    : Math.min(Math.max(1, place.value ?? (ended ? Math.max(1, last - 1) : last)), last);
  if (chosen === undefined) return <p class="empty">Write ___ in the text for a word that the model should fill in: its prediction can then be doubted.</p>;
  return <Doubting now={now} read={read} chosen={chosen} ended={ended} />;
}

interface Choice {
  now: Reading;
  read: Read;
  chosen: number; // the place of the word, or of the blank
  ended: boolean; // the text ends with its last token, after which nothing is predicted
}

function Doubting({ now, read, chosen, ended }: Choice) {
  const { place, info } = useStore();
  const run = now.of!.run;
  const first = read.fills ? 0 : 1; // a text that is read at once has no start mark
  const at = read.labels ? 0 : read.fills ? positionsOf(read, chosen)[0]! : predictedAfter(read, chosen);
  const label = useSignal<string | null>(null);
  const attends = read.sites.some((site) => site.holds === "weights");
  const question: DoubtQuestion = { of: { ...now.of!, words: false }, place: at, word: read.labels ? label.value : null };
  const { result, of, stage, error } = useMeasure("doubt", attends && !now.error ? question : null);
  return (
    <div class="columns">
      <div class="stage doubt">
        <section aria-label="The prediction">
          <p class="muted small">Choose the {read.labels ? "label whose probability" : read.fills ? "blank whose prediction" : "word whose prediction"} is doubted.</p>
          {read.labels && (
            <div class="buttons" role="group" aria-label="Labels to doubt">
              {read.labels.chances.map((one) => (
                <button key={one.id} class="quiet" aria-pressed={(label.value ?? likeliest(read.labels!)) === one.token} onClick={() => (label.value = one.token)}>
                  {visible(one.token)}
                </button>
              ))}
            </div>
          )}
          {!read.labels && (
            <Tokens
              label="Words to doubt"
              tokens={read.tokens.slice(first, ended ? -1 : undefined).map((word, number) => ({
                text: word,
                nats: read.surprisal[number + first]!,
                empty: read.fills && blanksOf(read).includes(number),
              }))}
              joined={read.kind !== "word" && read.spans === null}
              first={first}
              selected={chosen}
              pick={(to) => to !== null && (!read.fills || read.likeliest[to]?.length) && (place.value = to)}
              {...(ended || read.fills ? {} : { after: "…" })}
            />
          )}
        </section>
        <Working stage={stage} />
        {!attends && <p class="note">This model has no attention weights that could be moved: Attention shows what it has instead.</p>}
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        {result && (
          <div class={of === JSON.stringify(question) ? "" : "asking"} aria-busy={stage !== null}>
            <Moved found={result} />
            <Methods found={result} />
          </div>
        )}
      </div>
      <div class="side">
        {read.labels ? (
          <Labels labels={read.labels} name={info.value?.name ?? ""} />
        ) : read.fills ? (
          <Blanks run={run} read={read} place={chosen} />
        ) : (
          <Expected run={run} place={chosen} />
        )}
        {attends && <Say of={question.of} place={at} read={read} words={wordsToSay(read, chosen)} />}
      </div>
    </div>
  );
}

/** The outcomes that the model gives some probability, without the likeliest. */
function wordsToSay(read: Read, place: number): string[] {
  if (read.labels) return read.labels.chances.map((one) => one.token).filter((one) => one !== likeliest(read.labels!));
  return (read.likeliest[read.fills ? place : place - 1] ?? []).slice(1).map(([word]) => word);
}

function Moved({ found }: { found: Doubted }) {
  const all = found.moved[found.moved.length - 1]!;
  const share = all.divergence / (all.most || 1);
  const more = all.name === "all of them at once" ? "all weights together" : `the weights of ${all.name}`;
  return (
    <section aria-label="How far attention can move">
      <h2>
        How far attention can move while <q>{bare(found.target)}</q> keeps its {percent(found.probability)}
      </h2>
      <p>
        {more[0]!.toUpperCase() + more.slice(1)} can go <strong>{percent(share)}</strong> of the way to the farthest weights there
        are, and the prediction moves by {percent(all.variation)} (at most {percent(found.epsilon)}).{" "}
        {share > 0.5
          ? "Very different weights give the same prediction: the weights alone do not explain it."
          : share > 0.15
            ? "The weights have some room."
            : "The weights have little room: as far as the search can tell, the prediction needs them."}
      </p>
      <div class="wide" tabIndex={0} role="region" aria-label="How far the weights of each site can move">
        <table class="gauges">
          <thead>
            <tr>
              <th scope="col">weights of</th>
              <th scope="col" class="bar">moved, of the most</th>
              <th scope="col" class="number" title="Jensen-Shannon divergence in nats: reached, and the largest of any weights">nats</th>
              <th scope="col" class="number" title="How far the prediction moves if the weights are put in a random order (median)">shuffled</th>
              <th scope="col" class="number" title="How far the prediction moves if all words get the same weight">uniform</th>
              <th scope="col" class="number" title="Entropy of the model's own weights, as a share of the largest">entropy</th>
            </tr>
          </thead>
          <tbody>
            {found.moved.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name}</th>
                <td class="bar">
                  <span style={{ width: `${(100 * one.divergence) / (one.most || 1)}%` }} />
                </td>
                <td class="number">
                  {one.divergence.toFixed(2)} of {one.most.toFixed(2)}
                </td>
                <td class="number">{percent(one.permuted_variation)}</td>
                <td class="number">{percent(one.uniform_variation)}</td>
                <td class="number">{one.entropy.toFixed(2)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.image ? (
        <div class="panels">
          <RegionPanel image={found.image} words={found.words} scores={found.own} name="own weights" />
          <RegionPanel image={found.image} words={found.words} scores={found.farthest} name="moved farthest" />
        </div>
      ) : (
        <OwnAndMoved found={found} />
      )}
    </section>
  );
}

/** The model's own weight on each word beside the weight after the move. */
function OwnAndMoved({ found }: { found: Doubted }) {
  const most = Math.max(1e-9, ...found.own, ...found.farthest);
  return (
    <TwoBars what="word" bars={["own", "moved farthest"]} numbers={["own", "moved"]}>
      {found.words.map((word, at) => (
        <tr key={at}>
          <th scope="row">{bare(word)}</th>
          <td class="bar">
            <span class="old" style={{ width: `${(found.own[at]! / most) * 100}%` }} />
            <span class="new more" style={{ width: `${(found.farthest[at]! / most) * 100}%` }} />
          </td>
          <td class="number">{percent(found.own[at]!)}</td>
          <td class="number">{percent(found.farthest[at]!)}</td>
        </tr>
      ))}
    </TwoBars>
  );
}

function RegionPanel({ image, words, scores, name }: { image: Picture; words: string[]; scores: number[]; name: string }) {
  const weights = image.boxes.map(() => 0);
  words.forEach((word, at) => (weights[Number(word)] = Math.max(0, scores[at]!)));
  return (
    <figure class="panel">
      <span class="image">
        <img src={image.data} alt="" />
        <Veil picture={image} weights={weights} />
      </span>
      <figcaption class="word">{name}</figcaption>
    </figure>
  );
}

/** The scores of the words by other methods. Each row is coloured by its own largest score. */
function Methods({ found }: { found: Doubted }) {
  const theme = useStore().theme.value;
  const shown = found.methods.filter((one) => one.scores.length);
  const names = shown.map((one) => one.name);
  return (
    <section aria-label="What other methods say">
      <h2>What other methods say mattered</h2>
      <p class="muted small">
        Without a method’s first words, the prediction loses <em>comprehensiveness</em> (more is better); with these words alone, it
        loses <em>sufficiency</em> (less is better). A method that is no better than a random order has found nothing here.
      </p>
      <div class="wide" tabIndex={0} role="region" aria-label="Scores of the words by each method">
        <table class="methods">
          <thead>
            <tr>
              <th scope="col">method</th>
              <th scope="col" class="number" title="Probability lost without the first words">compr.</th>
              <th scope="col" class="number" title="Probability lost with the first words alone">suff.</th>
              {!found.image && found.words.map((word, at) => (
                <th scope="col" key={at} class="turned">
                  <span>{bare(word)}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {found.methods.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name}</th>
                <td class="number">{short(one.comprehensiveness)}</td>
                <td class="number">{short(one.sufficiency)}</td>
                {!found.image && one.scores.map((score, at) => <Score key={at} score={score} all={one.scores} word={found.words[at]!} theme={theme} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.image && (
        <div class="panels">
          {shown.map((one) => (
            <RegionPanel key={one.name} image={found.image!} words={found.words} scores={one.scores} name={one.name} />
          ))}
        </div>
      )}
      <details>
        <summary>How often do two methods order two words differently? (half of the pairs: chance)</summary>
        <div class="wide" tabIndex={0} role="region" aria-label="Disagreement of methods">
          <table class="methods">
            <thead>
              <tr>
                <td />
                {names.map((name) => (
                  <th scope="col" key={name} class="number">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {found.disagreements.map((row, at) => (
                <tr key={at}>
                  <th scope="row">{names[at]}</th>
                  {row.map((share, other) => (
                    <td key={other} class="number">
                      {other === at ? "" : percent(share)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}

function Score({ score, all, word, theme }: { score: number; all: readonly number[]; word: string; theme: Theme }) {
  const share = score / Math.max(1e-12, ...all.map(Math.abs));
  const colour = score < 0 ? signed(share, theme) : sequential(share, theme);
  return <td class="cell" style={{ background: `rgb(${colour.join(" ")})` }} title={`${visible(word)}: ${score.toPrecision(3)}`} />;
}
