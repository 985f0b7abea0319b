"""Several families on one text under one budget each: a fair table, and why some rows must not be ranked together."""

import json
import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from regard.errors import Interrupted, UserError
from regard.models import FAMILIES, family_class
from regard.models.translation import Translator
from regard.probabilities.measures import Measure, summarise, token_losses
from regard.runs.descent import METRICS, TIMING
from regard.runs.folder import CONFIG, TRAINING, check_free, load, write_json
from regard.runs.ladder import Column, Ladder, ladders
from regard.runs.machine import to_best_device
from regard.runs.optimisers import TrainingOptions
from regard.runs.options import with_defaults
from regard.runs.training import Trained, train
from regard.text.builtin import topics
from regard.text.documents import Document
from regard.text.files import hold_out_files, read
from regard.tokens.choose import Kind

PLAN, RESULTS = "plan.json", "results.json"
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # 97.5% points for 1, 2, ... degrees of freedom


@dataclass(frozen=True)
class Result:
    """One trained model and what it reached on the held-out text."""

    name: str
    family: str
    seed: int
    folder: str
    parameters: int
    seconds: float  # of training
    training_tokens_per_second: float
    measure: Measure
    curve: list[dict[str, float]]  # seconds, valid_loss


@dataclass(frozen=True)
class Comparison:
    out: Path
    results: list[Result]
    notes: list[str]
    ladders: list[Ladder]  # every token of the test text, the models side by side

    def table(self) -> list[dict[str, Any]]:
        """A row a family, the best first, figures over seeds; rows that cannot be ranked stand last."""
        return sorted(_rows(self.results), key=lambda row: (row["rank"] is None, row["rank"] or 0))

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
        for name in self.families:
            family, kind = self.of(name)
            if issubclass(family_class(family), Translator):
                raise UserError(f"{family} translates; compare is for: {', '.join(FAMILIES)}")
            if kind not in get_args(Kind):
                raise UserError(f"{name}: tokens are {', '.join(get_args(Kind))}")
            if self.families.count(name) > 1:
                raise UserError(f"{name} is named twice")

    def of(self, name: str) -> tuple[str, str]:
        """(family, tokens) of a name such as ngram or ngram:word."""
        family, _, kind = name.partition(":")
        return family, kind or self.tokens

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
    _write_parts(out, text)
    write_json(asdict(plan), out / PLAN)
    return _carry_out(plan, out, finished)


def go_on_comparing(out: str | Path, finished: Callable[[Result], None] = lambda result: None) -> Comparison:
    """Finish a comparison that was stopped: what is trained stays, what was being trained goes on."""
    out = Path(out)
    if not (out / PLAN).is_file():
        raise UserError(f"{out}: no comparison to resume there; give the --out of one that was stopped")
    if (out / RESULTS).is_file():
        raise UserError(f"{out}: this comparison is finished; there is nothing to resume")
    try:
        kept = json.loads((out / PLAN).read_text("utf-8"))
        plan = Plan(**{**kept, "families": tuple(kept["families"])})
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{out}: {PLAN} is damaged; remove that folder and compare again") from None
    return _carry_out(plan, out, finished)


def _carry_out(plan: Plan, out: Path, finished: Callable[[Result], None]) -> Comparison:
    results, columns, left_out = list[Result](), list[Column](), dict[str, UserError]()
    for name, seed, folder in plan.trainings():
        try:
            trained = _trained(plan, name, seed, out, out / folder)
            result, column = _measured(name, seed, trained, _parts(out, "test"))
        except UserError as error:  # too little text for this one, say; the others need not be lost
            left_out[name] = error
            continue
        except KeyboardInterrupt:
            raise Interrupted(f"stopped; what is trained stays. Go on with: regard compare --out {out} --resume") from None
        results.append(result)
        if seed == 1:
            columns.append(column)
        finished(result)
    if not results:
        shutil.rmtree(out)
        raise next(iter(left_out.values()))
    said = [f"{name} is not in the table: {error}." for name, error in left_out.items()]
    comparison = Comparison(out, results, [*notes(results), *said], ladders(columns))
    write(comparison)
    return comparison


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


