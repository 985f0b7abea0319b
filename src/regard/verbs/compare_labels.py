"""regard compare --labelled: every encoder and pooling of the classifier on one task."""

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import torch

from regard.boundary import build, parse_json, read_bytes
from regard.errors import Interrupted, UserError
from regard.inside import charts
from regard.inside.output import write_chart
from regard.machine.device import describe_machine
from regard.machine.disk import lock_folder, write_atomically, write_json
from regard.models.encoders import EncoderName
from regard.parts.pooling import PoolName
from regard.probabilities.labels import LabelMeasure, measure_labels
from regard.probabilities.ranking import confidence
from regard.ranges import Positive, Rows
from regard.runs.formats import load
from regard.runs.formats.folder import CONFIG, TRAINING, check_free
from regard.runs.labelled import require_labeller
from regard.runs.run import Run
from regard.tables import Table, TableRows, harmless
from regard.text.labelled import Labelled, check_labels, hold_out, read_labelled
from regard.tokens.rows import encode_rows
from regard.training.task import Listener
from regard.verbs.arguments import Files
from regard.verbs.compare_report import training_curve, write_markdown
from regard.verbs.train import train

PLAN, RESULTS, TEXTS = "labels-plan.json", "results.json", "text"
MOST_LABELS = 12  # the labels that the report names
ECE = "ECE, the expected calibration error, is the mean gap between probability and accuracy."
SPLIT = 11  # the seed of the test texts; validation texts are split from the rest by each training


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    """The models and the budget of a comparison, saved so that a stopped comparison can be finished."""

    names: tuple[str, ...]
    minutes: Positive | None
    seeds: Rows
    labels: tuple[str, ...]
    # For the report: the files, the beginning of the comparison, and the machine.
    sources: tuple[str, ...] = ()
    began: str = ""
    machine: str = ""

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names) or not set(self.names) <= {*every_name()}:
            raise UserError("name each classifier once, as ENCODER:POOL")


@dataclass(frozen=True)
class LabelResult:
    """One trained classifier and its measure on the test texts."""

    name: str
    seed: int
    folder: str
    parameters: int
    seconds: float
    measure: LabelMeasure
    curve: list[dict[str, float]]  # points with the keys seconds and valid_loss


@dataclass(frozen=True)
class LabelComparison(Table):
    """The figures of the encoders and poolings, and the folder that holds the runs."""

    out: Path
    results: list[LabelResult]
    notes: list[str]

    def table(self) -> list[dict[str, Any]]:
        """A row for each encoder and pooling with its means over seeds, the most accurate first."""
        rows = list[dict[str, Any]]()
        for name in dict.fromkeys(result.name for result in self.results):
            same = [result for result in self.results if result.name == name]
            accuracies = [result.measure.accuracy for result in same]
            rows.append(
                {
                    "name": name,
                    "accuracy": statistics.fmean(accuracies),
                    "interval": confidence(accuracies),
                    "macro_f1": statistics.fmean(result.measure.macro_f1 for result in same),
                    "loss": statistics.fmean(result.measure.loss for result in same),
                    "calibration_error": statistics.fmean(
                        result.measure.calibration_error for result in same
                    ),
                    "parameters": same[0].parameters,
                    "seconds": statistics.fmean(result.seconds for result in same),
                }
            )
        ranked = sorted(rows, key=lambda row: -row["accuracy"])
        return [{"rank": place, **row} for place, row in enumerate(ranked, 1)]

    def rows(self) -> TableRows:
        """A row for each encoder and pooling, the most accurate first."""
        return self.table()

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "table": self.table(),
            "notes": self.notes,
            "results": [{**asdict(result), "measure": result.measure.to_json()} for result in self.results],
        }


Finished = Callable[[LabelResult], None]


def every_name() -> list[str]:
    """Return every encoder with every pooling, such as bilstm:attention."""
    return [f"{encoder}:{pool}" for encoder in get_args(EncoderName) for pool in get_args(PoolName)]


