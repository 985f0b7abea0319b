"""regard compare: several families on one text under one budget each."""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from regard.boundary import build, check_ranges, parse_json, read_bytes
from regard.errors import Busy, Interrupted, MachineError, UserError
from regard.machine import streams
from regard.machine.device import describe_machine, leaves_threads
from regard.machine.disk import (
    LOCK,
    lock_folder,
    remove_begun,
    write_json,
)
from regard.machine.threads import WaitingTime
from regard.models import families_that_read, family_class
from regard.probabilities.ladder import Column, Ladder, ladders
from regard.probabilities.measures import summarise, token_losses
from regard.probabilities.ranking import Result, notes, ranked_rows
from regard.ranges import Count, Positive, Rows
from regard.runs.derived import to_best_device
from regard.runs.formats import load
from regard.runs.formats.folder import CONFIG, MARK, TRAINING, check_free
from regard.tables import Table, TableRows, as_html, harmless, html_table
from regard.text.builtin import BUILT_IN
from regard.text.documents import Document
from regard.text.files import read
from regard.tokens.choose import Kind
from regard.tokens.shards import encode_sources
from regard.training.options import TrainingOptions, with_defaults
from regard.training.task import Listener, ignore_reports
from regard.verbs.arguments import Files, Names
from regard.verbs.compare_labels import PLAN as LABEL_PLAN
from regard.verbs.compare_labels import (
    LabelComparison,
    LabelResult,
    compare_labels,
    finish_labels,
)
from regard.verbs.compare_labels import for_people as labels_for_people
from regard.verbs.compare_plan import (
    MINUTES,
    TEXTS,
    Families,
    Family,
    Plan,
    check_parts,
    of_plan,
    text_files,
    write_parts,
)
from regard.verbs.compare_report import (
    REPORT,
    conditions,
    for_people,
    training_curve,
    write_report,
)
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, print_table, show
from regard.verbs.train import Trained, train

PLAN, RESULTS = "plan.json", "results.json"
TOO_BUSY = 0.25  # seconds waited in each second: a quarter of a core was missing
Finished = Callable[[Result | LabelResult], None]


@dataclass(frozen=True)
class Comparison(Table):
    """The figures of the families, and the folder that holds the runs and the report."""

    out: Path
    results: list[Result]
    notes: list[str]
    ladders: list[Ladder]  # every token of the test text, the models side by side

    def table(self) -> list[dict[str, Any]]:
        """A row for each family with its figures over seeds, the best first. Unranked rows are last."""
        return sorted(ranked_rows(self.results), key=lambda row: (row["rank"] is None, row["rank"] or 0))

    def rows(self) -> TableRows:
        """A row for each family, the best first."""
        return self.table()

    def _repr_html_(self) -> str:
        """In a notebook: the table as it is printed, the notes and the bars."""
        notes = "".join(f"<p>{as_html(note)}</p>" for note in self.notes)
        bars = self.out / "comparison.svg"
        picture = bars.read_text(encoding="utf-8") if bars.is_file() else ""
        return html_table([for_people(row) for row in self.table()]) + notes + picture

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "table": self.table(),
            "notes": self.notes,
            "results": [{**asdict(result), "measure": result.measure.to_json()} for result in self.results],
        }