def _write_parts(out: Path, text: str | Sequence[str]) -> None:
    """Training, validation and test text as files of the comparison, so that every run can be measured again. Files stay apart."""
    rest, test = hold_out_files(read([text] if isinstance(text, str) else text) or [topics()])
    first, valid = hold_out_files(rest)
    if not (first and valid and test):
        raise UserError("the text is too short to be split into training, validation and test: give more")
    folder = out / "text"
    folder.mkdir(parents=True)
    for name, part in {"train": first, "valid": valid, "test": test}.items():
        for number, source in enumerate(part, 1):
            (folder / (f"{name}.txt" if number == 1 else f"{name}-{number:05}.txt")).write_bytes(source.utf8)


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


def comparable(first: Measure, second: Measure) -> str | None:
    """Why two figures must not be ranked together, or None."""
    if first.bytes != second.bytes or first.protocol.document != second.protocol.document:
        return "they were measured on other text or documents"
    if first.bits_per_byte is None or second.bits_per_byte is None:
        return "a token has no probability at all"
    replaced = first.unknown_tokens or second.unknown_tokens
    if replaced and (first.protocol.tokens, first.unknown_tokens, first.tokens) != (
        second.protocol.tokens,
        second.unknown_tokens,
        second.tokens,
    ):
        return "unknown words were replaced by one class, which is easier to predict than they were"
    if first.protocol.cache != second.protocol.cache:
        return "one of them had a cache"
    if first.protocol.stride not in (None, first.protocol.context) or second.protocol.stride not in (None, second.protocol.context):
        return "windows overlapped in one of them"
    return None


def notes(results: list[Result]) -> list[str]:
    """What a reader of the table must know."""
    said = dict[str, None]()
    reference = _reference(results)
    for result in results:
        why = comparable(reference.measure, result.measure)
        if why is not None:
            said[f"{result.name} is not ranked with {reference.name}: {why}."] = None
        elif result.measure.unknown_tokens:
            said[
                f"{result.measure.unknown_tokens} of {result.measure.tokens} words were unknown and replaced, alike for all ranked rows."
            ] = None
    return list(said)


def _reference(results: list[Result]) -> Result:
    """What the others are ranked with: the first without unknown words, or the first."""
    return next((r for r in results if not r.measure.unknown_tokens and r.measure.bits_per_byte is not None), results[0])


def _rows(results: list[Result]) -> list[dict[str, Any]]:
    reference = _reference(results)
    rows = list[dict[str, Any]]()
    for name in dict.fromkeys(result.name for result in results):
        same = [result for result in results if result.name == name]
        figures = [result.measure.bits_per_byte for result in same if result.measure.bits_per_byte is not None]
        mean = statistics.fmean(figures) if figures else None
        losses = [result.measure.loss for result in same if result.measure.loss is not None]
        spread = _interval(figures)
        rows.append(
            {
                "name": name,
                "rank": None if comparable(reference.measure, same[0].measure) else mean,
                "bits_per_byte": mean,
                "interval": spread,
                "perplexity": math.exp(statistics.fmean(losses)) if losses and max(losses) < 700 else None,
                "parameters": same[0].parameters,
                "seconds": statistics.fmean(result.seconds for result in same),
                "tokens_per_second": statistics.fmean(result.training_tokens_per_second for result in same),
            }
        )
    ranked = sorted((row for row in rows if row["rank"] is not None), key=lambda row: row["rank"])
    for place, row in enumerate(ranked, 1):
        row["rank"] = place
    return rows


def _interval(figures: list[float]) -> float | None:
    """Half the width of a 95% interval of the mean, by Student's t."""
    if len(figures) < 2:
        return None
    freedom = len(figures) - 1
    t = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.960 + 2.372 / freedom + 2.822 / freedom**2  # Cornish and Fisher's series
    return t * statistics.stdev(figures) / math.sqrt(len(figures))


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