def compare_labels(
    labelled: Files,
    columns: str | None,
    names: Sequence[str],
    minutes: float | None,
    seeds: int,
    out: Path,
    listener: Listener,
    finished: Finished,
) -> LabelComparison:
    """Train classifiers on the same texts, and measure them on a tenth that none has seen."""
    plan_names = tuple(_chosen(names))
    files = [labelled] if isinstance(labelled, str | Path) else labelled
    if not files:
        raise UserError("`columns` goes with `labelled`: name the file that has these columns")
    whole = read_labelled([*map(str, files)], columns.split(",") if columns else ())
    check_labels(whole)
    train_part, test = _split(whole)
    check_free(out)
    with lock_folder(out):
        check_free(out)
        given = {
            "names": plan_names,
            "minutes": minutes,
            "seeds": seeds,
            "labels": train_part.names(),
            "sources": tuple(map(str, files)),
            "began": datetime.now().astimezone().isoformat(" ", "minutes"),
            "machine": describe_machine(),
        }
        plan = build(LabelPlan, given)
        (out / TEXTS).mkdir()
        for name, part in {"train": train_part, "test": test}.items():
            _write(part, out / TEXTS / f"{name}.jsonl")
        write_json(asdict(plan), out / PLAN)
        return _carry_out(plan, out, listener, finished)


def _split(whole: Labelled) -> tuple[Labelled, Labelled]:
    """Return the training and the test texts, of which the first leave validation texts to each training."""
    try:
        train_part, test = hold_out(whole, seed=SPLIT)
        hold_out(train_part)
    except UserError:
        raise UserError(
            f"{whole.name}: there are too few texts to hold some out for validation and others for the "
            "measure: give 4 or more of a label"
        ) from None
    return train_part, test


def finish_labels(out: Path, listener: Listener, finished: Finished) -> LabelComparison:
    """Finish a stopped comparison. Finished runs stay, and stopped trainings are resumed."""
    with lock_folder(out):
        again = f"{out}: {PLAN} is damaged; compare again into another `out`"
        return _carry_out(
            parse_json(LabelPlan, read_bytes(out / PLAN, again), again), out, listener, finished
        )


def _chosen(names: Sequence[str]) -> Iterator[str]:
    """Yield ENCODER:POOL for each name. A name without a pooling stands for all of them."""
    known = every_name()
    for name in names or known:
        found = [one for one in known if name in (one, one.partition(":")[0])]
        if not found:
            encoders, pools = ", ".join(get_args(EncoderName)), ", ".join(get_args(PoolName))
            raise UserError(f"{name}: name an encoder ({encoders}), or ENCODER:POOL with a pool of {pools}")
        yield from found


def _write(part: Labelled, path: Path) -> None:
    pairs = zip(part.labels, part.texts, strict=True)
    lines = (json.dumps({"label": label, "text": text}, ensure_ascii=False) for label, text in pairs)
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def _carry_out(plan: LabelPlan, out: Path, listener: Listener, finished: Finished) -> LabelComparison:
    test = read_labelled([str(out / TEXTS / "test.jsonl")])
    results = list[LabelResult]()
    for name in plan.names:
        for seed in range(1, plan.seeds + 1):
            folder = out / (name.replace(":", "-") + (f"-{seed}" if seed > 1 else ""))
            try:
                run = _trained(plan, name, seed, out, folder, listener)
            except KeyboardInterrupt:
                again = f"go on with: regard compare --out {out} --resume"
                raise Interrupted(f"stopped; what is trained stays; {again}") from None
            model = require_labeller(run)
            rows = encode_rows(run.tokenizer, test.texts, model.context)
            names = run.config.labels
            measure = measure_labels(model, rows, torch.tensor(test.numbers(names)), names)
            parameters, seconds = model.parameter_count(), run.config.seconds
            curve = training_curve(folder)
            results.append(LabelResult(name, seed, folder.name, parameters, seconds, measure, curve))
            finished(results[-1])
    comparison = LabelComparison(out, results, _notes(results))
    write_json(comparison.to_json(), out / RESULTS)
    _write_report(plan, comparison)
    return comparison


