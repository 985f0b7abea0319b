"""Long measurements as generators: they yield what is done, and return the result.

A verb takes the result with `finished`. The lab tells each stage, and answers other questions in between.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """The next part of a measurement, and the share of its work that is done."""

    about: str
    done: float


def finished(stages: Generator[Any, None, T]) -> T:
    """Run all stages, and return the result."""
    while True:
        try:
            next(stages)
        except StopIteration as end:
            return end.value


def share_of(
    about: str, span: tuple[float, float], shares: Generator[float, None, T]
) -> Generator[Stage, None, T]:
    """Yield the stages of a part of a measurement, from the shares of the part that are done."""
    while True:
        try:
            share = next(shares)
        except StopIteration as end:
            return end.value
        yield Stage(about, span[0] + (span[1] - span[0]) * share)
