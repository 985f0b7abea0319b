"""Smoothing of counts in files, one range of contexts at a time. The tables equal those of `estimate`.

The n-grams of a context are adjacent, so each sum of a smoothing method lies in one range, and its terms are
added in the same order as in memory. What crosses ranges is computed before: the suffixes, the numbers of
different words before each n-gram, and the statistics of the discounts.

Shape legend: G n-grams of one order in a range, C contexts in a range, K n-grams of one order in a piece.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from regard.machine.cluster import sort_on_cluster
from regard.machine.columns import Column, TensorFile
from regard.machine.memory import release_freed_memory
from regard.machine.sorting import load_engine, sort_rows
from regard.machine.spill import Spill
from regard.models.ngram_smoothing import (
    Level,
    Smoothing,
    adjusted,
    histogram,
    interpolate,
    threshold,
    to_log,
)
from regard.models.ngram_spilled import Packing, SpilledCounts, windows, write_counts
from regard.tokens.contract import Encoded

MODEL, PARTS = "model.safetensors", ("key", "count", "suffix")
LEAST = 128 << 20  # bytes for DuckDB, and for pieces that are worth reading
WINDOW_ROW, NGRAM = 100, 256  # bytes of a window while it is packed or unpacked, and of an n-gram of a range
WINDOW = 4  # a lookup reads a column in pieces of so many times the n-grams of a range


@dataclass(frozen=True)
class Order:
    """The n-grams of one order, in files, and what their probabilities depend on."""

    number: int
    key: Column
    count: Column
    suffix: Column
    before: Column | None  # the number of different words before each n-gram; None in the highest order
    first_start: int  # the n-grams from here on begin with the start mark, which is the last of all words

    def adjusted(self, first: int, count_K: Tensor) -> Tensor:
        """Return the adjusted counts of the n-grams from `first` on, whose counts are given."""
        last = first + len(count_K)
        before_K = None if self.before is None else self.before.read(first, last)
        return adjusted(count_K, before_K, torch.arange(first, last) >= self.first_start)


@dataclass(frozen=True)
class Range:
    """Contexts of one order, with all the n-grams that begin with them."""

    first_context: int
    contexts: int
    first: int
    key_G: Tensor
    context_G: Tensor  # counted from first_context


@final
class FileEstimator:
    """Estimates the tables of every order from counts in files, and writes them as a safetensors file."""

    def __init__(
        self, vocabulary_size: int, smoothing: Smoothing, prune: Sequence[int], folder: Path, size: int
    ):
        """At most `size` n-grams are in memory at a time, where `size` is larger than the vocabulary."""
        self._words, self._smoothing, self._prune = vocabulary_size, smoothing, prune
        self._folder, self._size, self._window = folder, size, WINDOW * size

    def estimate(self, words: Tensor, tables: Sequence[SpilledCounts]) -> Path:
        """`words` are the counts of single words, and `tables` those of the orders from 2."""
        orders = list(self._orders(words, tables))
        surveyed = [self._survey(order) for order in orders]
        kept = [number for _, number in surveyed]
        file = TensorFile(self._folder / MODEL, _shapes(kept, self._words))
        below = Column(self._folder / "probability_0", torch.float64)
        below.append(torch.full((1,), 1 / self._words, dtype=torch.float64))
        file.append("log_prob_0", to_log(below.read(0, 1)))
        lower: Order | None = None
        for order, (seen, _) in zip(orders, surveyed, strict=True):
            probability = Column(self._folder / f"probability_{order.number}", torch.float64)
            self._estimate_order(order, seen, lower, below, probability, file)
            for column in (below, order.key, order.suffix, order.before):
                if column is not None:
                    column.remove()
            lower, below = order, probability
            release_freed_memory()
        return self._folder / MODEL

    def _orders(self, words: Tensor, tables: Sequence[SpilledCounts]) -> Iterator[Order]:
        """Yield every order. The suffix of an n-gram is found by its key: the suffix of its context, then its
        last word.
        """
        key, count, suffix = (Column(self._folder / f"{name}_1", torch.long) for name in PARTS)
        key.append(torch.arange(self._words + 1))
        count.append(words)
        suffix.append(torch.zeros_like(words))
        first_start = self._words
        for number, table in enumerate(tables, 2):
            above, starting = Column(self._folder / f"suffix_{number}", table.count.dtype), 0
            for _, key_K in table.key.ranges(self._size):
                context_K, node_K = key_K // self._words, key_K % self._words
                starting += int((context_K >= first_start).sum())
                if number > 2:
                    lower_K = suffix.take(context_K, self._window).long()
                    node_K = key.find(lower_K.mul_(self._words).add_(node_K), self._window)
                above.append(node_K)
            before = self._tally(above, len(key), self._folder / f"before_{number - 1}")
            yield Order(number - 1, key, count, suffix, before, first_start)
            release_freed_memory()
            key, count, suffix, first_start = table.key, table.count, above, len(table.key) - starting
        yield Order(1 + len(tables), key, count, suffix, None, first_start)

    def _tally(self, suffix: Column, length: int, path: Path) -> Column:
        """Write how often each of `length` nodes is a suffix."""
        before = Column(path, suffix.dtype)
        for first in range(0, length, self._window):
            number = min(self._window, length - first)
            tally = torch.zeros(number, dtype=torch.long)
            for _, suffix_K in suffix.ranges(self._size):
                inside_K = (suffix_K >= first).logical_and_(suffix_K < first + number)
                tally += torch.bincount(suffix_K[inside_K] - first, minlength=number)
            before.append(tally)
        return before

    def _survey(self, order: Order) -> tuple[Tensor, int]:
        """Return the histogram of the adjusted counts, and the number of n-grams that are not pruned."""
        seen, kept = torch.zeros(6, dtype=torch.long), 0
        for first, count_K in order.count.ranges(self._size):
            seen += histogram(order.adjusted(first, count_K))
            kept += int((count_K > threshold(self._prune, order.number)).sum())
        return seen, kept

    def _ranges(self, order: Order, contexts: int) -> Iterator[Range]:
        """Yield ranges of at most `size` contexts and n-grams."""
        first = first_context = 0
        while first_context < contexts:
            key_K = order.key.read(first, first + self._size)
            context_K = key_K // self._words if order.number > 1 else torch.zeros_like(key_K)
            # More n-grams of the last context may follow, unless this is the end.
            whole = contexts if first + len(key_K) == len(order.key) else int(context_K[-1])
            end = min(first_context + self._size, whole)
            rows = int(torch.searchsorted(context_K, end))
            context_G = context_K[:rows].sub_(first_context)
            yield Range(first_context, end - first_context, first, key_K[:rows], context_G)
            first, first_context = first + rows, end

    def _estimate_order(
        self,
        order: Order,
        seen: Tensor,
        lower: Order | None,
        below: Column,
        probability: Column,
        file: TensorFile,
    ) -> None:
        """Write the tensors of an order, and the backoffs of its contexts. `below` are the probabilities of
        the order below.
        """
        kept = 0  # contexts before this range that are not pruned
        highest = order.before is None
        for part in self._ranges(order, len(below)):
            first, last = part.first, part.first + len(part.key_G)
            first_context, last_context = part.first_context, part.first_context + part.contexts
            count_G = order.count.read(first, last)
            unpruned_G = count_G > threshold(self._prune, order.number)
            starts_C, unpruned_C = torch.zeros(1, dtype=torch.bool), torch.ones(1, dtype=torch.bool)
            if lower is not None:
                starts_C = torch.arange(first_context, last_context) >= lower.first_start
                unpruned_C = lower.count.read(first_context, last_context) > threshold(
                    self._prune, lower.number
                )
            level = Level(
                count_G,
                order.adjusted(first, count_G),
                seen,
                part.context_G,
                starts_C,
                unpruned_G,
                highest=highest,
            )
            own_G, backoff_C = self._smoothing(level)
            file.append(f"backoff_{order.number - 1}", to_log(backoff_C)[unpruned_C])
            below_G = below.take(order.suffix.read(first, last), self._window)
            interpolate(below_G, own_G, backoff_C, part.context_G)
            if not highest:
                probability.append(below_G)
            if order.number == 1:
                file.append("log_prob_1", to_log(below_G)[: self._words])
                continue
            file.append(f"log_prob_{order.number}", to_log(below_G)[unpruned_G])
            node_C = torch.cumsum(unpruned_C, 0).add_(kept - 1)
            kept += int(unpruned_C.sum())
            key_G = node_C[part.context_G].mul_(self._words).add_(part.key_G % self._words)
            file.append(f"key_{order.number}", key_G[unpruned_G])


def _shapes(kept: Sequence[int], vocabulary_size: int) -> dict[str, tuple[torch.dtype, int]]:
    """Return the type and the length of every tensor of a model that keeps so many n-grams of each order."""
    default = torch.get_default_dtype()
    shapes = {"log_prob_0": (default, 1), "backoff_0": (default, 1), "log_prob_1": (default, vocabulary_size)}
    for order, number in enumerate(kept[1:], 2):
        shapes |= {f"key_{order}": (torch.long, number), f"log_prob_{order}": (default, number)}
    return shapes | {f"backoff_{order}": (default, number) for order, number in enumerate(kept[:-1], 1)}


def fit_in_files(
    text: Encoded,
    vocabulary_size: int,
    order: int,
    smoothing: Smoothing,
    prune: Sequence[int],
    spill: Spill,
) -> Path:
    """Count and estimate within a budget. Return the safetensors file of the model."""
    load_engine()
    release_freed_memory()
    spill.check(max(LEAST, NGRAM * (vocabulary_size + 1)), f"for {vocabulary_size:,} different tokens")
    room, packing = spill.room(), Packing(vocabulary_size, order)
    size = room // 4 // (WINDOW_ROW + 24 * packing.columns)
    rows = windows(text, packing, size)
    if spill.engine is None:
        ordered = sort_rows(rows, packing.columns, spill.folder, 2 * room // 5, size)
    else:
        ordered = sort_on_cluster(spill.engine, rows, packing.columns, spill.folder, size)
    # A count is at most the number of windows, and a node less than it.
    number = torch.int32 if len(text) + len(text.ends_D) < 1 << 31 else torch.int64
    words, tables = write_counts(ordered, packing, spill.folder, number)
    release_freed_memory()
    size = pieces(spill, vocabulary_size)
    return FileEstimator(vocabulary_size, smoothing, prune, spill.folder, size).estimate(words, tables)


def pieces(spill: Spill, vocabulary_size: int) -> int:
    """Return how many n-grams of a range, or tokens of a text, the budget holds."""
    return max(vocabulary_size + 1, spill.room() // NGRAM)
