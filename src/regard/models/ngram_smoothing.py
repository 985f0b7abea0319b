"""Smoothing estimates probabilities from the counts of n-grams.

Every smoothing method computes two numbers for each n-gram, a probability and a backoff:

    P(w | c) = P of the n-gram c w                            if the table contains c w
             = backoff(c) x P(w | c without its first word)   if not

All methods interpolate: P_k = own share + backoff(c) x P_{k-1}, down to the uniform distribution 1/V. Each
probability is therefore a sum of terms, one for each order (`NgramPrediction.parts`).

Shape legend: G n-grams of one order, C contexts (the n-grams one order below), A adjusted counts 0 to 3.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.machine.memory import release_freed_memory
from regard.models.ngram_counts import Counts

# The discounts of the counts 1, 2, and 3 or more, if they cannot be estimated. KenLM's --discount_fallback.
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Table:
    """The probabilities and backoffs of one order, in natural logs.

    The backoff of an n-gram is used when the n-gram is a context. Its log is 0 if no word follows the n-gram.
    """

    key_G: Tensor
    log_prob_G: Tensor
    backoff_G: Tensor | None  # None in the highest order


@dataclass(frozen=True)
class Level:
    """The inputs of a smoothing method: one order, or a range of its contexts with all their n-grams."""

    count_G: Tensor
    adjusted_G: Tensor  # the count in Kneser-Ney smoothing
    seen: Tensor  # (6): the number of n-grams of the whole order with adjusted count 0, ..., 4, and 5 or more
    context_G: Tensor  # the place of each n-gram's context in the range
    starts_C: Tensor  # True if the context begins with the start mark
    unpruned_G: Tensor
    highest: bool  # True in the highest order

    def total_C(self, values_G: Tensor) -> Tensor:
        """(C): the sum of the values of all n-grams with the same context."""
        return torch.zeros(len(self.starts_C), dtype=values_G.dtype).index_add_(0, self.context_G, values_G)


Smoothing = Callable[[Level], tuple[Tensor, Tensor]]  # own share of each n-gram, backoff of each context


def maximum_likelihood(level: Level) -> tuple[Tensor, Tensor]:
    """P = count(c w) / count(c). Words that never followed a counted context have the probability 0.

    After a context that was never counted, the probability is that of the shorter context.
    """
    count_G = level.count_G.double()
    total_C = level.total_C(count_G)
    return count_G / total_C[level.context_G], torch.where(total_C > 0, 0.0, 1.0).double()


def add_k(k: float, vocabulary_size: int) -> Smoothing:
    """P = (count(c w) + k) / (count(c) + k V). After a context that was never counted, P = 1/V.

    Only whole contexts are counted: n-1 words, or all words since the start of the document.
    """

    def shares(level: Level) -> tuple[Tensor, Tensor]:
        count_G = level.count_G.double()
        whole_C = torch.ones_like(level.starts_C) if level.highest else level.starts_C
        total_C = level.total_C(count_G)
        divisor_C = total_C + k * vocabulary_size
        own_G = count_G / divisor_C[level.context_G] * whole_C[level.context_G]
        return own_G, torch.where(whole_C & (total_C > 0), k * vocabulary_size / divisor_C, 1.0)

    return shares


def kneser_ney(discounts: Callable[[Tensor], Sequence[float]]) -> Smoothing:
    """Interpolated Kneser-Ney smoothing (Chen and Goodman 1999, equation 25).

        P = (a - D(a)) / sum a + backoff x P_{k-1}

    The adjusted count a is the count itself in the highest order. In lower orders, a is the number of
    different words before the n-gram; n-grams that begin with the start mark have no word before them and
    keep their count. The discounts D(a) and the counts of pruned n-grams are the mass of the backoff.
    """

    def shares(level: Level) -> tuple[Tensor, Tensor]:
        discount_A = torch.tensor([0.0, *discounts(level.seen)], dtype=torch.float64)
        own_G = discount_A[level.adjusted_G.clamp(max=3)].neg_().add_(level.adjusted_G)
        own_G.mul_(level.unpruned_G)
        total_C = level.total_C(level.adjusted_G.double())
        left_C = total_C - level.total_C(own_G)
        return own_G.div_(total_C[level.context_G].clamp_(min=1)), torch.where(
            total_C > 0, left_C / total_C, 1.0
        )

    return shares


def one_discount(seen: Tensor) -> Sequence[float]:
    """D = n1 / (n1 + 2 n2), n_j n-grams having count j (Ney, Essen and Kneser 1994); 1/2 if n1 or n2 is 0."""
    once, twice = float(seen[1]), float(seen[2])
    discount = once / (once + 2 * twice) if once and twice else FALLBACK_DISCOUNTS[0]
    return (discount,) * 3


def three_discounts(seen: Tensor) -> Sequence[float]:
    """D_j = j - (j+1) Y n_{j+1} / n_j, with Y = n1 / (n1 + 2 n2) (Chen and Goodman 1999, equation 26).

    In small texts and closed vocabularies, an n_j can be 0 or a D_j can lie outside (0, j]. The fall-back
    discounts are then used, as in KenLM.
    """
    n = [float(number) for number in seen]
    if not all(n[1:4]):
        return FALLBACK_DISCOUNTS
    share = n[1] / (n[1] + 2 * n[2])
    discounts = [j - (j + 1) * share * n[j + 1] / n[j] for j in (1, 2, 3)]
    return discounts if all(0 < d <= j for j, d in enumerate(discounts, 1)) else FALLBACK_DISCOUNTS


def adjusted(count_G: Tensor, before_G: Tensor | None, starts_G: Tensor) -> Tensor:
    """Return the adjusted counts. `before_G` is None in the highest order."""
    return count_G if before_G is None else torch.where(starts_G, count_G, before_G)


def histogram(adjusted_G: Tensor) -> Tensor:
    """(6): the number of n-grams with adjusted count 0, ..., 4, and 5 or more."""
    return torch.bincount(adjusted_G.clamp(max=5), minlength=6)


def estimate(
    tables: deque[Counts], vocabulary_size: int, smoothing: Smoothing, prune: Sequence[int]
) -> list[Table]:
    """Estimate the tables of every order. The counts are removed from `tables` on the way, to save memory.

    The first table is order 0, the uniform distribution as a single empty n-gram. N-grams with a count of at
    most `prune[order - 1]` are left out; the last number is used for all higher orders.
    """
    below_G = torch.full((1,), 1 / vocabulary_size, dtype=torch.float64)
    starts_C = torch.zeros(1, dtype=torch.bool)
    estimated = [Table(torch.zeros(1, dtype=torch.long), to_log(below_G), None)]
    unpruned = [torch.ones(1, dtype=torch.bool)]
    for order in range(1, len(tables) + 1):
        counts = tables.popleft()
        starts_G, level = _level(order, counts, tables, vocabulary_size, starts_C, threshold(prune, order))
        own_G, backoff_C = smoothing(level)
        estimated[-1] = replace(estimated[-1], backoff_G=to_log(backoff_C))
        below_G = interpolate(below_G[counts.suffix_G], own_G, backoff_C, level.context_G)
        estimated.append(Table(counts.key_G, to_log(below_G), None))
        unpruned.append(level.unpruned_G)
        starts_C = starts_G
        del counts, level, own_G, backoff_C  # free the memory for the next order
        release_freed_memory()
    return _without_pruned(estimated, unpruned, vocabulary_size) if any(prune) else estimated


def interpolate(below_G: Tensor, own_G: Tensor, backoff_C: Tensor, context_G: Tensor) -> Tensor:
    """Return P_k = own share + backoff(c) x P_{k-1}. `below_G` is overwritten."""
    return below_G.mul_(backoff_C[context_G]).add_(own_G)


def threshold(prune: Sequence[int], order: int) -> int:
    """Return the count up to which n-grams are left out. No word is left out."""
    return -1 if order == 1 else prune[min(order, len(prune)) - 1]


def _level(
    order: int, counts: Counts, above: deque[Counts], vocabulary_size: int, starts_C: Tensor, prune: int
) -> tuple[Tensor, Level]:
    """Return which n-grams begin with the start mark, and the level."""
    if order == 1:  # all words have the empty context
        context_G = torch.zeros_like(counts.count_G)
        starts_G = counts.key_G == vocabulary_size
    else:
        context_G = (counts.key_G // vocabulary_size).int()
        starts_G = starts_C[context_G]
    before_G = torch.bincount(above[0].suffix_G, minlength=len(starts_G)).int() if above else None
    adjusted_G = adjusted(counts.count_G, before_G, starts_G)
    seen, unpruned_G = histogram(adjusted_G), counts.count_G > prune
    level = Level(counts.count_G, adjusted_G, seen, context_G, starts_C, unpruned_G, highest=not above)
    return starts_G, level


def to_log(values: Tensor) -> Tensor:
    """Return the logs in the precision of the model."""
    return values.log().to(torch.get_default_dtype())


def _without_pruned(tables: list[Table], unpruned: list[Tensor], vocabulary_size: int) -> list[Table]:
    """Leave out the pruned n-grams. The nodes of the remaining n-grams change, and with them their keys."""
    out = list[Table]()
    for order, (table, unpruned_G) in enumerate(zip(tables, unpruned, strict=True)):
        key_G = table.key_G[unpruned_G]
        if order > 1:
            node_C = torch.cumsum(unpruned[order - 1], 0) - 1
            key_G = node_C[key_G // vocabulary_size] * vocabulary_size + key_G % vocabulary_size
        backoff_G = None if table.backoff_G is None else table.backoff_G[unpruned_G]
        out.append(Table(key_G, table.log_prob_G[unpruned_G], backoff_G))
    return out
