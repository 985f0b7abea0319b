import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { Lines } from "./chart";
import { palette } from "./colour";
import { useStore } from "./context";
import { bare, count, percent } from "./format";
import { gainOf } from "./heatmap";
import { SIZE, Small, used } from "./mosaic";
import { columnNames, rowNames } from "./positions";
import type { Read, ReadQuestion, SiteInfo, Trained } from "./protocol";
import { visible } from "./format";

const PACE = 700; // milliseconds that a frame of the film is shown

/** A finished training: its losses, its samples, and the attention at every kept step. */
export function TrainedView() {
  const store = useStore();
  const { active, info, reading } = store;
  const found = useSignal<{ run: string; record: Trained } | null>(null);
  const error = useSignal<string | null>(null);
  const run = active.value;
  useEffect(() => {
    if (run === null) return;
    let late = false;
    store.channel.trained({ run }).then(
      (record) => {
        if (late) return;
        found.value = { run, record };
        error.value = null;
      },
      (reason: unknown) => !late && (error.value = store.failed(reason)),
    );
    return () => {
      late = true;
    };
  }, [run]);
  if (error.value)
    return (
      <p class="error" role="alert">
        {error.value}
      </p>
    );
  const record = found.value?.run === run ? found.value.record : null;
  if (!record) return <div class="skeleton tall" aria-label="The record is being read" />;
  const losses = (at: 1 | 2) => record.losses.flatMap((one) => (one[at] === null ? [] : [[one[0], one[at]] as const]));
  if (!record.losses.length && !record.samples.length) return <p class="empty">{info.value?.name} keeps no record of a training.</p>;
  const now = reading.value;
  return (
    <div class="trained">
      <div class="charts">
        <Lines title="Loss, in nats per token" across="steps" series={[{ name: "training", points: losses(1) }, { name: "validation", points: losses(2) }].filter((one) => one.points.length)} />
        {record.samples.length > 0 && <Samples samples={record.samples} />}
      </div>
      {record.frames.length ? (
        now?.read && now.of && <Film key={run} read={now.read} of={now.of} record={record} />
      ) : (
        <p class="note">
          This training kept no film. With <code>regard train … --film</code>, the attention at every validation can be seen here.
        </p>
      )}
    </div>
  );
}

/** What the model wrote at each validation. */
function Samples({ samples }: { samples: Trained["samples"] }) {
  const at = useSignal(samples.length - 1);
  const [step, text] = samples[Math.min(at.value, samples.length - 1)]!;
  return (
    <figure class="sample">
      <figcaption>What it wrote after {count(step)} steps</figcaption>
      <pre aria-live="polite" tabIndex={0}>{text}</pre>
      <input
        type="range"
        min={0}
        max={samples.length - 1}
        value={at.value}
        aria-label="Sample"
        aria-valuetext={`after ${step} steps`}
        onInput={(event) => (at.value = Number(event.currentTarget.value))}
      />
    </figure>
  );
}

interface Frame {
  read: Read;
  bytes: Uint8Array;
}

