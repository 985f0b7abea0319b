import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useStore } from "./context";
import { MOST_MODELS } from "./store";

/** The models that read the text. The first one is looked at closely. */
export function Models() {
  const { runs, chosen, host } = useStore();
  const open = useSignal(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      if (box.current && !event.composedPath().includes(box.current)) open.value = false;
    };
    addEventListener("pointerdown", close);
    addEventListener("focusin", close);
    return () => {
      removeEventListener("pointerdown", close);
      removeEventListener("focusin", close);
    };
  }, []);
  if (runs.value === null) return <p class="muted">Looking for runs …</p>;
  const named = (id: string) => runs.value!.find((run) => run.id === id);
  const first = (id: string) => (chosen.value = [id, ...chosen.value.filter((one) => one !== id)]);
  const without = (id: string) => (chosen.value = chosen.value.filter((one) => one !== id));
  return (
    <div class="models" ref={box} onKeyDown={(event) => event.key === "Escape" && (open.value = false)}>
      <ul aria-label="Models that read the text" class="chips">
        {chosen.value.map((id, place) => (
          <li key={id} class={place === 0 ? "chip on" : "chip"}>
            <button
              aria-pressed={place === 0}
              title={place === 0 ? "Looked at closely" : "Look at this model closely"}
              onClick={() => first(id)}
            >
              {named(id)?.name}
            </button>
            {chosen.value.length > 1 && host.asks && (
              <button class="remove" aria-label={`Remove ${named(id)?.name}`} onClick={() => without(id)}>
                ×
              </button>
            )}
          </li>
        ))}
      </ul>
      {host.asks && (
        <button class="quiet" aria-expanded={open.value} aria-controls="run-list" onClick={() => (open.value = !open.value)}>
          {runs.value.length > 1 ? "Choose models" : "About this model"}
        </button>
      )}
      {open.value && (
        <div id="run-list" class="popup">
          <ul>
            {runs.value.map((run) => {
              const on = chosen.value.includes(run.id);
              const full = !on && chosen.value.length >= MOST_MODELS;
              return (
                <li key={run.id} class="run">
                  <button
                    aria-pressed={chosen.value[0] === run.id}
                    onClick={() => {
                      chosen.value = [run.id];
                      open.value = false;
                    }}
                  >
                    <span class="name">{run.name}</span>
                    <span class="about">
                      {run.family}
                      {run.tokens && ` · ${run.tokens}`}
                      {run.loss !== null && ` · loss ${run.loss.toFixed(2)}`}
                    </span>
                  </button>
                  <label class="check">
                    <input
                      type="checkbox"
                      aria-label={`Compare ${run.name}`}
                      checked={on}
                      disabled={full || (on && chosen.value.length === 1)}
                      onChange={() => (on ? without(run.id) : (chosen.value = [...chosen.value, run.id]))}
                    />
                    compare
                  </label>
                </li>
              );
            })}
          </ul>
          {chosen.value.length >= MOST_MODELS && <p class="muted">At most {MOST_MODELS} models at a time.</p>}
        </div>
      )}
    </div>
  );
}
