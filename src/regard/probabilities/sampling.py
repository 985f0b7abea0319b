"""Sampling chooses the next token from the model's distribution.

The random numbers are a function of seed, row and position. Therefore the first of three samples is equal to
the sample that is drawn alone.

Shape legend: B rows, V vocabulary, N steps, K candidates, G groups of tokens.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UserError

GROUP = 256  # the size of a group of tokens in the two-step search of invert()
# The likeliest tokens that nearly always hold the mass `top_p`: sorting them is faster than sorting all.
CANDIDATES = 1024


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The settings of sampling. Temperature 0 takes the likeliest token."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if self.temperature != 0 and not 1e-3 <= self.temperature < float("inf"):
            raise UserError("`temperature` must be 0 (the likeliest token), or 0.001 or more")
        if self.top_k is not None and self.top_k < 1:
            raise UserError("`top_k` must be 1 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError("`top_p` must be above 0 and at most 1")

    def choose(self, log_probs_BV: Tensor, uniform_B: Tensor, may_ask: bool = True) -> Tensor:
        """(B): the first token at which the row's cumulative distribution exceeds its uniform random number.

        `may_ask` lets the host read a tensor's value to save work. A captured or compiled step must set it to
        False.
        """
        if self.temperature == 0 or self.top_k == 1:
            return log_probs_BV.argmax(1)
        scaled_BV = log_probs_BV if self.temperature == 1 else log_probs_BV / self.temperature
        if self.top_k is None and self.top_p is None:
            return invert(scaled_BV.softmax(1), uniform_B)
        best_BK, token_BK = self._candidates(scaled_BV, may_ask)
        total_B1 = (best_BK if self.top_k is not None else scaled_BV).logsumexp(1, keepdim=True)
        weights_BK = (best_BK - total_B1).exp()
        if self.top_p is not None:
            # Keep the smallest set of likeliest tokens whose probabilities sum to top_p or more.
            weights_BK = weights_BK.masked_fill(weights_BK.cumsum(1) - weights_BK >= self.top_p, 0)
        return token_BK.gather(1, invert(weights_BK, uniform_B).unsqueeze(1)).squeeze(1)

    def _candidates(self, scaled_BV: Tensor, may_ask: bool) -> tuple[Tensor, Tensor]:
        """Return the likeliest tokens, sorted: `top_k` of them, or a set that holds the mass `top_p`.

        Small vocabularies are sorted as a whole.
        """
        size = scaled_BV.shape[1]
        if size > CANDIDATES and self.top_k is not None:
            return scaled_BV.topk(min(self.top_k, size), 1)
        if size > CANDIDATES and self.top_p is not None and may_ask:
            best = scaled_BV.topk(CANDIDATES, 1)
            mass_B = (best.values.logsumexp(1) - scaled_BV.logsumexp(1)).exp()
            if bool((mass_B >= self.top_p).all()):
                return best
        values_BV, token_BV = scaled_BV.sort(dim=1, descending=True, stable=True)
        return values_BV[:, : self.top_k], token_BV[:, : self.top_k]


def invert(weights_BV: Tensor, uniform_B: Tensor) -> Tensor:
    """(B): the first index whose cumulative weight exceeds uniform x total; never an index of weight 0.

    Large vocabularies are searched in two steps, first among the sums of groups, then within one group: this
    reads the weights only once.
    """
    uniform_B1 = uniform_B.to(weights_BV.dtype).unsqueeze(1)
    if weights_BV.shape[1] <= 2 * GROUP:
        return _first_above(weights_BV, *_cumulative(weights_BV, uniform_B1)).squeeze(1)
    grouped_BGV = F.pad(weights_BV, (0, -weights_BV.shape[1] % GROUP)).unflatten(1, (-1, GROUP))
    sum_BG = grouped_BGV.sum(2)
    cumulative_BG, bound_B1 = _cumulative(sum_BG, uniform_B1)
    group_B1 = _first_above(sum_BG, cumulative_BG, bound_B1)
    # The share of the group's own weight that lies below uniform x total is again uniform.
    weight_B1, end_B1 = sum_BG.gather(1, group_B1), cumulative_BG.gather(1, group_B1)
    remainder_B1 = ((bound_B1 - end_B1 + weight_B1) / weight_B1).clamp(0, 1)
    row_B = torch.arange(group_B1.shape[0], device=group_B1.device)
    chosen_BV = grouped_BGV[row_B, group_B1.squeeze(1)]
    within_B1 = _first_above(chosen_BV, *_cumulative(chosen_BV, remainder_B1))
    return (group_B1 * GROUP + within_B1).squeeze(1)


def _cumulative(weights_BV: Tensor, uniform_B1: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cumulative weights, and uniform x total, which is below the total after rounding."""
    cumulative_BV = weights_BV.cumsum(1)
    below_one = 1 - torch.finfo(weights_BV.dtype).eps / 2
    return cumulative_BV, uniform_B1.clamp(max=below_one) * cumulative_BV[:, -1:]


def _first_above(weights_BV: Tensor, cumulative_BV: Tensor, bound_B1: Tensor) -> Tensor:
    """(B, 1): the first index whose cumulative weight exceeds the bound.

    A CPU adds the weights one after the other: their sums never decrease, and grow only at positive weights.
    The index is then found by bisection.
    """
    if weights_BV.is_cuda:
        return first_above(weights_BV, cumulative_BV, bound_B1)
    last = weights_BV.shape[1] - 1  # if the weights are no numbers
    return torch.searchsorted(cumulative_BV, bound_B1, right=True).clamp(max=last)


def first_above(weights_BV: Tensor, cumulative_BV: Tensor, bound_B1: Tensor) -> Tensor:
    """The specification of the search. A GPU rounds sums in another order, so they may decrease slightly."""
    above_BV = (cumulative_BV > bound_B1) & (weights_BV > 0)
    last_B1 = _last_positive(weights_BV)  # the fallback: rounding may leave no index above the bound
    return torch.where(above_BV.any(1, keepdim=True), above_BV.byte().argmax(1, keepdim=True), last_B1)


def _last_positive(weights_BV: Tensor) -> Tensor:
    """(B, 1): the last index whose weight is positive."""
    positive_BV = (weights_BV > 0).flip(1).byte()
    return weights_BV.shape[1] - 1 - positive_BV.argmax(1, keepdim=True)


def uniform(seed: int, row_B: Tensor, position_BN: Tensor) -> Tensor:
    """(B, N): float64 numbers in [0, 1). Each number is a hash of seed, row and position.

    The hash is three rounds of the finaliser of splitmix64 (Steele, Lea and Flood 2014). Every output bit of
    the finaliser depends on every input bit.

    >>> both = uniform(7, torch.tensor([0, 1]), torch.tensor([[5], [5]]))
    >>> bool(both[0] == uniform(7, torch.tensor([0]), torch.tensor([[5]]))[0]), bool(both[0] == both[1])
    (True, False)
    """
    bits_B = _mixed(torch.full_like(row_B, seed))
    bits_B = _mixed(bits_B ^ row_B)
    bits_BN = _mixed(bits_B.unsqueeze(1) ^ position_BN)
    return (_shifted(bits_BN, 11)).double() * 2.0**-53


def _mixed(bits: Tensor) -> Tensor:
    bits = bits + _signed(0x9E3779B97F4A7C15)
    bits = (bits ^ _shifted(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shifted(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """Shift right and fill with zeros. (The shift of torch's int64 copies the sign bit.)"""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
