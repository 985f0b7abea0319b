import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useStore } from "./context";
import type { Scene } from "./protocol";

/** The drawn scenes among which the image of a captioner is chosen. */
export function Scenes({ run }: { run: string }) {
  const store = useStore();
  const { scene } = store;
  const scenes = useSignal<Scene[] | null>(null);
  const error = useSignal<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let late = false;
    store.channel.scenes({ run }).then(
      (found) => !late && (scenes.value = found.scenes),
      (reason: unknown) => !late && (error.value = store.failed(reason)),
    );
    return () => {
      late = true;
    };
  }, [run]);
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const count = scenes.value?.length ?? 0;
    if (by === undefined || !count) return;
    scene.value = (scene.value + by + count) % count;
    box.current?.querySelector<HTMLElement>(`[data-scene="${scene.value}"]`)?.focus();
    event.preventDefault();
  };
  if (error.value !== null) return <p class="error">{error.value}</p>;
  const right = scenes.value?.find((one) => one.id === scene.value)?.caption;
  return (
    <div class="field">
      <span>Scene{right && `: ${right}`}</span>
      <div ref={box} class="scenes" role="radiogroup" aria-label="Scene" onKeyDown={keys}>
        {(scenes.value ?? Array.from({ length: 12 }, () => null)).map((one, at) =>
          one === null ? (
            <span key={at} class="scene empty-scene" />
          ) : (
            <button
              key={at}
              class="scene"
              role="radio"
              data-scene={one.id}
              aria-checked={scene.value === one.id}
              aria-label={`Scene ${one.id}: ${one.caption}`}
              tabIndex={scene.value === one.id ? 0 : -1}
              onClick={() => (scene.value = one.id)}
            >
              <img src={one.data} alt="" />
            </button>
          ),
        )}
      </div>
    </div>
  );
}