@check_ranges
def compare(
    *,
    text: Files = (),
    families: Names = (),
    tokens: Kind = "bpe",
    document: Document = "file",
    minutes: Positive | None = None,
    tokens_each: Count | None = None,
    seeds: Rows = 1,
    out: str | Path = "comparison",
    labelled: Files = (),
    columns: str | None = None,
    resume: bool = False,
    listener: Listener = ignore_reports,
    finished: Finished = lambda result: None,
) -> Comparison | LabelComparison:
    """Train families on one text under equal budgets, and measure them on text that no training has read.

    A tenth of the text is held out for the measurement, and a tenth of the rest for validation.
    With `labelled`, the encoders and poolings of the classifier are compared on labelled texts instead.

    >>> regard.compare(text="my.txt", families=["ngram", "lstm"], minutes=1).table()  # doctest: +SKIP

    Args:
        text: The text: files, folders, globs, or - for standard input. Without it, the built-in text.
        families: The families, separated by spaces or commas (all). Tokens may follow a name: ngram:word.
            With `labelled`: encoders, or ENCODER:POOL.
        tokens: The kind of tokens: characters, words, bytes or subwords.
        document: The unit of text that is a document. A context never crosses the end of a document.
        minutes: The training time of each family (0.3).
        tokens_each: The number of training tokens of each family, instead of a time.
        seeds: The number of trainings of each family. With 2 or more, the table has intervals.
        out: The folder for runs, report.html, report.md and results.json.
        labelled: Labelled texts, as in regard train classifier: compare encoders and poolings on them.
        columns: The columns of label and text in `labelled`, as LABEL,TEXT.
        resume: Finish the stopped comparison in `out`, with its own text and options.
        listener: A function that is called with a report of the training a few times a second.
        finished: A function that is called with the result of each training.
    """
    out, names = Path(out), _tuple(families)
    if resume:
        return _finish(out, names, listener, finished)
    if labelled or columns is not None:
        _refuse_beside_labels(text=text, tokens_each=tokens_each)
        return compare_labels(labelled, columns, names, minutes, seeds, out, listener, finished)
    budget = {"minutes": minutes, "tokens_each": tokens_each, "seeds": seeds}
    plan = _plan(text, families=names, tokens=tokens, document=document, **budget)
    classes = plan.classes(family_class)
    check_free(out, (TEXTS,))
    with lock_folder(out) as created:
        check_free(out, (TEXTS,))
        try:
            (out / MARK).touch()
            plan = dataclasses.replace(plan, texts=write_parts(out, text))
            write_json(asdict(plan), out / PLAN)
            (out / MARK).unlink()
            return _carry_out(plan, classes, out, listener, finished)
        except BaseException as error:
            if isinstance(error, UserError) or not (out / PLAN).exists():
                _clear(out, created)
            raise


