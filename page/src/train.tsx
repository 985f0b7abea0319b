import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useStore } from "./context";
import { count } from "./format";
import type { Progress } from "./protocol";

const WIDTH = 640, HEIGHT = 240, LEFT = 44, RIGHT = 88, BOTTOM = 28;

/** Without any run, the lab trains a small model and shows how it learns. */
export function TrainView() {
  const store = useStore();
  const progress = useSignal<Progress | null>(null);
  useEffect(() => {
    let stopped = false;
    const follow = async () => {
      try {
        let now = await store.channel.train();
        while (!stopped) {
          progress.value = now;
          store.connection.value = "fine";
          if (now.state === "done") return void store.loadRuns();
          if (now.state === "failed") return;
          await new Promise((wake) => setTimeout(wake, 700));
          now = await store.channel.training();
        }
      } catch (error) {
        store.failed(error);
        if (!stopped) setTimeout(() => void follow(), 1500);
      }
    };
    void follow();
    return () => {
      stopped = true;
    };
  }, []);
  const now = progress.value;
  const left = now ? Math.max(0, Math.round(now.limit - now.seconds)) : null;
  return (
    <section class="training" aria-label="A model is trained">
      <h2>A small Transformer learns to write</h2>
      <p>
        There is no run in this folder yet, so the lab trains one on the text that is inside every Python: the language
        reference. {left !== null && now?.state === "training" && (left > 0 ? `About ${left} seconds are left.` : "The last measurement runs.")}
      </p>
      {now?.state === "failed" && (
        <p class="error" role="alert">
          {now.error}
        </p>
      )}
      <progress max={now?.limit || 1} value={now ? Math.min(now.seconds, now.limit) : 0} aria-label="Time of the training" />
      <Curve losses={now?.losses ?? []} />
      <figure class="sample">
        <figcaption>{now?.sample ? "What it writes now" : "Its first words come after the first measurement."}</figcaption>
        <pre aria-live="off">{now?.sample ?? ""}</pre>
      </figure>
    </section>
  );
}

/** Training and validation loss against steps. */
function Curve({ losses }: { losses: Progress["losses"] }) {
  const steps = Math.max(1, ...losses.map(([step]) => step));
  const values = losses.flatMap(([, train, valid]) => [train, ...(valid === null ? [] : [valid])]);
  const [low, high] = values.length ? [Math.floor(Math.min(...values)), Math.ceil(Math.max(...values))] : [0, 8];
  const x = (step: number) => LEFT + (step / steps) * (WIDTH - LEFT - RIGHT);
  const y = (loss: number) => 12 + ((high - loss) / (high - low || 1)) * (HEIGHT - BOTTOM - 12);
  const line = (at: 1 | 2) =>
    losses.flatMap((entry) => (entry[at] === null ? [] : [`${x(entry[0]).toFixed(1)},${y(entry[at]!).toFixed(1)}`])).join(" ");
  const last = losses[losses.length - 1];
  const step = high - low > 2 ? 1 : 0.5;
  const ticks = Array.from({ length: (high - low) / step + 1 }, (_, at) => low + at * step);
  return (
    <svg class="curve" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={last ? `Loss ${last[1].toFixed(2)} after ${last[0]} steps` : "No loss yet"}>
      {ticks.map((tick) => (
        <g key={tick}>
          <line x1={LEFT} x2={WIDTH - RIGHT} y1={y(tick)} y2={y(tick)} class="grid" />
          <text x={LEFT - 8} y={y(tick) + 4} class="axis" text-anchor="end">
            {tick}
          </text>
        </g>
      ))}
      <text x={LEFT} y={HEIGHT - 6} class="axis">
        loss, nats per token, against steps
      </text>
      {losses.length === 1 && <circle cx={x(last![0])} cy={y(last![2] ?? last![1])} r={3} class="dot" />}
      <polyline points={line(1)} class="train" />
      <polyline points={line(2)} class="valid" />
      {last && (
        <>
          <text x={x(last[0]) + 6} y={y(last[1]) + 12} class="axis">
            train
          </text>
          {last[2] !== null && (
            <text x={x(last[0]) + 6} y={y(last[2]) - 4} class="axis">
              valid {last[2].toFixed(2)}
            </text>
          )}
          <text x={x(last[0])} y={HEIGHT - 6} class="axis" text-anchor="end">
            {count(last[0])}
          </text>
        </>
      )}
    </svg>
  );
}
