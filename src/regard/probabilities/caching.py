"""A neural cache's numbers, chosen on validation text."""

import math

from regard.models.cache import NeuralCache
from regard.models.contract import LanguageModel
from regard.probabilities.measures import best_weight, token_losses
from regard.tokens.contract import Encoded

THETAS = (0.003, 0.015, 0.075, 0.375, 1.875)  # states differ in size from family to family: tanh below 1, layer norm near 1
FINER = math.sqrt(5)


def with_cache(model: LanguageModel, text: Encoded, size: int) -> NeuralCache:
    """The model with a cache of `size` states. The share is the best there is for each theta (it is convex); theta is searched for."""
    plain_N = token_losses(model, text)

    def tried(theta: float) -> tuple[float, float, float]:
        cached_N = token_losses(NeuralCache(model, size, theta, share=1.0), text)
        share = best_weight(cached_N, plain_N)
        return float(-(share * (-cached_N).exp() + (1 - share) * (-plain_N).exp()).log().mean()), theta, share

    best = min(map(tried, THETAS))
    _, theta, share = min(best, *map(tried, (best[1] / FINER, best[1] * FINER)))
    return NeuralCache(model, size, theta, share).eval()
