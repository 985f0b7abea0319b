"""Choosing the next token from its distribution. Random numbers are a function of seed, row and position.

So a row does not depend on its neighbours: the first of three samples is the sample that is drawn alone.

Shape legend: B rows, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen. Temperature 0 takes the likeliest token."""

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

    def choose(self, log_probs_BV: Tensor, uniform_B: Tensor) -> Tensor:
        """(B): the token at which the cumulative distribution passes the uniform number of the row."""
        if self.temperature == 0:
            return log_probs_BV.argmax(1)
        probability_BV = (log_probs_BV.double() / self.temperature).softmax(1)
        if self.top_k is None and self.top_p is None:
            return _invert(probability_BV, uniform_B)
        sorted_BV, order_BV = probability_BV.sort(dim=1, descending=True, stable=True)
        if self.top_k is not None:
            sorted_BV[:, self.top_k :] = 0
        if (
            self.top_p is not None
        ):  # the smallest set of likeliest tokens whose probabilities sum to top_p or more
            before_BV = sorted_BV.cumsum(1) - sorted_BV
            sorted_BV[before_BV >= self.top_p * sorted_BV.sum(1, keepdim=True)] = 0
        return order_BV.gather(1, _invert(sorted_BV, uniform_B).unsqueeze(1)).squeeze(1)


def _invert(weights_BV: Tensor, uniform_B: Tensor) -> Tensor:
    """(B): the first index whose cumulative weight is above uniform x total. An index of weight 0 is never chosen."""
    cumulative_BV = weights_BV.cumsum(1)
    total_B1 = cumulative_BV[:, -1:]
    wanted_B1 = torch.minimum(
        uniform_B.unsqueeze(1) * total_B1, torch.nextafter(total_B1, torch.zeros_like(total_B1))
    )
    return torch.searchsorted(cumulative_BV, wanted_B1, right=True).squeeze(1)


def uniform(seed: int, row_B: Tensor, position_B: Tensor) -> Tensor:
    """(B): float64 numbers in [0, 1), each a hash of seed, row and position.

    Three rounds of the finaliser of splitmix64 (Steele, Lea and Flood 2014), whose every output bit depends on every input bit.

    >>> both = uniform(7, torch.tensor([0, 1]), torch.tensor([5, 5]))
    >>> bool(both[0] == uniform(7, torch.tensor([0]), torch.tensor([5]))[0]), bool(both[0] == both[1])
    (True, False)
    """
    bits_B = _mixed(torch.full_like(row_B, seed))
    bits_B = _mixed(bits_B ^ row_B)
    bits_B = _mixed(bits_B ^ position_B)
    return (_shifted(bits_B, 11)).double() * 2.0**-53


def _mixed(bits: Tensor) -> Tensor:
    bits = bits + _signed(0x9E3779B97F4A7C15)
    bits = (bits ^ _shifted(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shifted(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """A logical shift to the right: torch's int64 shifts copy the sign."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
