"""Spearman's rank correlation, with an interval.

Shape legend: N pairs of numbers.
"""

import math
from dataclasses import dataclass

import numpy as np

FEWEST = 4  # the interval divides by N - 3
Z = 1.959964  # the 97.5% quantile of the normal distribution


@dataclass(frozen=True)
class Correlation:
    """A rank correlation and its 95% interval."""

    spearman: float
    low: float
    high: float


def spearman(first_N: np.ndarray, second_N: np.ndarray) -> Correlation | None:
    """Correlate the ranks of two lists of numbers; equal numbers share their mean rank.

    The interval is that of Fisher's z with the variance (1 + r^2 / 2) / (N - 3) of Bonett and Wright (2000,
    equation 4). None: there are fewer than 4 pairs, or all numbers of a list are equal.
    """
    if len(first_N) < FEWEST:
        return None
    one_N, two_N = (ranks - ranks.mean() for ranks in (mean_ranks(first_N), mean_ranks(second_N)))
    size = math.sqrt(float(one_N @ one_N) * float(two_N @ two_N))
    if size == 0:
        return None
    correlation = max(-1.0, min(1.0, float(one_N @ two_N) / size))
    if abs(correlation) == 1:
        return Correlation(correlation, correlation, correlation)
    middle = math.atanh(correlation)
    reach = Z * math.sqrt((1 + correlation**2 / 2) / (len(first_N) - 3))
    return Correlation(correlation, math.tanh(middle - reach), math.tanh(middle + reach))


def mean_ranks(numbers_N: np.ndarray) -> np.ndarray:
    """(N): the rank of each number from 1; equal numbers have the mean of their ranks.

    >>> mean_ranks(np.array([0.3, 0.1, 0.3])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place_N, count = np.unique(numbers_N, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place_N]
