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

    def forward(self, tokens_BT: Tensor, state: PairState | None = None, look: Any = None) -> tuple[Prediction, PairState]:
        one, first = self.first(tokens_BT, None if state is None else state.first)
        two, second = self.second(tokens_BT, None if state is None else state.second)
        return InterpolatedPrediction(one, two, self.weight), PairState(first.position_B, first, second)


@final
class InterpolatedPrediction(Prediction):
    def __init__(self, first: Prediction, second: Prediction, weight: float):
        self.first, self.second = first, second
        self._weight = weight
        # log 0 is -inf: then the other model speaks alone
        self._logs = [math.log(share) if share > 0 else -math.inf for share in (weight, 1 - weight)]

    def _mixed(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.logaddexp(first + self._logs[0], second + self._logs[1])

    def log_probs(self) -> Tensor:
        return self._mixed(self.first.log_probs(), self.second.log_probs())

    def at(self, positions_BK: Tensor) -> "InterpolatedPrediction":
        return InterpolatedPrediction(self.first.at(positions_BK), self.second.at(positions_BK), self._weight)

    def nll(self, targets_BT: Tensor) -> Tensor:
        mixed_BT = -self._mixed(-self.first.nll(targets_BT), -self.second.nll(targets_BT))
        return torch.where(targets_BT < 0, 0.0, mixed_BT)
