"""Several families on one text under one budget each: a fair table, and why some rows must not be ranked together."""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from regard.errors import Busy, Interrupted, UserError
from regard.machine.device import to_best_device
from regard.machine.disk import only_writer, write_json
from regard.machine.threads import WaitingTime
from regard.models import FAMILIES, family_class
from regard.models.translation import Translator
from regard.probabilities.ladder import Column, Ladder, ladders
from regard.probabilities.measures import summarise, token_losses
from regard.probabilities.ranking import Result, notes, ranked_rows
from regard.runs.folder import CONFIG, TRAINING, check_free, file_hash, load
from regard.runs.training import Trained, train
from regard.text.builtin import topics
from regard.text.documents import Document
from regard.text.files import hold_out_files, read
from regard.tokens.choose import Kind
from regard.training.loop import METRICS, TIMING
from regard.training.optimisers import TrainingOptions
from regard.training.options import with_defaults

PLAN, RESULTS = "plan.json", "results.json"
TOO_BUSY = 0.25  # of a second waited in each second: a quarter of a core was missing


@dataclass(frozen=True)
class Comparison:
    out: Path
    results: list[Result]
    notes: list[str]
    ladders: list[Ladder]  # every token of the test text, the models side by side

    def table(self) -> list[dict[str, Any]]:
        """A row a family, the best first, figures over seeds; rows that cannot be ranked stand last."""
        return sorted(ranked_rows(self.results), key=lambda row: (row["rank"] is None, row["rank"] or 0))

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "table": self.table(),
            "notes": self.notes,
            "results": [{**asdict(result), "measure": result.measure.to_json()} for result in self.results],
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is compared, under which budget; kept beside the runs, so that a comparison that was stopped can go on."""

    families: tuple[str, ...]
    tokens: str
    document: Document
    minutes: float | None
    tokens_each: int | None
    seeds: int

    def __post_init__(self) -> None:
        if self.minutes is not None and self.tokens_each is not None:
            raise UserError("give --minutes or --tokens-each, not both")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise UserError("--minutes must be above 0")
        if self.seeds < 1 or (self.tokens_each is not None and self.tokens_each < 1):
            raise UserError("--seeds and --tokens-each must be 1 or more")
        if not self.families:
            raise UserError("name at least one family")
        for name in self.families:
            family, kind = self.of(name)
            if issubclass(family_class(family), Translator):
                raise UserError(f"{family} translates; compare is for: {', '.join(FAMILIES)}")
            if self.document not in get_args(Document):
                raise UserError(f"--document is one of {', '.join(get_args(Document))}; not {self.document!r}")
            if kind not in get_args(Kind):
                raise UserError(f"{name}: tokens are {', '.join(get_args(Kind))}")
            if self.families.count(name) > 1:
                raise UserError(f"{name} is named twice")

    def of(self, name: str) -> tuple[str, str]:
        """(family, tokens) of a name such as ngram or ngram:word."""
        family, _, kind = name.partition(":")
        return family, kind or self.tokens

    def in_minutes(self, name: str) -> bool:
        """Whether the budget of this training is a time."""
        return self.tokens_each is None and family_class(self.of(name)[0]).training_defaults is not None

    def trainings(self) -> Iterator[tuple[str, int, str]]:
        """(name, seed, folder): counting gives the same with every seed."""
        for name in self.families:
            counts = family_class(self.of(name)[0]).training_defaults is None
            for seed in range(1, 2 if counts else self.seeds + 1):
                yield name, seed, name.replace(":", "-") + (f"-{seed}" if seed > 1 else "")


def compare(
    text: str | Sequence[str] = (),
    *,
    families: Sequence[str] = (),
    tokens: str = "bpe",
    document: Document = "file",
    minutes: float | None = None,
    tokens_each: int | None = None,
    seeds: int = 1,
    out: str | Path = "comparison",
    finished: Callable[[Result], None] = lambda result: None,
) -> Comparison:
    """Train families on one text under one budget each and measure them on text that none has seen.

    A family may name its own tokens: "ngram:word". A tenth of the text is held out for the table, a tenth of the rest for validation.

    >>> regard.compare("my.txt", families=["ngram", "lstm"], minutes=1).table()  # doctest: +SKIP
    """
    plan = Plan(
        families=tuple(families or FAMILIES), tokens=tokens, document=document, minutes=minutes, tokens_each=tokens_each, seeds=seeds
    )
    out = Path(out)
    check_free(out)
    created = not out.exists()
    with only_writer(out):
        check_free(out)
        try:
            texts = _write_parts(out, text)
            write_json({**asdict(plan), "texts": texts}, out / PLAN)
            return _carry_out(plan, out, finished)
        except UserError:
            if created and not any(path.name == CONFIG for path in out.rglob("*")):  # made here, and nothing in it was finished
                shutil.rmtree(out)
            raise


def go_on_comparing(out: str | Path, finished: Callable[[Result], None] = lambda result: None) -> Comparison:
    """Finish a comparison that was stopped: finished runs stay, a stopped training is resumed. Nothing is ever removed."""
    out = Path(out)
    if not (out / PLAN).is_file():
        raise UserError(f"{out}: no comparison to resume there; give the --out of one that was stopped")
    with only_writer(out):
        if (out / RESULTS).is_file():
            raise UserError(f"{out}: this comparison is finished; there is nothing to resume")
        try:
            kept = json.loads((out / PLAN).read_text("utf-8"))
            texts = kept.pop("texts", {})
            plan = Plan(**{**kept, "families": tuple(kept["families"])})
            _check_parts(out, texts)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{out}: {PLAN} is damaged; compare again into another --out") from None
        return _carry_out(plan, out, finished)


def _carry_out(plan: Plan, out: Path, finished: Callable[[Result], None]) -> Comparison:
    results, columns, left_out = list[Result](), list[Column](), dict[str, UserError]()
    waited = list[float]()
    for name, seed, folder in plan.trainings():
        begun, waiting = (out / folder).exists(), WaitingTime()
        try:
            trained = _trained(plan, name, seed, out, out / folder)
            waited += [waiting.share() or 0.0] if plan.in_minutes(name) else []
        except UserError as error:
            if begun or isinstance(error, Busy):  # a run that exists cannot be opened or resumed: nothing is skipped
                raise
            left_out[name] = error  # the family refuses this text, which may be too short for it
            continue
        except KeyboardInterrupt:
            raise _interrupted(out) from None
        try:
            result, column = _measured(name, seed, trained, _parts(out, "test"))
        except KeyboardInterrupt:
            raise _interrupted(out) from None
        results.append(result)
        if seed == 1:
            columns.append(column)
        finished(result)
    if not results:
        raise next(iter(left_out.values()))
    said = [f"{name} is not in the table: {error}." for name, error in left_out.items()]
    comparison = Comparison(out, results, [*_busy(max(waited, default=0.0)), *notes(results), *said], ladders(columns))
    write(comparison)
    return comparison


def _interrupted(out: Path) -> Interrupted:
    return Interrupted(f"stopped; what is trained stays. Go on with: regard compare --out {out} --resume")


def _busy(waited: float) -> list[str]:
    """A note if a training waited so long for cores that a budget in minutes was not the same for all families."""
    if waited < TOO_BUSY:
        return []
    return [
        f"The machine was busy: the threads of one training waited {waited:.1f} seconds for a core in every second. The ranks mean "
        "little; compare again on an idle machine, or give --tokens-each instead of --minutes."
    ]


def _trained(plan: Plan, name: str, seed: int, out: Path, folder: Path) -> Trained:
    family, kind = plan.of(name)
    if (folder / CONFIG).is_file():
        run = load(folder)
        return Trained(run, run.config.get("steps", 0), run.config["tokens"], run.config["seconds"], run.config.get("loss"))
    if (folder / TRAINING).is_file():
        return train(family, out=str(folder), resume=True)
    texts: dict[str, Any] = {option: _parts(out, part) for option, part in {"text": "train", "valid": "valid", "test": "test"}.items()}
    budget = _budget(family, plan.minutes, plan.tokens_each)
    return train(family, out=str(folder), **texts, **budget, tokens=kind, document=plan.document, seed=seed)


def _write_parts(out: Path, text: str | Sequence[str]) -> dict[str, str]:
    """Write training, validation and test text into the comparison's folder, so that every run can be measured again.

    Files stay apart. The result is the hash of each written file by its name.
    """
    rest, test = hold_out_files(read([text] if isinstance(text, str) else text) or [topics()])
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
    """The comparison's texts must be there and unchanged: runs that are still to be trained would see another text."""
    for name, sha256 in texts.items():
        path = out / "text" / name
        if not path.is_file():
            raise UserError(f"{path}: is missing; put the comparison's text back, or compare again into another --out")
        if file_hash(path) != sha256:
            raise UserError(f"{path}: has changed since the comparison began; put it back, or compare again into another --out")


