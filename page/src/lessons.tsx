import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { useStore } from "./context";
import { Formula } from "./math";
import type { LessonInfo, LessonInput, LessonPage, LessonStep } from "./protocol";

const PAUSE = 250; // milliseconds that an input must rest

/** The course: every lesson with its formulas, its numbers, and inputs that can be changed. */
export function LessonsView() {
  const store = useStore();
  const { lesson, settings, channel } = store;
  const course = useSignal<LessonInfo[] | null>(null);
  const page = useSignal<LessonPage | null>(null);
  const error = useSignal<string | null>(null);
  const asking = useSignal(false);
  const name = lesson.value ?? "attention";
  const key = JSON.stringify([name, settings.value]);
  useEffect(() => {
    channel.course().then(
      (found) => (course.value = found.lessons),
      (reason: unknown) => (error.value = store.failed(reason)),
    );
  }, []);
  useEffect(() => {
    let late = false;
    asking.value = true;
    const begin = setTimeout(() => {
      channel.lesson({ name, inputs: settings.value }).then(
        (found) => {
          if (late) return;
          page.value = found;
          error.value = null;
          asking.value = false;
        },
        (reason: unknown) => {
          const message = store.failed(reason);
          if (late || message === null) return;
          error.value = message;
          asking.value = false;
        },
      );
    }, page.value?.name === name ? PAUSE : 0);
    return () => {
      late = true;
      clearTimeout(begin);
    };
  }, [key]);
  const open = (to: string) => {
    settings.value = {};
    lesson.value = to;
    window.scrollTo({ top: 0 });
  };
  const shown = page.value;
  return (
    <div class="course">
      <nav aria-label="Lessons">
        <label class="small-field">
          <span>Lesson</span>
          <select value={name} onChange={(event) => open(event.currentTarget.value)}>
            {course.value?.map((one) => (
              <option key={one.name} value={one.name}>
                {one.name}
              </option>
            ))}
          </select>
        </label>
        <ol>
          {course.value?.map((one) => (
            <li key={one.name}>
              <button aria-current={one.name === name ? "page" : undefined} title={one.about} onClick={() => open(one.name)}>
                {one.name}
              </button>
            </li>
          ))}
        </ol>
      </nav>
      {shown ? (
        <article class={asking.value ? "asking" : ""} aria-busy={asking.value}>
          <h2>{shown.name}</h2>
          <p class="lead">{shown.about}</p>
          {shown.builds_on.length > 0 && (
            <p class="small">
              Builds on{" "}
              {shown.builds_on.map((one, at) => (
                <span key={one}>
                  {at > 0 && ", "}
                  <button class="link" onClick={() => open(one)}>
                    {one}
                  </button>
                </span>
              ))}
              .
            </p>
          )}
          <Inputs inputs={shown.inputs} />
          {error.value && (
            <p class="error" role="alert">
              {error.value}
            </p>
          )}
          {shown.steps.map((step, at) => (
            <Step key={`${shown.name}/${at}`} step={step} number={at + 1} />
          ))}
          <section class="step">
            <h3>Exercise</h3>
            <p>{shown.task}</p>
            <details>
              <summary>A solution</summary>
              <pre class="code" tabIndex={0}>
                {shown.solution}
              </pre>
            </details>
          </section>
        </article>
      ) : error.value ? (
        <p class="error" role="alert">
          {error.value}
        </p>
      ) : (
        <div class="skeleton tall" aria-label="The lesson is being computed" />
      )}
    </div>
  );
}

