import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import type { Measures } from "./channel";
import { useStore } from "./context";
import type { Stage } from "./protocol";

const PAUSE = 400; // milliseconds that the question must rest

export interface Measured<T> {
  result: T | null; // the last one; it stays on the screen until the next one
  of: string; // the question that it answers
  stage: Stage | null; // while a measurement is made
  error: string | null;
}

/** Make a measurement whenever its question changes. Without a question, nothing is measured. */
export function useMeasure<K extends keyof Measures>(name: K, question: Measures[K][0] | null) {
  const { channel, failed } = useStore();
  const state = useSignal<Measured<Measures[K][1]>>({ result: null, of: "", stage: null, error: null });
  const key = JSON.stringify(question);
  useEffect(() => {
    if (question === null) return;
    const stop = new AbortController();
    state.value = { ...state.value, stage: { about: "waiting for the model", done: null }, error: null };
    const begin = setTimeout(() => {
      channel.measure(name, question, (stage) => (state.value = { ...state.value, stage }), stop.signal).then(
        (result) => (state.value = { result, of: key, stage: null, error: null }),
        (reason: unknown) => {
          const error = failed(reason);
          if (error !== null) state.value = { ...state.value, stage: null, error };
        },
      );
    }, state.value.result === null ? 0 : PAUSE);
    return () => {
      clearTimeout(begin);
      stop.abort();
    };
  }, [name, key]);
  return state.value;
}

/** What is measured now, in words and as a bar. */
export function Working({ stage }: { stage: Stage | null }) {
  return (
    <div class="working" role="status">
      {stage && (
        <>
          <progress {...(stage.done === null ? {} : { max: 1, value: stage.done })} aria-label="Progress of the measurement" />
          <span>{stage.about[0]!.toUpperCase() + stage.about.slice(1)} …</span>
        </>
      )}
    </div>
  );
}
