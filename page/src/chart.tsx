import { count } from "./format";

const WIDTH = 560, HEIGHT = 260, LEFT = 58, RIGHT = 130, TOP = 12, BOTTOM = 44;

const SMALLEST = 1e-8; // on an axis of logarithms: what is less is 0 to the eye

export interface Series {
  name: string;
  colour?: number; // without one, its place
  points: readonly (readonly [number, number])[];
}

interface Props {
  title: string;
  across: string; // the unit along the axis
  series: readonly Series[];
  logX?: boolean;
  logY?: boolean;
}

/** Lines with their names at their ends. Colours and dashes tell them apart. */
export function Lines({ title, across, series, logX = false, logY = false }: Props) {
  const seen = series.map((one) => ({ ...one, points: one.points.filter(([x, y]) => (!logX || x > 0) && (!logY || y >= SMALLEST)) }));
  const xs = seen.flatMap((one) => one.points.map(([x]) => x));
  const ys = seen.flatMap((one) => one.points.map(([, y]) => y));
  if (!xs.length) return null;
  const across_ = scale(xs, logX, LEFT, WIDTH - RIGHT, false);
  const up = scale(ys, logY, HEIGHT - BOTTOM, TOP, true);
  const ends = spread(seen.map((one) => up.at(one.points[one.points.length - 1]?.[1] ?? up.low)));
  return (
    <figure class="lines-chart">
      <figcaption>{title}</figcaption>
      <svg class="curve" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${title}: ${seen.map((one) => one.name).join(", ")}`}>
        {up.ticks.map((tick) => (
          <g key={tick}>
            <line x1={LEFT} x2={WIDTH - RIGHT} y1={up.at(tick)} y2={up.at(tick)} class="grid" />
            <text x={LEFT - 8} y={up.at(tick) + 4} class="axis" text-anchor="end">
              {label(tick, logY)}
            </text>
          </g>
        ))}
        {across_.ticks.map((tick) => (
          <text key={tick} x={across_.at(tick)} y={HEIGHT - BOTTOM + 18} class="axis" text-anchor="middle">
            {count(tick)}
          </text>
        ))}
        <text x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 3} class="axis" text-anchor="middle">
          {across}
        </text>
        {seen.map((one, at) => (
          <g key={at} class={`series c${(one.colour ?? at) % 6}`}>
            <polyline points={one.points.map(([x, y]) => `${across_.at(x).toFixed(1)},${up.at(y).toFixed(1)}`).join(" ")} />
            {one.points.length < 40 &&
              one.points.map(([x, y]) => (
                <circle key={x} cx={across_.at(x)} cy={up.at(y)} r={2.6}>
                  <title>{`${one.name}: ${label(y, logY)} at ${count(x)}`}</title>
                </circle>
              ))}
            <text x={WIDTH - RIGHT + 8} y={ends[at]! + 4}>
              {one.name.length > 12 ? `…${one.name.slice(-11)}` : one.name}
            </text>
          </g>
        ))}
      </svg>
    </figure>
  );
}

interface Scale {
  at: (value: number) => number;
  ticks: number[];
  low: number;
}

function scale(values: readonly number[], log: boolean, from: number, to: number, round: boolean): Scale {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const of = (value: number) => (log ? Math.log10(value) : value);
  let ticks: number[];
  if (log) {
    const [a, b] = [Math.floor(of(low) + 1e-9), Math.ceil(of(high) - 1e-9)];
    const step = Math.max(1, Math.ceil((b - a) / 6));
    const more = b - a < 2 ? [1, 2, 5] : b - a < 4 ? [1, 3] : [1];
    ticks = [];
    for (let power = a; power <= b; power += step) for (const times of more) ticks.push(times * 10 ** power);
    if (round) [low, high] = [10 ** a, 10 ** Math.max(b, a + 1)];
    ticks = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  } else {
    const raw = (high - low || Math.abs(high) || 1) / 4;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * ([1, 2, 5, 10].find((times) => times * unit >= raw) ?? 10);
    if (round) [low, high] = [Math.floor(low / step) * step, Math.ceil(high / step) * step];
    const first = Math.ceil(low / step - 1e-9);
    ticks = Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, at) => (first + at) * step);
  }
  const wide = of(high) - of(low) || 1;
  return { at: (value) => from + ((of(value) - of(low)) / wide) * (to - from), ticks, low };
}

/** Places of names that do not cover each other. */
function spread(places: readonly number[]): number[] {
  const order = places.map((place, at) => ({ place, at })).sort((a, b) => a.place - b.place);
  for (let k = 1; k < order.length; k++) order[k]!.place = Math.max(order[k]!.place, order[k - 1]!.place + 19);
  const below = Math.max(0, (order[order.length - 1]?.place ?? 0) - (HEIGHT - BOTTOM));
  const out = [...places];
  for (const { place, at } of order) out[at] = place - below;
  return out;
}

function label(value: number, log: boolean): string {
  if (log) return value >= 0.01 && value < 1000 ? String(Number(value.toPrecision(2))) : value.toExponential(0);
  return String(Number(value.toPrecision(3)));
}