def _parts(out: Path, name: str) -> tuple[str, ...]:
    return (str(out / "text" / f"{name}.txt"), *sorted(map(str, (out / "text").glob(f"{name}-*.txt"))))


def _budget(family: str, minutes: float | None, tokens_each: int | None) -> dict[str, Any]:
    kind = family_class(family)
    if kind.training_defaults is None:
        return {}
    if tokens_each is None:
        return {"minutes": 0.3 if minutes is None else minutes, "evaluate_every": 100}
    training = with_defaults(TrainingOptions, kind.training_defaults)()
    length = kind.Config().context if "context" in kind.Config.__dataclass_fields__ else training.segment
    return {"steps": math.ceil(tokens_each / (training.batch * length)), "evaluate_every": 100}


def _measured(name: str, seed: int, trained: Trained, test: Sequence[str]) -> tuple[Result, Column]:
    run, folder = trained.run, trained.run.folder
    assert folder is not None
    curve = []
    if (folder / METRICS).exists():
        lines = [[json.loads(line) for line in (folder / file).read_text("utf-8").splitlines()] for file in (METRICS, TIMING)]
        curve = [{"seconds": timing["seconds"], "valid_loss": metric["valid_loss"]} for metric, timing in zip(*lines, strict=True)]
    began = time.perf_counter()
    text = run.tokenizer.encode_texts([source.text for source in read(test)])
    to_best_device(run.model)
    nll_N = token_losses(run.model, text)
    result = Result(
        name=name,
        family=run.model.family,
        seed=seed,
        folder=str(folder),
        parameters=run.model.sizes(),
        seconds=trained.seconds,
        training_tokens_per_second=trained.tokens / trained.seconds,
        measure=summarise(run.model, run.tokenizer, text, nll_N, began),
        curve=curve,
    )
    return result, Column(name, run.tokenizer, text, nll_N)