def _refuse_beside_labels(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise UserError(f"`{name}` does not go with `labelled`; the budget of classifiers is `minutes`")


def _clear(out: Path, created: bool) -> None:
    """Remove the plan and the texts if no training was begun: there is nothing to resume."""
    if {path.name for path in out.iterdir()} <= {LOCK, MARK, PLAN, TEXTS}:
        remove_begun(out / TEXTS, [path.name for path in (out / TEXTS).glob("*.txt")], created=True)
        remove_begun(out, [MARK, PLAN], created)


def _plan(text: Files, families: tuple[str, ...], **settings: Any) -> Plan:
    """Make the plan of a new comparison. All families that read text are compared if none is named."""
    return build(
        Plan,
        {
            "families": families or tuple(families_that_read("text")),
            "sources": tuple(map(str, [text] if isinstance(text, str | Path) else text)) or (BUILT_IN,),
            "began": datetime.now().astimezone().isoformat(" ", "minutes"),
            "machine": describe_machine(),
            **settings,
        },
    )


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _finish(
    out: Path, names: tuple[str, ...], listener: Listener, finished: Finished
) -> Comparison | LabelComparison:
    """Finish a stopped comparison. Finished runs stay, stopped trainings are resumed, nothing is removed."""
    if (out / LABEL_PLAN).is_file():
        return finish_labels(out, listener, finished)
    if not (out / PLAN).is_file():
        raise UserError(f"{out}: no comparison to resume there; give the `out` of one that was stopped")
    with lock_folder(out):
        if all((out / name).is_file() for name in (RESULTS, *REPORT)):
            raise UserError(f"{out}: this comparison is finished; there is nothing to resume")
        damaged = f"{out}: {PLAN} is damaged; compare again into another `out`"
        plan = parse_json(Plan, read_bytes(out / PLAN, damaged), damaged)
        if names not in ((), plan.families):
            began = f"this comparison began with `families` {','.join(plan.families)}"
            raise UserError(f"{out}: {began}; a resumed comparison cannot change them")
        classes = plan.classes(family_class if names else of_plan)
        check_parts(out, plan.texts)
        return _carry_out(plan, classes, out, listener, finished)


def _carry_out(
    plan: Plan, classes: Families, out: Path, listener: Listener, finished: Finished
) -> Comparison:
    results, columns, left_out, waited = list[Result](), list[Column](), dict[str, UserError](), list[float]()
    for name, seed, folder in plan.trainings(classes):
        begun, waiting = (out / folder).exists(), WaitingTime()
        try:
            trained = _trained(plan, classes[name], name, seed, out, out / folder, listener)
            waited += [waiting.share() or 0.0] if plan.in_minutes(classes[name]) else []
            result, column = _measured(name, seed, trained, text_files(out, plan, "test"))
        except UserError as error:
            if (
                begun or isinstance(error, Busy) or (out / folder / CONFIG).exists()
            ):  # a run that exists is never skipped
                raise
            left_out[name] = error  # the family refuses this text, which may be too short for it
            continue
        except KeyboardInterrupt:
            again = f"Go on with: regard compare --out {out} --resume"
            raise Interrupted(f"stopped; what is trained stays. {again}") from None
        results.append(result)
        if seed == 1:
            columns.append(column)
        finished(result)
    if not results:
        raise next(iter(left_out.values()))
    refused = [f"{name} is not in the table: {error}." for name, error in left_out.items()]
    told = [*_busy(max(waited, default=0.0)), *notes(results), *refused]
    comparison = Comparison(out, results, told, ladders(columns))
    write_json(comparison.to_json(), out / RESULTS)
    try:
        write_report(out, comparison.table(), told, results, comparison.ladders, conditions(plan, results))
    except MachineError as error:
        again = f"the figures are in {out / RESULTS}; draw again with: regard compare --out {out} --resume"
        raise MachineError(f"{error}; {again}") from None
    return comparison


def _busy(waited: float) -> list[str]:
    """Return notes on a machine that other processes keep busy, where minutes may not be an equal budget."""
    fewer = "The machine was busy when training began, so each training used one thread."
    told = [fewer] if leaves_threads() else []
    if waited < TOO_BUSY:
        return told
    return [
        *told,
        f"The machine was busy: the threads of one training waited {waited:.1f} seconds for a core in "
        "every second. The ranks mean little; compare again on an idle machine, or give --tokens-each "
        "instead of --minutes.",
    ]


def _trained(
    plan: Plan, family: Family, name: str, seed: int, out: Path, folder: Path, listener: Listener
) -> Trained:
    _, kind = plan.of(name)
    if (folder / CONFIG).is_file():
        run = load(folder, family)
        config = run.config
        return Trained(run, config.steps, config.tokens, config.seconds, config.loss)
    if (folder / TRAINING).is_file():
        return train(family, out=str(folder), resume=True, listener=listener)
    parts: dict[str, Any] = {
        option: text_files(out, plan, part)
        for option, part in {"text": "train", "valid": "valid", "test": "test"}.items()
    }
    budget = _budget(family, plan)
    own: dict[str, Any] = {"tokens": kind, "document": plan.document, "seed": seed}
    return train(family, out=str(folder), **parts, **budget, **own, listener=listener)


def _budget(family: Family, plan: Plan) -> dict[str, Any]:
    if family.learns != "descent":
        return {}
    if plan.tokens_each is None:
        return {"minutes": MINUTES if plan.minutes is None else plan.minutes, "evaluate_every": 100}
    training = with_defaults(TrainingOptions, family.training_defaults)()
    length = family.Config().context if family.bounded else training.segment
    return {"steps": math.ceil(plan.tokens_each / (training.batch * length)), "evaluate_every": 100}


def _measured(name: str, seed: int, trained: Trained, test: tuple[str, ...]) -> tuple[Result, Column]:
    run, folder = trained.run, trained.run.folder
    assert folder is not None
    began = time.perf_counter()
    text = encode_sources(run.tokenizer, read(test))
    to_best_device(run.language_model)
    nll_N = token_losses(run.language_model, text)
    result = Result(
        name=name,
        family=run.language_model.family,
        seed=seed,
        folder=str(folder),
        parameters=run.language_model.parameter_count(),
        seconds=trained.seconds,
        training_tokens_per_second=trained.tokens / trained.seconds,
        measure=summarise(run.language_model, run.tokenizer, text, [nll_N], began),
        curve=training_curve(folder),
    )
    return result, Column(name, run.tokenizer, text, nll_N)


def main(arguments: list[str]) -> None:
    from regard.verbs.train_options import live_line

    call = parse(compare, arguments)
    if call.values["resume"] and call.given - {"out", "resume", "json", "families"}:
        raise UserError(
            "--resume goes on with the text and options a comparison began with: give --out alone"
        )
    comparison = compare(**call.values, listener=live_line(quiet=call.json), finished=_tell_result)
    if call.json:
        print_json(comparison.to_json())
        return
    shown = for_people if isinstance(comparison, Comparison) else labels_for_people
    print_table([shown(row) for row in comparison.table()])
    for note in comparison.notes:
        show(note)
    show(f"\n{comparison.out}/report.html shows it.")


def _tell_result(result: Result | LabelResult) -> None:
    if isinstance(result, LabelResult):
        reached = f"{result.measure.accuracy:.3f} accuracy"
        streams.tell(f"\r{harmless(result.name):<22} {reached:<16} after {result.seconds:.1f} s\x1b[K")
        return
    figure = result.measure.bits_per_byte
    reached = "no figure" if figure is None else f"{figure:.3f} bits per byte"
    streams.tell(f"\r{harmless(result.name):<14} {reached:<22} after {result.seconds:.1f} s\x1b[K")
