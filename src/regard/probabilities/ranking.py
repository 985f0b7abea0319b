"""Results are ranked by bits per byte, with confidence intervals over seeds.

Results of different protocols are not ranked together; a note gives the reason.
"""

import math
import statistics
from dataclasses import dataclass
from typing import Any

from regard.probabilities.measures import Measure

# The 97.5% points of Student's t distribution for 1, 2, ... degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Result:
    """One trained model and its measure on the held-out text."""

    name: str
    family: str
    seed: int
    folder: str
    parameters: int
    seconds: float  # of training
    training_tokens_per_second: float
    measure: Measure
    curve: list[dict[str, float]]  # points with the keys seconds and valid_loss


def comparable(first: Measure, second: Measure) -> str | None:
    """Return the reason why two measures must not be ranked together, or None if they may."""
    if first.bytes != second.bytes or first.protocol.document != second.protocol.document:
        return "they were measured on different texts or documents"
    if first.bits_per_byte is None or second.bits_per_byte is None:
        return "a token has no probability at all"
    replaced = first.unknown_tokens or second.unknown_tokens
    if replaced and (first.protocol.tokens, first.unknown_tokens, first.tokens) != (
        second.protocol.tokens,
        second.unknown_tokens,
        second.tokens,
    ):
        return "unknown words were replaced by <unk>, which is easier to predict than the words"
    if first.protocol.cache != second.protocol.cache:
        return "one of them used a neural cache"
    if first.protocol.stride not in (None, first.protocol.context) or second.protocol.stride not in (
        None,
        second.protocol.context,
    ):
        return "windows overlapped in one of them"
    return None


def notes(results: list[Result]) -> list[str]:
    """Return the notes below the table: rows that are not ranked, and replaced words."""
    lines = dict[str, None]()  # a set that keeps its order
    reference = _reference(results)
    for result in results:
        why = comparable(reference.measure, result.measure)
        if why is not None:
            lines[f"{result.name} is not ranked with {reference.name}: {why}."] = None
        elif result.measure.unknown_tokens:
            replaced = f"{result.measure.unknown_tokens} of {result.measure.tokens} words were unknown"
            lines[f"{replaced} and replaced by <unk>, in all ranked rows alike."] = None
    return list(lines)


def _reference(results: list[Result]) -> Result:
    """Return the first result without unknown words, or the first. Results of its protocol are ranked."""
    return next(
        (r for r in results if not r.measure.unknown_tokens and r.measure.bits_per_byte is not None),
        results[0],
    )


def ranked_rows(results: list[Result]) -> list[dict[str, Any]]:
    """Return a row for each name, with means over seeds. The rank is None if the row is not comparable."""
    reference = _reference(results)
    rows = list[dict[str, Any]]()
    for name in dict.fromkeys(result.name for result in results):
        same = [result for result in results if result.name == name]
        figures = [
            result.measure.bits_per_byte for result in same if result.measure.bits_per_byte is not None
        ]
        mean = statistics.fmean(figures) if figures else None
        losses = [result.measure.loss for result in same if result.measure.loss is not None]
        spread = confidence(figures)
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


def confidence(figures: list[float]) -> float | None:
    """Return half the width of the 95% confidence interval of the mean, by Student's t."""
    if len(figures) < 2:
        return None
    freedom = len(figures) - 1
    # For more degrees of freedom: the expansion of Cornish and Fisher.
    t = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.960 + 2.372 / freedom + 2.822 / freedom**2
    return t * statistics.stdev(figures) / math.sqrt(len(figures))
