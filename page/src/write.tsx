import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useStore } from "./context";
import { percent, visible } from "./format";
import type { Piece } from "./protocol";
import { Word } from "./word";
import { Scale, Tokens } from "./tokens";

/** The model writes on from the text. Any step can be looked at, changed, and gone on from. */
export function WriteView() {
  const store = useStore();
  const { active, info, text, edits, channel } = store;
  const pieces = useSignal<Piece[]>([]);
  const step = useSignal<number | null>(null);
  const running = useSignal(false);
  const error = useSignal<string | null>(null);
  const length = useSignal(60);
  const temperature = useSignal(0.8);
  const seed = useSignal(1);
  const stop = useRef<(() => void) | null>(null);
  const halt = () => {
    stop.current?.();
    stop.current = null;
    running.value = false;
  };
  useEffect(() => halt, []);
  useEffect(() => {
    halt();
    pieces.value = [];
    step.value = null;
  }, [active.value, text.value]);

  function write(kept: Piece[]): void {
    if (active.value === null) return;
    halt();
    pieces.value = kept;
    step.value = null;
    error.value = null;
    running.value = true;
    stop.current = channel.write(
      {
        run: active.value,
        prompt: text.value,
        ids: kept.map((piece) => piece.id),
        length: length.value,
        temperature: temperature.value,
        seed: seed.value,
        top: 10,
        edits: [...edits.value],
      },
      (piece) => (pieces.value = [...pieces.value, piece]),
      (reason) => {
        running.value = false;
        error.value = reason;
      },
    );
  }

  /** Put another token at a step and go on from there. */
  function choose(at: number, [id, token, probability]: [number, string, number]): void {
    const old = pieces.value[at]!;
    write([...pieces.value.slice(0, at), { ...old, id, token, text: token, probability, ended: false }]);
  }

  function attend(at: number): void {
    const written = pieces.value.slice(0, at).map((piece) => piece.text).join("");
    store.setText(text.value + written);
    store.view.value = "attend";
  }

  const reads = info.value?.reads;
  if (reads && reads !== "text") {
    const instead = { pairs: "translates", labels: "labels texts", captions: "captions images", blanks: "fills blanks" }[reads];
    return <p class="empty">This model {instead} and does not go on from a text: see Reading and Attention.</p>;
  }
  const shown = step.value ?? (pieces.value.length ? pieces.value.length - 1 : null);
  const piece = shown === null ? null : pieces.value[shown];
  return (
    <div class="columns">
      <div class="stage">
        <div class="toolbar">
          {running.value ? (
            <button class="primary" onClick={halt}>
              Stop
            </button>
          ) : (
            <button class="primary" disabled={active.value === null} onClick={() => write([])}>
              {pieces.value.length ? "Write again" : "Write"}
            </button>
          )}
          {!running.value && pieces.value.length > 0 && !pieces.value[pieces.value.length - 1]!.ended && (
            <button class="quiet" onClick={() => write(pieces.value)}>
              Go on
            </button>
          )}
          <Setting label="Tokens" value={length.value} min={1} max={1000} step={1} set={(to) => (length.value = to)} />
          <Setting label="Temperature" value={temperature.value} min={0} max={10} step={0.1} set={(to) => (temperature.value = to)} />
          <Setting label="Seed" value={seed.value} min={0} max={1e9} step={1} set={(to) => (seed.value = to)} />
        </div>
        {error.value && (
          <p class="error" role="alert">
            {error.value}
          </p>
        )}
        <Scale />
        <p class="prompt">{text.value || <span class="muted">(from the beginning)</span>}</p>
        {pieces.value.length ? (
          <Tokens
            label="The text that the model wrote"
            tokens={pieces.value.map((one) => ({ text: one.ended ? "</s>" : one.token, nats: -Math.log(Math.max(one.probability, 1e-30)) }))}
            joined
            selected={step.value}
            pick={(at) => (step.value = at)}
          />
        ) : (
          <p class="empty">{running.value ? "The model begins …" : "The model goes on from the text above, one token at a time."}</p>
        )}
        {pieces.value.length > 1 && (
          <label class="scrub">
            <span>Step {(shown ?? 0) + 1} of {pieces.value.length}</span>
            <input
              type="range"
              min={0}
              max={pieces.value.length - 1}
              value={shown ?? 0}
              onInput={(event) => (step.value = Number(event.currentTarget.value))}
            />
          </label>
        )}
      </div>
      <div class="side">
        {piece ? (
          <section aria-label="Alternatives at this step">
            <h2>
              <span class="muted">step {shown! + 1}: </span>
              <q class="context">{visible(piece.token)}</q> <span class="muted">{percent(piece.probability)}</span>
            </h2>
            <p class="muted small">Choose another token: the model goes on from it.</p>
            <ul class="alternatives">
              {piece.likeliest.map((one) => (
                <li key={one[0]}>
                  <button aria-pressed={one[0] === piece.id} class={one[0] === piece.id ? "here" : ""} onClick={() => choose(shown!, one)}>
                    <span class="name"><Word token={one[1]} /></span>
                    <span class="bar">
                      <span style={{ width: `${one[2] * 100}%` }} />
                    </span>
                    <span class="number">{percent(one[2])}</span>
                  </button>
                </li>
              ))}
            </ul>
            <button class="quiet" onClick={() => attend(shown!)}>
              See the attention before this step
            </button>
          </section>
        ) : (
          <p class="muted">The alternatives of each step appear here.</p>
        )}
      </div>
    </div>
  );
}

function Setting(props: { label: string; value: number; min: number; max: number; step: number; set: (value: number) => void }) {
  return (
    <label class="small-field">
      <span>{props.label}</span>
      <input
        type="number"
        min={props.min}
        max={props.max}
        step={props.step}
        value={props.value}
        onChange={(event) => {
          const to = event.currentTarget.valueAsNumber;
          if (to >= props.min && to <= props.max) props.set(to);
          else event.currentTarget.value = String(props.value);
        }}
      />
    </label>
  );
}
