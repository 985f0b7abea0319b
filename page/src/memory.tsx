import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Lines, type Series } from "./chart";
import { useStore } from "./context";
import { useMeasure, Working } from "./measure";
import type { Forgotten } from "./protocol";

/** How far back the chosen models remember, measured on their own held-out text. */
export function MemoryView() {
  const { chosen, runs } = useStore();
  const found = useSignal<Record<string, Forgotten>>({});
  const reads = (id: string) => runs.value?.find((run) => run.id === id);
  const able = chosen.value.filter((id) => reads(id)?.reads === "text");
  const done = able.filter((id) => found.value[id]);
  const name = (id: string) => reads(id)?.name ?? id;
  const series = (points: (one: Forgotten) => readonly (readonly [number, number])[]): Series[] =>
    done
      .map((id) => ({ name: name(id), colour: able.indexOf(id), points: points(found.value[id]!) }))
      .filter((one) => one.points.length);
  const rises = (change: string) =>
    series((one) => one.rises.filter((rise) => rise.change === change).map((rise) => [rise.beyond, rise.rise] as const));
  const gates: Series[] = done.flatMap((id) =>
    Object.entries(found.value[id]!.holds).map(([gate, points]) => ({ name: done.length > 1 ? `${name(id)} ${gate}` : gate, colour: able.indexOf(id), points })),
  );
  const kinds = new Set(able.map((id) => reads(id)?.tokens));
  return (
    <div class="memory">
      <p class="lead">
        How far back does a model remember? A gradient says how much training can learn from a distant word; the rise of the loss,
        what distant words are worth to the trained model. Choose several models to compare them.
      </p>
      {chosen.value.length > able.length && (
        <p class="note">
          {chosen.value.filter((id) => !able.includes(id)).map(name).join(", ")}: forgetting is measured on models that go on from a
          text.
        </p>
      )}
      {kinds.size > 1 && <p class="note">These models have different tokens: distances are counted in tokens of their own.</p>}
      {able.map((id) => (
        <Measure key={id} run={id} name={name(id)} keep={(one) => (found.value = { ...found.value, [id]: one })} />
      ))}
      <div class="charts">
        <Lines title="Gradient of the loss by a word, relative to the last one" across="tokens back" series={series((one) => one.reach)} logX logY />
        <Lines title="Rise of the loss, in nats, if what lies further back is cut off" across="tokens that stay" series={rises("cut")} logX />
        <Lines title="… if it is shuffled" across="tokens that stay" series={rises("shuffled")} logX />
        <Lines title="Share of the state that gates keep" across="tokens" series={gates} logX logY />
      </div>
      {done.map((id) => (
        <p key={id} class="note">
          {name(id)}: loss {found.value[id]!.loss.toFixed(2)} nats with {found.value[id]!.words} words before.{" "}
          {found.value[id]!.notes.join(" ")}
        </p>
      ))}
    </div>
  );
}

function Measure({ run, name, keep }: { run: string; name: string; keep: (one: Forgotten) => void }) {
  const { result, stage, error } = useMeasure("forget", { run });
  useEffect(() => {
    if (result) keep(result);
  }, [result]);
  if (error)
    return (
      <p class="error" role="alert">
        {name}: {error}
      </p>
    );
  return stage ? (
    <div class="of-run">
      <span class="muted">{name}</span> <Working stage={stage} />
    </div>
  ) : null;
}
