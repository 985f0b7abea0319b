"""The numbers of a neural cache, chosen on validation text."""

import math

from regard.models.contract import LanguageModel
from regard.models.wrappers.neural_cache import NeuralCache
from regard.probabilities.measures import best_weight, token_losses
from regard.tokens.contract import Encoded

THETAS = (
    0.003,
    0.015,
    0.075,
    0.375,
    1.875,
)  # the size of states differs from family to family: below 1 with tanh, near 1 with a norm
FINER = math.sqrt(5)


def with_cache(model: LanguageModel, text: Encoded, size: int) -> NeuralCache:
    """The model with a cache of `size` states. For each theta the best share is found (a convex problem); theta is searched for."""
    plain_N = token_losses(model, text)

    def tried(theta: float) -> tuple[float, float, float]:
        cached_N = token_losses(NeuralCache(model, size, theta, share=1.0), text)
        share = best_weight(cached_N, plain_N)
        loss = float(-(share * (-cached_N).exp() + (1 - share) * (-plain_N).exp()).log().mean())
        return loss, theta, share

    best = min(map(tried, THETAS))
    _, theta, share = min(best, *map(tried, (best[1] / FINER, best[1] * FINER)))
    return NeuralCache(model, size, theta, share)
