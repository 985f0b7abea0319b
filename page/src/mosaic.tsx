import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useMeasure, Working } from "./measure";
import { palette } from "./colour";
import { useStore } from "./context";
import { isSilent, toggleSilence } from "./edits";
import { gainOf } from "./heatmap";
import { columnNames, rowNames } from "./positions";
import type { HeadInfo, Heads, Read, ReadQuestion, SiteInfo } from "./protocol";

export const SIZE = 32;

/** A small map for every head of every site of one kind. */
export function Mosaic({ read, of, site, head }: { read: Read; of: ReadQuestion; site: SiteInfo; head: number }) {
  const store = useStore();
  const sites = read.sites.filter((one) => one.holds === site.holds);
  const bytes = useSignal<{ key: string; names: string; data: Uint8Array } | null>(null);
  const names = sites.map((one) => one.name);
  const gain = site.holds === "weights" ? gainOf(Math.max(...sites.map((one) => columnNames(read, one).length))) : 1;
  const key = JSON.stringify([of, names]);
  useEffect(() => {
    let late = false;
    store.channel.mosaic({ of, sites: names, size: SIZE, gain }, "mosaic").then(
      (data) => !late && (bytes.value = { key, names: String(names), data }),
      (error: unknown) => void store.failed(error),
    );
    return () => {
      late = true;
    };
  }, [key]);
  const weighs = site.holds === "weights";
  const colours = palette(weighs, store.theme.value);
  const wanted = useSignal(false); // the measurement of the heads
  const label = useSignal<string | null>(null);
  const reads = store.info.value?.reads;
  const able = store.host.asks && weighs && (reads === "text" || reads === "pairs");
  const { result, stage, error } = useMeasure("heads", wanted.value && able ? { run: of.run } : null);
  const heads = new Map(result?.heads.map((one) => [`${one.site}/${one.head}`, one]));
  let offset = 0;
  return (
    <div class="mosaic">
      {able && <Labels heads={result} kept={label.value} keep={(to) => (label.value = to)} ask={() => (wanted.value = true)} asked={wanted.value} />}
      {wanted.value && stage && <Working stage={stage} />}
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {sites.map((one) => (
        <section key={one.name} aria-label={one.name}>
          <h2 class="minor">{one.name}</h2>
          <div class="grid">
            {one.heads.map((name, number) => {
              const from = offset;
              offset += SIZE * SIZE;
              const found = heads.get(`${one.name}/${number}`);
              if (label.value !== null && (found?.label ?? "none") !== label.value) return null;
              const data = bytes.value?.names === String(names) ? bytes.value.data.subarray(from, from + SIZE * SIZE) : null;
              const silent = weighs && isSilent(store.edits.value, one.name, number);
              const choose = () => {
                store.site.value = one.name;
                store.head.value = number;
                store.form.value = weighs ? "arcs" : "map";
              };
              const size: [number, number] = [used(columnNames(read, one).length), used(rowNames(read, one).length)];
              return (
                <div key={number} class={`piece${silent ? " silent" : ""}${one === site && head === number ? " chosen" : ""}`}>
                  <button class="open" aria-label={`${one.name} ${name}`} title={found && scoresOf(found)} onClick={choose}>
                    <Small data={data} colours={colours} size={size} />
                    <span>{name.replace("head ", "") || "all"}</span>
                  </button>
                  {found && <span class={found.label ? "tag" : "tag none"}>{found.label ?? "no label"}</span>}
                  {weighs && store.host.edits && (
                    <button
                      class="mute"
                      aria-pressed={silent}
                      aria-label={`Silence ${one.name} ${name}`}
                      onClick={() => store.edit(toggleSilence(store.edits.value, one.name, number))}
                    >
                      silence
                    </button>
                  )}
                </div>
              );
            })}
          </div>
        </section>
      ))}
    </div>
  );
}

interface LabelProps {
  heads: Heads | null;
  kept: string | null;
  keep: (label: string | null) => void;
  ask: () => void;
  asked: boolean;
}

/** Finds heads by what they do. A label keeps the heads that have it. */
function Labels({ heads, kept, keep, ask, asked }: LabelProps) {
  if (!heads)
    return (
      <div class="buttons found-heads">
        <button class="quiet" disabled={asked} onClick={ask}>
          What does each head do?
        </button>
      </div>
    );
  const counts = new Map<string, number>();
  for (const head of heads.heads) counts.set(head.label ?? "none", (counts.get(head.label ?? "none") ?? 0) + 1);
  const order = [...counts].sort(([a], [b]) => Number(a === "none") - Number(b === "none") || a.localeCompare(b, "en"));
  return (
    <div class="found-heads">
      <div class="buttons" role="group" aria-label="Heads with a label">
        <button class="quiet" aria-pressed={kept === null} onClick={() => keep(null)}>
          all {heads.heads.length}
        </button>
        {order.map(([name, many]) => (
          <button key={name} class="quiet" aria-pressed={kept === name} onClick={() => keep(kept === name ? null : name)}>
            {name === "none" ? "no label" : name} {many}
          </button>
        ))}
      </div>
      <p class="note">
        {kept && kept !== "none"
          ? `${kept[0]!.toUpperCase()}${kept.slice(1)}: ${heads.kinds[kept]}.`
          : "A label says where a head clearly looks, beyond chance, on random sequences and text; not what the model does with it."}{" "}
        {heads.notes.join(" ")}
      </p>
    </div>
  );
}

function scoresOf(head: HeadInfo): string {
  return head.scores.map((one) => `${one.kind} ${one.value.toFixed(2)} (chance ${one.chance.toFixed(2)})`).join(", ");
}

/** The cells of a small map that hold numbers: the rest of a short text is empty. */
export function used(length: number): number {
  return Math.ceil(length / Math.ceil(length / SIZE));
}

export function Small({ data, colours, size }: { data: Uint8Array | null; colours: Uint32Array; size: [number, number] }) {
  const [wide, high] = size;
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!data || data.length < SIZE * SIZE) return;
    const pen = canvas.current!.getContext("2d")!;
    const image = pen.createImageData(wide, high);
    const pixels = new Uint32Array(image.data.buffer);
    for (let row = 0; row < high; row++)
      for (let column = 0; column < wide; column++) pixels[row * wide + column] = colours[data[row * SIZE + column]!]!;
    pen.putImageData(image, 0, 0);
  });
  return <canvas ref={canvas} width={wide} height={high} aria-hidden="true" />;
}
