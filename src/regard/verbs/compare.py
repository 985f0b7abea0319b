"""regard compare: several families on one text under one budget each."""

import dataclasses
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, get_args

from regard.boundary import parse_json
from regard.errors import Busy, Interrupted, UserError
from regard.machine.disk import file_hash, lock_folder, write_json
from regard.machine.threads import WaitingTime
from regard.models import families_that_read, family_class, known_family
from regard.models.model import Model
from regard.probabilities.ladder import Column, Ladder, ladders
from regard.probabilities.measures import summarise, token_losses
from regard.probabilities.ranking import Result, notes, ranked_rows
from regard.runs.derived import to_best_device
from regard.runs.formats import load
from regard.runs.formats.folder import CONFIG, TRAINING, check_free
from regard.tables import Table, TableRows, html_table
from regard.text.builtin import built_in_text
from regard.text.documents import Document
from regard.text.files import hold_out_files, read
from regard.tokens.choose import Kind
from regard.training.log import METRICS, TIMING
from regard.training.options import TrainingOptions, with_defaults
from regard.training.task import Listener, ignore_reports
from regard.verbs.arguments import Files, Names
from regard.verbs.compare_report import for_people, print_table, write_report
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell
from regard.verbs.train import Trained, train

PLAN, RESULTS = "plan.json", "results.json"
TOO_BUSY = 0.25  # seconds waited in each second: a quarter of a core was missing
Finished = Callable[[Result], None]
Family = type[Model]
Families = Mapping[str, Family]  # the class of each family, by its name in the table


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
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
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


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The families and the budget of a comparison, saved so that a stopped comparison can be finished."""

    families: tuple[str, ...]
    tokens: Kind
    document: Document
    minutes: float | None
    tokens_each: int | None
    seeds: int
    texts: dict[str, str] = dataclasses.field(
        default_factory=dict
    )  # the hash of each file of the comparison's text

    def __post_init__(self) -> None:
        if self.minutes is not None and self.tokens_each is not None:
            raise UserError("give `minutes` or `tokens_each`, not both")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise UserError("`minutes` must be above 0")
        if self.seeds < 1 or (self.tokens_each is not None and self.tokens_each < 1):
            raise UserError("`seeds` and `tokens_each` must be 1 or more")
        if not self.families:
            raise UserError("name at least one family")
        for name, choices in (("tokens", get_args(Kind)), ("document", get_args(Document))):
            if getattr(self, name) not in choices:
                raise UserError(f"`{name}` is one of {', '.join(choices)}; not {getattr(self, name)!r}")
        for name in self.families:
            if self.families.count(name) > 1:
                raise UserError(f"{name} is named twice")

    def of(self, name: str) -> tuple[str, str]:
        """(family, tokens) of a name such as ngram, ngram:word, my_module:Family or my_module:Family:word."""
        family, _, kind = name.rpartition(":")
        if family and kind in get_args(Kind):
            return family, kind
        if known_family(family) is not None:
            raise UserError(f"{name}: tokens are {', '.join(get_args(Kind))}")
        return name, self.tokens

    def classes(self, find: Callable[[str], Family]) -> Families:
        """The classes of the families; `find` gives the class of a family's name."""
        classes = {name: find(self.of(name)[0]) for name in self.families}
        for name, family in classes.items():
            if family.reads != "text":
                there = ", ".join(families_that_read("text"))
                raise UserError(f"{self.of(name)[0]} reads {family.reads}, not text; compare is for: {there}")
        return classes

    def in_minutes(self, family: Family) -> bool:
        """Whether the budget of this family's training is a time."""
        return self.tokens_each is None and family.learns == "descent"

    def trainings(self, classes: Families) -> Iterator[tuple[str, int, str]]:
        """(name, seed, folder). Counting gives the same with every seed, so it is done once."""
        for name, family in classes.items():
            for seed in range(1, 2 if family.learns == "counting" else self.seeds + 1):
                yield name, seed, name.replace(":", "-") + (f"-{seed}" if seed > 1 else "")


