"""Two language models of any families as one: P = weight x P_first + (1 - weight) x P_second.

Shape legend: B rows, T positions, V vocabulary, K positions asked for.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from regard.models.contract import LanguageModel, Prediction, State


@dataclass(frozen=True)
class PairState(State):
    first: State
    second: State


@final
class Interpolation(LanguageModel):
    family = "interpolation"
    training_defaults = None  # it is put together from trained models

    def __init__(self, first: LanguageModel, second: LanguageModel, weight: float):
        super().__init__(first.vocabulary_size, None)
        self.first, self.second, self.weight = first, second, weight
        self.context = min((c for c in (first.context, second.context) if c is not None), default=None)
        self.batch_tokens, self.row_tokens = min(first.batch_tokens, second.batch_tokens), min(first.row_tokens, second.row_tokens)
        self.cache = first.cache or second.cache

    def forward(self, tokens_BT: Tensor, state: PairState | None = None, look: Any = None) -> tuple[Prediction, PairState]:
        one, first = self.first(tokens_BT, None if state is None else state.first)
        two, second = self.second(tokens_BT, None if state is None else state.second)
        return InterpolatedPrediction(one, two, self), PairState(first.position_B, first, second)

    def mixed(self, first: Tensor, second: Tensor) -> Tensor:
        """Two log-probabilities of the same tokens as one; log 0 is -inf: then the other model speaks alone."""
        logs = [math.log(share) if share > 0 else -math.inf for share in (self.weight, 1 - self.weight)]
        return torch.logaddexp(first + logs[0], second + logs[1])


@final
class InterpolatedPrediction(Prediction):
    def __init__(self, first: Prediction, second: Prediction, model: Interpolation):
        self.first, self.second, self._model = first, second, model

    def log_probs(self) -> Tensor:
        return self._model.mixed(self.first.log_probs(), self.second.log_probs())

    def at(self, positions_BK: Tensor) -> "InterpolatedPrediction":
        return InterpolatedPrediction(self.first.at(positions_BK), self.second.at(positions_BK), self._model)

    def nll(self, targets_BT: Tensor) -> Tensor:
        mixed_BT = -self._model.mixed(-self.first.nll(targets_BT), -self.second.nll(targets_BT))
        return torch.where(targets_BT < 0, 0.0, mixed_BT)
