"""Several families on one text under one budget each: a fair table, and why some rows must not be ranked together."""

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.models import FAMILIES, family_class
from regard.probabilities.measures import Measure, summarise, token_losses
from regard.runs.descent import METRICS, TIMING
from regard.runs.folder import check_free
from regard.runs.ladder import Column, Ladder, ladders
from regard.runs.machine import to_best_device
from regard.runs.optimisers import TrainingOptions
from regard.runs.training import Trained, train, with_defaults
from regard.text.builtin import topics
from regard.text.documents import Document, hold_out
from regard.text.files import read, read_file

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
    if minutes is not None and tokens_each is not None:
        raise UserError("give --minutes or --tokens-each, not both")
    if seeds < 1 or (tokens_each is not None and tokens_each < 1):
        raise UserError("--seeds and --tokens-each must be 1 or more")
    chosen = [_named(name, tokens) for name in families or FAMILIES]
    out = Path(out)
    check_free(out)
    parts = _split(out, text)
    results, columns = list[Result](), list[Column]()
    for name, family, kind in chosen:
        for seed in range(1, seeds + 1 if family_class(family).training_defaults is not None else 2):
            folder = out / (name.replace(":", "-") if seed == 1 else f"{name.replace(':', '-')}-{seed}")
            budget = _budget(family, minutes, tokens_each)
            options: dict[str, Any] = {**parts, **budget, "tokens": kind, "document": document, "seed": seed}
            trained = train(family, out=str(folder), **options)
            result, column = _measured(name, seed, trained, parts["test"])
            results.append(result)
            if seed == 1:
                columns.append(column)
            finished(result)
    comparison = Comparison(out, results, notes(results), ladders(columns))
    write(comparison)
    return comparison


def _named(name: str, tokens: str) -> tuple[str, str, str]:
    family, _, kind = name.partition(":")
    family_class(family)
    if (kind or tokens) not in ("char", "word", "byte", "bpe"):
        raise UserError(f"{name}: tokens are char, word, byte or bpe")
    return name, family, kind or tokens


def _split(out: Path, text: str | Sequence[str]) -> dict[str, str]:
    """Training, validation and test text as files of the comparison, so that every run can be measured again."""
    whole = "".join(source.text for source in (read([text] if isinstance(text, str) else text) or [topics()]))
    rest, test = hold_out(whole)
    first, valid = hold_out(rest)
    if not (first and valid and test):
        raise UserError("the text is too short to be split into training, validation and test: give more")
    folder = out / "text"
    folder.mkdir(parents=True)
    for name, part in {"train": first, "valid": valid, "test": test}.items():
        (folder / f"{name}.txt").write_bytes(part.encode())
    return {"text": str(folder / "train.txt"), "valid": str(folder / "valid.txt"), "test": str(folder / "test.txt")}


def _budget(family: str, minutes: float | None, tokens_each: int | None) -> dict[str, Any]:
    kind = family_class(family)
    if kind.training_defaults is None:
        return {}
    if tokens_each is None:
        return {"minutes": 0.3 if minutes is None else minutes, "evaluate_every": 100}
    training = with_defaults(TrainingOptions, kind.training_defaults)()
    length = kind.Config().context if "context" in kind.Config.__dataclass_fields__ else training.segment
    return {"steps": math.ceil(tokens_each / (training.batch * length)), "evaluate_every": 100}


def _measured(name: str, seed: int, trained: Trained, test: str) -> tuple[Result, Column]:
    run, folder = trained.run, trained.run.folder
    assert folder is not None
    curve = []
    if (folder / METRICS).exists():
        lines = [[json.loads(line) for line in (folder / file).read_text().splitlines()] for file in (METRICS, TIMING)]
        curve = [{"seconds": timing["seconds"], "valid_loss": metric["valid_loss"]} for metric, timing in zip(*lines, strict=True)]
    began = time.perf_counter()
    text = run.tokenizer.encode_texts([read_file(test).text])
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
        spread = _interval(figures)
        rows.append(
            {
                "name": name,
                "rank": None if comparable(reference.measure, same[0].measure) else mean,
                "bits_per_byte": mean,
                "interval": spread,
                "perplexity": same[0].measure.perplexity,
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
    t = STUDENT[len(figures) - 2] if len(figures) - 2 < len(STUDENT) else 1.96
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
    (comparison.out / "results.json").write_text(json.dumps(comparison.to_json(), indent=2))
    lines = ["| " + " | ".join(shown[0]) + " |", "|" + " --- |" * len(shown[0]), *("| " + " | ".join(row.values()) + " |" for row in shown)]
    (comparison.out / "report.md").write_text("\n".join(["# Comparison", "", *lines, "", *comparison.notes, ""]))
    points = [{"name": result.name, **point} for result in comparison.results for point in result.curve]
    order = [row["name"] for row in table]
    bars = charts.bars([row for row in table if row["rank"] is not None])
    bars.save(comparison.out / "comparison.svg")
    parts = [bars] + ([charts.curves(points, order)] if points else [])
    for number, ladder in enumerate(comparison.ladders, 1):
        ladder.write(comparison.out / ("ladder.tsv" if number == 1 else f"ladder-{number}.tsv"))
    several = [ladder.passage() for ladder in comparison.ladders if len(ladder.names) > 1]  # alone, nobody knew better
    passages = [(ladder.tokens, ladder.names, ladder.nll_NM.tolist()) for ladder in several]
    (comparison.out / "report.html").write_text(charts.page("Comparison", parts, shown, comparison.notes, passages))
