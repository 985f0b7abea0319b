import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { palette } from "./colour";
import { useStore } from "./context";
import { isSilent, toggleSilence } from "./edits";
import { gainOf } from "./heatmap";
import { columnNames, rowNames } from "./positions";
import type { Read, ReadQuestion, SiteInfo } from "./protocol";

const SIZE = 32;

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
  let offset = 0;
  return (
    <div class="mosaic">
      {sites.map((one) => (
        <section key={one.name} aria-label={one.name}>
          <h2 class="minor">{one.name}</h2>
          <div class="grid">
            {one.heads.map((name, number) => {
              const from = offset;
              offset += SIZE * SIZE;
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
                  <button class="open" aria-label={`${one.name} ${name}`} onClick={choose}>
                    <Small data={data} colours={colours} size={size} />
                    <span>{name.replace("head ", "") || "all"}</span>
                  </button>
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

/** The cells of a small map that hold numbers: the rest of a short text is empty. */
function used(length: number): number {
  return Math.ceil(length / Math.ceil(length / SIZE));
}

function Small({ data, colours, size }: { data: Uint8Array | null; colours: Uint32Array; size: [number, number] }) {
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
