import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useStore } from "./context";
import { asQuestion } from "./pictures";

/** The images among which that of a captioner is chosen: its own data, drawn scenes, and files that a person adds. */
export function Scenes({ run }: { run: string }) {
  const store = useStore();
  const { scene, offered } = store;
  const error = useSignal<string | null>(null);
  const adding = useSignal(false);
  const box = useRef<HTMLDivElement>(null);
  const file = useRef<HTMLInputElement>(null);
  useEffect(() => {
    let late = false;
    offered.value = null;
    store.channel.scenes({ run }).then(
      (found) => {
        if (late) return;
        offered.value = found.scenes;
        if (!store.shown.value) scene.value = null; // an image of another run, or of an earlier lab
      },
      (reason: unknown) => !late && (error.value = store.failed(reason)),
    );
    return () => {
      late = true;
    };
  }, [run]);
  const found = offered.value;
  const chosen = store.shown.value?.id ?? null;
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (by === undefined || !found?.length) return;
    const at = found.findIndex((one) => one.id === chosen);
    scene.value = found[(at + by + found.length) % found.length]!.id;
    box.current?.querySelector<HTMLElement>(`[data-scene="${scene.value}"]`)?.focus();
    event.preventDefault();
  };
  const add = async (added: File | undefined) => {
    if (!added) return;
    adding.value = true;
    error.value = null;
    try {
      const data = await asQuestion(added);
      const one = await store.channel.add({ run, name: added.name.slice(-200), data });
      offered.value = [one, ...(offered.value ?? []).filter((other) => other.id !== one.id)];
      scene.value = one.id;
    } catch (reason) {
      error.value = store.failed(reason);
    }
    adding.value = false;
  };
  const right = store.shown.value?.caption;
  return (
    <div class="field">
      <span>Image{right && `: ${right}`}</span>
      <div
        ref={box}
        class="scenes"
        role="radiogroup"
        aria-label="Image"
        onKeyDown={keys}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          void add(event.dataTransfer?.files[0]);
        }}
      >
        {(found ?? Array.from({ length: 12 }, () => null)).map((one, at) =>
          one === null ? (
            <span key={at} class="scene empty-scene" />
          ) : (
            <button
              key={one.id}
              class="scene"
              role="radio"
              data-scene={one.id}
              aria-checked={chosen === one.id}
              aria-label={`Image ${one.id}: ${one.caption}`}
              title={one.caption}
              tabIndex={chosen === one.id ? 0 : -1}
              onClick={() => (scene.value = one.id)}
            >
              <img src={one.data} alt="" />
            </button>
          ),
        )}
      </div>
      {found && (
        <>
          <button class="link small" disabled={adding.value} aria-busy={adding.value} onClick={() => file.current?.click()}>
            Add an image …
          </button>
          <input
            ref={file}
            type="file"
            hidden
            accept="image/*"
            aria-label="Image file"
            onChange={(event) => {
              void add(event.currentTarget.files?.[0]);
              event.currentTarget.value = ""; // the same file can be chosen again
            }}
          />
        </>
      )}
      {error.value !== null && (
        <p class="error small" role="alert">
          {error.value}
        </p>
      )}
    </div>
  );
}
