"""From counts to probabilities: every smoothing gives the same two numbers an n-gram, so scoring is written once.

    P(w | c) = P of the n-gram c w, where it is in the table
             = backoff(c) x P(w | c without its first word), where it is not

Every smoothing here interpolates, P_k = own share + backoff(c) x P_{k-1}, down to the uniform 1/V; so each probability can be taken
apart again into a chain that sums to it (`NgramPrediction.parts`).

Shape legend: G n-grams of one order, C contexts (the n-grams one order below).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.machine.memory import release_freed_memory
from regard.models.ngram_counts import Counts

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # of counts one, two, three and more: KenLM's --discount_fallback


@dataclass(frozen=True)
class Table:
    """One order, in natural logs. The backoff is that of the n-gram as a context, 0 where nothing continues it."""

    key_G: Tensor
    log_prob_G: Tensor
    backoff_G: Tensor | None  # None in the highest order


@dataclass(frozen=True)
class Level:
    """One order while it is estimated."""

    counts: Counts
    above: Counts | None  # one order up
    context_G: Tensor
    starts_G: Tensor  # begins with the start mark
    starts_C: Tensor
    kept_G: Tensor  # not pruned

    def total_C(self, values_G: Tensor) -> Tensor:
        return torch.zeros(len(self.starts_C), dtype=values_G.dtype).index_add_(0, self.context_G, values_G)


Smoothing = Callable[[Level], tuple[Tensor, Tensor]]  # the n-grams' own shares, the contexts' backoffs


def maximum_likelihood(level: Level) -> tuple[Tensor, Tensor]:
    """Count and normalise: P = c(c w) / c(c). A context that was seen gives nothing to what never followed it."""
    count_G = level.counts.count_G.double()
    total_C = level.total_C(count_G)
    return count_G / total_C[level.context_G], torch.where(total_C > 0, 0.0, 1.0).double()


def add_k(k: float, vocabulary_size: int) -> Smoothing:
    """P = (c(c w) + k) / (c(c) + k V), for the whole context: n-1 words, or fewer after the start. An unseen one gives 1/V."""

    def shares(level: Level) -> tuple[Tensor, Tensor]:
        count_G = level.counts.count_G.double()
        whole_C = level.starts_C if level.above else torch.ones_like(level.starts_C)
        total_C = level.total_C(count_G)
        divisor_C = total_C + k * vocabulary_size
        own_G = count_G / divisor_C[level.context_G] * whole_C[level.context_G]
        return own_G, torch.where(whole_C & (total_C > 0), k * vocabulary_size / divisor_C, 1.0)

    return shares


def kneser_ney(discounts: Callable[[Tensor], Sequence[float]]) -> Smoothing:
    """Interpolated Kneser-Ney: P = (a - D(a)) / sum a + backoff x P_{k-1} (Chen and Goodman 1999, equation 25).

    Below the highest order a counts the different words that stand before an n-gram; after the start mark there is none to count.
    What is discounted and what is pruned becomes the backoff.
    """

    def shares(level: Level) -> tuple[Tensor, Tensor]:
        adjusted_G = level.counts.count_G
        if level.above:
            before_G = torch.bincount(level.above.suffix_G, minlength=len(adjusted_G)).int()
            adjusted_G = torch.where(level.starts_G, adjusted_G, before_G)
        seen = torch.bincount(adjusted_G.clamp(max=5), minlength=6)
        discount_A = torch.tensor([0.0, *discounts(seen)], dtype=torch.float64)
        own_G = discount_A[adjusted_G.clamp(max=3)].neg_().add_(adjusted_G).mul_(level.kept_G)
        total_C = level.total_C(adjusted_G.double())
        left_C = total_C - level.total_C(own_G)
        return own_G.div_(total_C[level.context_G].clamp_(min=1)), torch.where(
            total_C > 0, left_C / total_C, 1.0
        )

    return shares


def one_discount(seen: Tensor) -> Sequence[float]:
    """Ney, Essen and Kneser 1994: D = n1 / (n1 + 2 n2), n_j n-grams seen j times; a half where there is no n1 or n2."""
    once, twice = float(seen[1]), float(seen[2])
    discount = once / (once + 2 * twice) if once and twice else FALLBACK_DISCOUNTS[0]
    return (discount,) * 3


def three_discounts(seen: Tensor) -> Sequence[float]:
    """Chen and Goodman 1999, equation 26: D_j = j - (j+1) Y n_{j+1} / n_j, Y = n1 / (n1 + 2 n2).

    Small texts and closed vocabularies can leave an n_j empty or a D_j outside (0, j]: then KenLM's fall-back discounts.
    """
    n = [float(number) for number in seen]
    if not all(n[1:4]):
        return FALLBACK_DISCOUNTS
    share = n[1] / (n[1] + 2 * n[2])
    discounts = [j - (j + 1) * share * n[j + 1] / n[j] for j in (1, 2, 3)]
    return discounts if all(0 < d <= j for j, d in enumerate(discounts, 1)) else FALLBACK_DISCOUNTS


def estimate(
    tables: deque[Counts], vocabulary_size: int, smoothing: Smoothing, prune: Sequence[int]
) -> list[Table]:
    """Tables of every order, the uniform distribution (the one n-gram of order 0) first. Counts are used up, to save memory.

    An n-gram seen `prune[order - 1]` times or fewer is left out; the last number serves all orders above.
    """
    below_G, starts_C = (
        torch.full((1,), 1 / vocabulary_size, dtype=torch.float64),
        torch.zeros(1, dtype=torch.bool),
    )
    estimated = [Table(torch.zeros(1, dtype=torch.long), _log(below_G), None)]
    kept = [torch.ones(1, dtype=torch.bool)]
    for order in range(1, len(tables) + 1):
        level = _level(order, tables, vocabulary_size, starts_C, prune[min(order, len(prune)) - 1])
        own_G, backoff_C = smoothing(level)
        estimated[-1] = replace(estimated[-1], backoff_G=_log(backoff_C))
        below_G = below_G[level.counts.suffix_G].mul_(backoff_C[level.context_G]).add_(own_G)
        estimated.append(Table(level.counts.key_G, _log(below_G), None))
        kept.append(level.kept_G)
        starts_C = level.starts_G
        del level, own_G, backoff_C  # the next order needs the room
        release_freed_memory()
    return _without_pruned(estimated, kept, vocabulary_size) if any(prune) else estimated


def _level(order: int, tables: deque[Counts], vocabulary_size: int, starts_C: Tensor, prune: int) -> Level:
    counts = tables.popleft()
    above = tables[0] if tables else None
    if order == 1:  # words follow the empty context, and none is pruned
        starts_G = counts.key_G == vocabulary_size
        return Level(
            counts, above, torch.zeros_like(counts.count_G), starts_G, starts_C, torch.ones_like(starts_G)
        )
    context_G = (counts.key_G // vocabulary_size).int()
    return Level(counts, above, context_G, starts_C[context_G], starts_C, counts.count_G > prune)


def _log(values: Tensor) -> Tensor:
    return values.log().to(torch.get_default_dtype())


def _without_pruned(tables: list[Table], kept: list[Tensor], vocabulary_size: int) -> list[Table]:
    """Leave out what was pruned and number the rest anew."""
    out = list[Table]()
    for order, (table, kept_G) in enumerate(zip(tables, kept, strict=True)):
        key_G = table.key_G[kept_G]
        if order > 1:
            place_C = torch.cumsum(kept[order - 1], 0) - 1
            key_G = place_C[key_G // vocabulary_size] * vocabulary_size + key_G % vocabulary_size
        out.append(
            Table(
                key_G, table.log_prob_G[kept_G], None if table.backoff_G is None else table.backoff_G[kept_G]
            )
        )
    return out