/** The inputs of the lesson. A change is computed at once. */
function Inputs({ inputs }: { inputs: LessonInput[] }) {
  const { settings } = useStore();
  const value = (one: LessonInput) => settings.value[one.name] ?? one.value;
  const set = (one: LessonInput, to: string) => {
    const { [one.name]: _, ...others } = settings.value;
    settings.value = to === one.usual ? others : { ...others, [one.name]: to };
  };
  return (
    <section class="inputs" aria-label="Inputs">
      <div class="input-row">
        {inputs.map((one) => (
          <div key={one.name} class={one.name in settings.value ? "input changed" : "input"}>
            <span class="name">{one.name}</span>
            {numeric(one.usual) && numeric(value(one)) ? (
              <Cells name={one.name} value={value(one)} set={(to) => set(one, to)} />
            ) : (
              <input
                aria-label={one.name}
                value={value(one)}
                spellcheck={false}
                size={Math.min(48, Math.max(6, value(one).length + 1))}
                onInput={(event) => set(one, event.currentTarget.value)}
              />
            )}
          </div>
        ))}
      </div>
      {Object.keys(settings.value).length > 0 && (
        <button class="quiet" onClick={() => (settings.value = {})}>
          The lesson’s own inputs
        </button>
      )}
    </section>
  );
}

function numeric(value: string): boolean {
  return value.split(/[;,]/).every((part) => part.trim() !== "" && Number.isFinite(Number(part)));
}

/** A number, a vector or a matrix: a field for each number. */
function Cells({ name, value, set }: { name: string; value: string; set: (to: string) => void }) {
  const rows = value.split(";").map((row) => row.split(","));
  const put = (row: number, column: number, to: string) => {
    if (to.trim() === "" || !Number.isFinite(Number(to))) return;
    set(rows.map((cells, r) => cells.map((cell, c) => (r === row && c === column ? to : cell)).join(",")).join(";"));
  };
  return (
    <span class="cells" style={{ gridTemplateColumns: `repeat(${rows[0]!.length}, 4.2em)` }}>
      {rows.flatMap((cells, row) =>
        cells.map((cell, column) => (
          <input
            key={`${row},${column}`}
            inputMode="decimal"
            aria-label={rows.length * cells.length > 1 ? `${name}, row ${row + 1}, column ${column + 1}` : name}
            value={cell}
            onChange={(event) => put(row, column, event.currentTarget.value)}
            onKeyDown={(event) => {
              const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
              if (by === undefined) return;
              event.preventDefault();
              put(row, column, String(Number((Number(cell) + by * (event.shiftKey ? 0.1 : 1)).toFixed(6))));
            }}
          />
        )),
      )}
    </span>
  );
}

/** A step: first what is asked, then the numbers. */
function Step({ step, number }: { step: LessonStep; number: number }) {
  const chosen = useSignal<string | null>(null);
  const open = useSignal(step.question === "");
  const shown = open.value || step.question === "";
  const reason = step.choices.find((one) => one.text === chosen.value);
  return (
    <section class="step" aria-label={step.title}>
      <h3>
        {number}. {step.title}
      </h3>
      {step.math ? <Formula math={step.math} /> : step.formula && <code class="formula">{step.formula}</code>}
      {step.intro && <p>{step.intro}</p>}
      {step.question && (
        <div class="asked">
          <p>
            <strong>{step.question}</strong>
          </p>
          <div class="buttons">
            {step.choices.map((one) => (
              <button
                key={one.text}
                class={`quiet${chosen.value === one.text ? (one.right ? " right" : " wrong") : ""}`}
                aria-pressed={chosen.value === one.text}
                onClick={() => {
                  chosen.value = one.text;
                  open.value = open.value || one.right;
                }}
              >
                {one.text}
              </button>
            ))}
            {!shown && (
              <button class="link" onClick={() => (open.value = true)}>
                Show the numbers
              </button>
            )}
          </div>
          <p class="reason" role="status">
            {reason && `${reason.right ? "Right." : "Not quite."} ${reason.reason}`}
          </p>
        </div>
      )}
      {shown && (
        <div class="result">
          {step.picture && <img src={step.picture} alt={`${step.title}: the numbers as a picture`} />}
          {step.values.length > 0 && (
            <div class="wide" tabIndex={0} role="region" aria-label={`Numbers of ${step.title}`}>
              <table class="values">
                <tbody>
                  {step.values.map(([name, value]) => (
                    <tr key={name}>
                      <th scope="row">{name}</th>
                      <td>{value}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {step.says && <p>{step.says}</p>}
        </div>
      )}
    </section>
  );
}
