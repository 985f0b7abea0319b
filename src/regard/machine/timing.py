"""Speeds of several ways to do the same work, measured in turn, so that all of them meet the same load."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Work = Callable[[], float]  # works once, and returns the amount of work: tokens, bytes or operations


@dataclass(frozen=True)
class Spread:
    """The median and the range of the passes of a measurement."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Speeds:
    """Work per second of each way, for every pass."""

    passes: dict[str, list[float]]

    def spread(self, name: str) -> Spread:
        return Spread.of(self.passes[name])

    def ratio(self, name: str, to: str) -> Spread:
        """The ratio of two ways in the same pass: the load of a pass concerns both."""
        return Spread.of([a / b for a, b in zip(self.passes[name], self.passes[to], strict=True)])


def interleaved(
    ways: Mapping[str, Work], passes: int, clock: Callable[[], float] = time.perf_counter
) -> Speeds:
    """Run every way once to warm up, and then once in every pass.

    `clock` may be time.process_time for work on one thread: other processes on the core then hardly count.
    """
    for work in ways.values():
        work()
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(passes):
        for name, work in ways.items():
            began = clock()
            amount = work()
            speeds[name].append(amount / max(1e-9, clock() - began))
    return Speeds(speeds)