def for_people(row: dict[str, Any]) -> dict[str, str]:
    interval = f" ± {row['interval']:.3f}" if row["interval"] is not None else ""
    return {
        "family": row["name"],
        "rank": str(row["rank"] or "-"),
        "bits per byte": "-" if row["bits_per_byte"] is None else f"{row['bits_per_byte']:.3f}{interval}",
        "perplexity": "-" if row["perplexity"] is None else f"{row['perplexity']:,.2f}",
        "parameters": f"{row['parameters']:,}",
        "seconds": f"{row['seconds']:.1f}",
        "tokens/s": f"{row['tokens_per_second']:,.0f}",
    }


def write(comparison: Comparison) -> None:
    """results.json, ladder.tsv, report.md, report.html and comparison.svg in the comparison's folder."""
    from regard.inside import charts  # drawing is only wanted here

    table = comparison.table()
    shown = [for_people(row) for row in table]
    (comparison.out / RESULTS).write_text(json.dumps(comparison.to_json(), indent=2))
    lines = ["| " + " | ".join(shown[0]) + " |", "|" + " --- |" * len(shown[0]), *("| " + " | ".join(row.values()) + " |" for row in shown)]
    (comparison.out / "report.md").write_text("\n".join(["# Comparison", "", *lines, "", *comparison.notes, ""]), "utf-8")
    points = [{"name": result.name, **point} for result in comparison.results for point in result.curve]
    order = [row["name"] for row in table]
    bars = charts.bars([row for row in table if row["rank"] is not None])
    bars.save(comparison.out / "comparison.svg")
    parts = [bars] + ([charts.curves(points, order)] if points else [])
    for number, ladder in enumerate(comparison.ladders, 1):
        ladder.write(comparison.out / ("ladder.tsv" if number == 1 else f"ladder-{number}.tsv"))
    several = [ladder.passage() for ladder in comparison.ladders if len(ladder.names) > 1]  # alone, nobody knew better
    passages = [(ladder.tokens, ladder.names, ladder.nll_NM.tolist()) for ladder in several]
    (comparison.out / "report.html").write_text(charts.page("Comparison", parts, shown, comparison.notes, passages), "utf-8")