def compare(
    *,
    text: Files = (),
    families: Names = (),
    tokens: Kind = "bpe",
    document: Document = "file",
    minutes: float | None = None,
    tokens_each: int | None = None,
    seeds: int = 1,
    out: str | Path = "comparison",
    resume: bool = False,
    listener: Listener = ignore_reports,
    finished: Finished = lambda result: None,
) -> Comparison:
    """Train families on one text under one budget each, and measure them on a tenth of it that none has seen.

    A tenth of the text is held out for the table, a tenth of the rest for validation.

    >>> regard.compare(text="my.txt", families=["ngram", "lstm"], minutes=1).table()  # doctest: +SKIP

    Args:
        text: The text: files, folders, globs, or - for standard input. Without it, the built-in text.
        families: The families, separated by spaces or commas (all). Tokens may follow a name: ngram:word.
        tokens: What a token is.
        document: Where a document ends.
        minutes: Training time of each (0.3).
        tokens_each: Training tokens of each, instead of a time.
        seeds: Trainings of each family; the table then has intervals.
        out: The folder for runs, report.html, report.md and results.json.
        resume: Finish the comparison in --out, which was stopped, with the text and options it began with.
        listener: Called with a report of the present training a few times a second.
        finished: Called with the result of each training.
    """
    out = Path(out)
    if resume:
        return _finish(out, _tuple(families), listener, finished)
    names = _tuple(families)
    plan = Plan(
        families=names or tuple(families_that_read("text")),
        tokens=tokens,
        document=document,
        minutes=minutes,
        tokens_each=tokens_each,
        seeds=seeds,
    )
    classes = plan.classes(family_class)
    check_free(out)
    created = not out.exists()
    with lock_folder(out):
        check_free(out)
        try:
            plan = dataclasses.replace(plan, texts=_write_parts(out, text))
            write_json(asdict(plan), out / PLAN)
            return _carry_out(plan, classes, out, listener, finished)
        except UserError:
            if created and not any(
                path.name == CONFIG for path in out.rglob("*")
            ):  # made here, and nothing in it was finished
                shutil.rmtree(out)
            raise


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _finish(out: Path, names: tuple[str, ...], listener: Listener, finished: Finished) -> Comparison:
    """Finish a stopped comparison. Finished runs stay, stopped trainings are resumed, nothing is removed."""
    if not (out / PLAN).is_file():
        raise UserError(f"{out}: no comparison to resume there; give the `out` of one that was stopped")
    with lock_folder(out):
        if (out / RESULTS).is_file() and (out / "report.html").is_file():
            raise UserError(f"{out}: this comparison is finished; there is nothing to resume")
        plan = parse_json(
            Plan, (out / PLAN).read_bytes(), f"{out}: {PLAN} is damaged; compare again into another `out`"
        )
        if names not in ((), plan.families):
            began = f"this comparison began with `families` {','.join(plan.families)}"
            raise UserError(f"{out}: {began}; a resumed comparison cannot change them")
        classes = plan.classes(family_class if names else _of_plan)
        _check_parts(out, plan.texts)
        return _carry_out(plan, classes, out, listener, finished)


def _of_plan(name: str) -> Family:
    """The class of a family that the plan names. A name that only a file gives is never imported."""
    family = known_family(name)
    if family is None:
        raise UserError(f"{name} is neither part of regard nor installed; give the same `families` again")
    return family


def _carry_out(
    plan: Plan, classes: Families, out: Path, listener: Listener, finished: Finished
) -> Comparison:
    results, columns, left_out, waited = list[Result](), list[Column](), dict[str, UserError](), list[float]()
    for name, seed, folder in plan.trainings(classes):
        begun, waiting = (out / folder).exists(), WaitingTime()
        try:
            trained = _trained(plan, classes[name], name, seed, out, out / folder, listener)
            waited += [waiting.share() or 0.0] if plan.in_minutes(classes[name]) else []
            result, column = _measured(name, seed, trained, _parts(out, "test"))
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
    write_report(out, comparison.table(), told, results, comparison.ladders, asdict(plan))
    return comparison