/** The maps of all heads on the text, and the next word, at each kept step. */
function Film({ read, of, record }: { read: Read; of: ReadQuestion; record: Trained }) {
  const store = useStore();
  const at = useSignal(record.frames.length - 1);
  const playing = useSignal(false);
  const frames = useSignal<Record<string, Frame>>({});
  const error = useSignal<string | null>(null);
  const sites = read.sites.filter((one) => one.holds === "weights");
  const names = sites.map((one) => one.name);
  const base = JSON.stringify([of, names]);
  const name = (step: number) => `${base}/${step}`;
  useEffect(() => {
    let late = false;
    const load = async () => {
      // the shown step first, then the others in order
      const order = [record.frames[at.value]!, ...record.frames];
      for (const step of order) {
        if (late) return;
        if (frames.value[name(step)]) continue;
        const then = { ...of, edits: [], step };
        const own = await store.channel.read(then, "film");
        const gain = gainOf(Math.max(1, ...sites.map((one) => columnNames(read, one).length)));
        const bytes = sites.length ? await store.channel.mosaic({ of: then, sites: names, size: SIZE, gain }, "film") : new Uint8Array();
        if (!late) frames.value = { ...frames.value, [name(step)]: { read: own, bytes } };
      }
    };
    load().catch((reason: unknown) => !late && (error.value = store.failed(reason)));
    return () => {
      late = true;
    };
  }, [base]);
  useEffect(() => {
    if (!playing.value) return;
    const timer = setInterval(() => {
      const next = (at.value + 1) % record.frames.length;
      if (frames.value[name(record.frames[next]!)]) at.value = next;
    }, PACE);
    return () => clearInterval(timer);
  }, [playing.value, base]);
  const step = record.frames[at.value]!;
  const frame = frames.value[name(step)] ?? null;
  const loss = record.losses.find(([one]) => one === step);
  const ready = record.frames.filter((one) => frames.value[name(one)]).length;
  return (
    <section class="film" aria-label="The attention at every kept step">
      <h2>The attention at every kept step</h2>
      <div class="reel">
        <button class="primary" aria-pressed={playing.value} onClick={() => (playing.value = !playing.value)}>
          {playing.value ? "Pause" : "Play"}
        </button>
        <input
          type="range"
          min={0}
          max={record.frames.length - 1}
          value={at.value}
          aria-label="Step of the training"
          aria-valuetext={`step ${step}`}
          onInput={(event) => {
            playing.value = false;
            at.value = Number(event.currentTarget.value);
          }}
        />
        <p role="status">
          step <strong>{count(step)}</strong>
          {loss && `, loss ${(loss[2] ?? loss[1]).toFixed(2)}`}
          {ready < record.frames.length && <span class="muted"> · {ready} of {record.frames.length} steps are read</span>}
        </p>
      </div>
      {error.value && (
        <p class="error" role="alert">
          {error.value}
        </p>
      )}
      <div class="frame">
        <div class="mosaic">
          {sites.map((site, number) => (
            <Heads key={site.name} site={site} read={read} bytes={frame?.bytes ?? null} offset={sites.slice(0, number).reduce((sum, one) => sum + one.heads.length, 0)} />
          ))}
          {!sites.length && <p class="note">This model has no attention weights.</p>}
        </div>
        {frame && <NextWord read={frame.read} />}
      </div>
    </section>
  );
}

function Heads({ site, read, bytes, offset }: { site: SiteInfo; read: Read; bytes: Uint8Array | null; offset: number }) {
  const { theme } = useStore();
  const size: [number, number] = [used(columnNames(read, site).length), used(rowNames(read, site).length)];
  const colours = palette(true, theme.value);
  return (
    <section aria-label={site.name}>
      <h3 class="minor">{site.name}</h3>
      <div class="grid">
        {site.heads.map((head, number) => {
          const first = (offset + number) * SIZE * SIZE;
          return (
            <div key={number} class="piece">
              <Small data={bytes ? bytes.subarray(first, first + SIZE * SIZE) : null} colours={colours} size={size} />
              <span class="small">{head || "all"}</span>
            </div>
          );
        })}
      </div>
    </section>
  );
}

function NextWord({ read }: { read: Read }) {
  if (read.labels || !read.likeliest.length) return null;
  const ended = read.given !== null;
  const rows = (read.likeliest[read.likeliest.length - 1] ?? []).slice(0, 8);
  const most = Math.max(1e-9, ...rows.map(([, p]) => p));
  const context = read.tokens.slice(1, ended ? -1 : undefined).slice(-4).map(bare).join(" ");
  return (
    <section class="next-word" aria-label="The next word at this step">
      <h3>
        <span class="muted">after </span>
        <q>{context}</q>
      </h3>
      <table class="bars">
        <tbody>
          {rows.map(([word, p]) => (
            <tr key={word}>
              <th scope="row">{visible(word)}</th>
              <td class="bar">
                <span style={{ width: `${(p / most) * 100}%` }} />
              </td>
              <td class="number">{percent(p)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
