"""Confidence intervals."""

import math


def wilson(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95% confidence interval of a share (Wilson 1927).

    >>> [round(end, 3) for end in wilson(8, 10)]
    [0.49, 0.943]
    """
    share, squared = successes / trials, z * z / trials
    middle = (share + squared / 2) / (1 + squared)
    half = z / (1 + squared) * math.sqrt(share * (1 - share) / trials + squared / (4 * trials))
    return max(0.0, middle - half), min(1.0, middle + half)