def _busy(waited: float) -> list[str]:
    """Return a note if a training waited so long for cores that minutes were not an equal budget."""
    if waited < TOO_BUSY:
        return []
    return [
        f"The machine was busy: the threads of one training waited {waited:.1f} seconds for a core in "
        "every second. The ranks mean little; compare again on an idle machine, or give --tokens-each "
        "instead of --minutes."
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
        option: _parts(out, part)
        for option, part in {"text": "train", "valid": "valid", "test": "test"}.items()
    }
    budget = _budget(family, plan)
    own: dict[str, Any] = {"tokens": kind, "document": plan.document, "seed": seed}
    return train(family, out=str(folder), **parts, **budget, **own, listener=listener)


def _budget(family: Family, plan: Plan) -> dict[str, Any]:
    if family.learns != "descent":
        return {}
    if plan.tokens_each is None:
        return {"minutes": 0.3 if plan.minutes is None else plan.minutes, "evaluate_every": 100}
    training = with_defaults(TrainingOptions, family.training_defaults)()
    length = family.Config().context if family.bounded else training.segment
    return {"steps": math.ceil(plan.tokens_each / (training.batch * length)), "evaluate_every": 100}


def _write_parts(out: Path, text: Files) -> dict[str, str]:
    """Write the texts into the folder, so that runs can be measured again. Return the hash of each file."""
    rest, test = hold_out_files(read(text) or [built_in_text()])
    first, valid = hold_out_files(rest)
    if not (first and valid and test):
        raise UserError("the text is too short to be split into training, validation and test: give more")
    folder = out / "text"
    folder.mkdir()
    hashes = dict[str, str]()
    for name, part in {"train": first, "valid": valid, "test": test}.items():
        for number, source in enumerate(part, 1):
            path = folder / (f"{name}.txt" if number == 1 else f"{name}-{number:05}.txt")
            path.write_bytes(source.utf8)
            hashes[path.name] = source.sha256
    return hashes


def _check_parts(out: Path, texts: dict[str, str]) -> None:
    """Check that the comparison's texts are unchanged, because later runs must see the same text."""
    for name, sha256 in texts.items():
        path = out / "text" / name
        again = "put it back, or compare again into another `out`"
        if not path.is_file():
            raise UserError(f"{path}: is missing; {again}")
        if file_hash(path) != sha256:
            raise UserError(f"{path}: has changed since the comparison began; {again}")


def _parts(out: Path, name: str) -> tuple[str, ...]:
    return (str(out / "text" / f"{name}.txt"), *sorted(map(str, (out / "text").glob(f"{name}-*.txt"))))


def _measured(name: str, seed: int, trained: Trained, test: tuple[str, ...]) -> tuple[Result, Column]:
    run, folder = trained.run, trained.run.folder
    assert folder is not None
    began = time.perf_counter()
    text = run.tokenizer.encode_texts([source.text for source in read(test)])
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
        measure=summarise(run.language_model, run.tokenizer, text, nll_N, began),
        curve=_curve(folder),
    )
    return result, Column(name, run.tokenizer, text, nll_N)


def _curve(folder: Path) -> list[dict[str, float]]:
    """Validation loss against seconds of training."""
    if not (folder / METRICS).exists():
        return []
    try:
        lines = [
            [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
            for name in (METRICS, TIMING)
        ]
        return [
            {"seconds": timing["seconds"], "valid_loss": metric["valid_loss"]}
            for metric, timing in zip(*lines, strict=True)
        ]
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{folder}: {METRICS} or {TIMING} is damaged; remove both to go on without a curve"
        ) from None


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
    print_table([for_people(row) for row in comparison.table()])
    for note in comparison.notes:
        print(note)
    print(f"\n{comparison.out}/report.html shows it.")


def _tell_result(result: Result) -> None:
    figure = result.measure.bits_per_byte
    reached = "no figure" if figure is None else f"{figure:.3f} bits per byte"
    tell(f"\r{result.name:<14} {reached:<22} after {result.seconds:.1f} s\x1b[K")
