"""The hyperparameters of a neural cache are chosen on validation text."""

import math

from regard.models.contract import LanguageModel
from regard.models.wrappers.neural_cache import NeuralCache
from regard.probabilities.measures import best_weight, token_losses
from regard.tokens.contract import Encoded

# The range is wide because the norm of a state differs between families: below 1 after tanh, near 1 after a
# norm.
THETAS = (0.003, 0.015, 0.075, 0.375, 1.875)
FINER = math.sqrt(5)  # the second search tries the best theta divided by, and multiplied by, this factor


def with_cache(model: LanguageModel, text: Encoded, size: int) -> NeuralCache:
    """Return the model with a cache of `size` states.

    theta is searched on a grid. The best share for each theta is a convex problem, which best_weight()
    solves.
    """
    plain_N = token_losses(model, text)

    def loss_with(theta: float) -> tuple[float, float, float]:
        cached_N = token_losses(NeuralCache(model, size, theta, share=1.0), text)
        share = best_weight(cached_N, plain_N)
        loss = float(-(share * (-cached_N).exp() + (1 - share) * (-plain_N).exp()).log().mean())
        return loss, theta, share

    best = min(map(loss_with, THETAS))
    _, theta, share = min(best, *map(loss_with, (best[1] / FINER, best[1] * FINER)))
    return NeuralCache(model, size, theta, share)