def _write_report(plan: LabelPlan, comparison: LabelComparison) -> None:
    """Write report.md, comparison.svg and report.html."""
    out, table, results = comparison.out, comparison.table(), comparison.results
    facts, shown = _conditions(plan, results[0].measure), [for_people(row) for row in table]
    write_markdown(out, facts, shown, comparison.notes)
    bars = charts.shares([_with_interval(row, results) for row in table])
    write_chart(bars, out / "comparison.svg")
    first = [result for result in results if result.seed == 1]
    points = [{"name": result.name, **point} for result in first for point in result.curve]
    curves = charts.curves(points, [row["name"] for row in table], "text")
    page = charts.page("Comparison", facts, [bars, curves], shown, comparison.notes, [])
    write_atomically(out / "report.html", page.encode())


def _conditions(plan: LabelPlan, measure: LabelMeasure) -> dict[str, str]:
    """Return the conditions under which the figures hold, by name."""
    stops = "until the held-out loss no longer falls"
    length = stops if plan.minutes is None else f"{plan.minutes:g} minutes"
    seeds = "one seed" if plan.seeds == 1 else f"{plan.seeds} seeds"
    return {
        "Texts": f"{', '.join(map(harmless, plan.sources))}; measured on {measure.texts:,} of them",
        "Labels": f"{len(plan.labels)}: {', '.join(map(harmless, plan.labels[:MOST_LABELS]))}"
        + (", ..." if len(plan.labels) > MOST_LABELS else ""),
        "Budget": f"{length}, each; {seeds}",
        "Machine": harmless(plan.machine),
        "Date": harmless(plan.began),
    }


def _with_interval(row: dict[str, Any], results: list[LabelResult]) -> dict[str, Any]:
    """Return the ends of an interval: over seeds, or of one accuracy on these texts (Wilson)."""
    if row["interval"] is None:
        (low, high) = next(one.measure.accuracy_interval for one in results if one.name == row["name"])
    else:
        low, high = row["accuracy"] - row["interval"], row["accuracy"] + row["interval"]
    return {"name": row["name"], "accuracy": row["accuracy"], "low": max(0.0, low), "high": min(1.0, high)}


def _trained(plan: LabelPlan, name: str, seed: int, out: Path, folder: Path, listener: Listener) -> Run:
    if (folder / CONFIG).is_file():
        return load(folder)
    if (folder / TRAINING).is_file():
        return train("classifier", out=str(folder), resume=True, listener=listener).run
    encoder, _, pool = name.partition(":")
    options: dict[str, Any] = {"encoder": encoder, "pool": pool, "seed": seed, "out": str(folder)}
    if plan.minutes is not None:
        options |= {"minutes": plan.minutes, "patience": 0}
    labelled = str(out / TEXTS / "train.jsonl")
    return train("classifier", labelled=labelled, **options, listener=listener).run


def _notes(results: list[LabelResult]) -> list[str]:
    """Return the notes below the table: how far chance alone moves a figure."""
    measure = results[0].measure
    low, high = measure.accuracy_interval
    always = f"Always choosing the most frequent label would reach {measure.most_frequent:.4f}."
    chance = (
        f"On these {measure.texts:,} test texts, chance alone moves one accuracy by {(high - low) / 2:.3f}"
    )
    return [always, f"{chance} (95%, Wilson); intervals of several seeds are over seeds.", ECE]


def for_people(row: dict[str, Any]) -> dict[str, str]:
    """Return a row of the table as it is printed."""
    interval = "" if row["interval"] is None else f" ± {row['interval']:.3f}"
    return {
        "classifier": row["name"],
        "rank": str(row["rank"]),
        "accuracy": f"{row['accuracy']:.3f}{interval}",
        "macro-F1": f"{row['macro_f1']:.3f}",
        "ECE": f"{row['calibration_error']:.3f}",
        "parameters": f"{row['parameters']:,}",
        "seconds": f"{row['seconds']:.1f}",
    }
