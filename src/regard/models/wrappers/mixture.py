"""A mixture of two language models of any families: P = weight x P_first + (1 - weight) x P_second.

Shape legend: B rows, T positions, V vocabulary, D features, K selected positions.
"""

import math
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from regard.models.contract import LanguageModel, Member, Padded, Part, Parts, Prediction, State
from regard.parts.look import Look, Site, declare

PREFIXES = ("member0.", "member1.")  # begin the names of the two models' sites


@dataclass(frozen=True)
class PairState(State):
    """The states of both models."""

    first: State
    second: State

    def trimmed(self) -> "PairState":
        return PairState(self.position_B, self.first.trimmed(), self.second.trimmed())

    def next_window(self) -> "PairState":
        first = self.first.next_window()
        return PairState(first.position_B, first, self.second.next_window())


@final
class Mixture(LanguageModel):
    """A mixture is measured and generates like any other model, but is not trained."""

    family = "mixture"
    learns = "nothing"

    def __init__(self, first: LanguageModel, second: LanguageModel, weight: float):
        super().__init__(first.vocabulary_size, None)
        self.first, self.second, self.weight = first, second, weight
        self.given = first.given
        self.context = min((c for c in (first.context, second.context) if c is not None), default=None)
        self.batch_tokens = min(first.batch_tokens, second.batch_tokens)
        self.row_tokens = min(first.row_tokens, second.row_tokens)
        self.steady = first.steady and second.steady
        self.train(first.training)

    @property
    def carries(self) -> bool:
        return self.first.carries or self.second.carries

    @property
    def device(self) -> torch.device:
        return self.first.device

    def begin(self, given: int | Tensor, look: Look | None = None) -> PairState:
        looks = _looks(look)
        first, second = self.first.begin(given, looks[0]), self.second.begin(given, looks[1])
        return PairState(first.position_B, first, second)

    def forward(
        self, tokens_BT: Tensor, state: PairState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, PairState]:
        looks = _looks(look)
        prediction0, first = self.first(tokens_BT, state.first, looks[0], padded)
        prediction1, second = self.second(tokens_BT, state.second, looks[1], padded)
        mixed = MixedPrediction(prediction0, prediction1, self.weight)
        return mixed, PairState(first.position_B, first, second)

    def with_room(self, state: PairState, room: int) -> PairState:
        first, second = self.first.with_room(state.first, room), self.second.with_room(state.second, room)
        return PairState(state.position_B, first, second)

    def slide(
        self, recent_BT: Tensor, state: PairState, look: Look | None = None
    ) -> tuple[Prediction, PairState]:
        """Read the last token. A bounded model begins a new window; an unbounded model continues."""
        looks = _looks(look)
        prediction0, first = self.first.slide(recent_BT, state.first, looks[0])
        prediction1, second = self.second.slide(recent_BT, state.second, looks[1])
        mixed = MixedPrediction(prediction0, prediction1, self.weight)
        return mixed, PairState(first.position_B, first, second)

    def members(self) -> list[Member]:
        pairs = ((self.first, self.weight), (self.second, 1 - self.weight))
        return [
            Member(PREFIXES[number] + member.prefix, member.model, weight * member.weight)
            for number, (model, weight) in enumerate(pairs)
            for member in model.members()
        ]

    def cache(self) -> dict[str, float] | None:
        return self.first.cache() or self.second.cache()

    def sites(self) -> dict[str, Site]:
        pairs = zip(PREFIXES, (self.first, self.second), strict=True)
        return declare(*(site.within(prefix) for prefix, model in pairs for site in model.sites().values()))

    def parameter_count(self) -> int:
        return self.first.parameter_count() + self.second.parameter_count()

    def tensors(self) -> dict[str, Tensor]:
        pairs = zip(PREFIXES, (self.first, self.second), strict=True)
        return {prefix + name: tensor for prefix, model in pairs for name, tensor in model.tensors().items()}


def _looks(look: Look | None) -> tuple[Look | None, Look | None]:
    return (None, None) if look is None else (look.within(PREFIXES[0]), look.within(PREFIXES[1]))


@final
class MixedPrediction(Prediction):
    """The weighted average of two predictions."""

    def __init__(self, first: Prediction, second: Prediction, weight: float):
        self.first, self.second, self.weight = first, second, weight
        # A neural cache on a mixture compares the features of both models.
        features = [each.features_BTD for each in (first, second) if each.features_BTD is not None]
        self.features_BTD = torch.cat(features, 2) if features else None

    def log_probs(self) -> Tensor:
        return mixed_log_probs(self.first.log_probs(), self.second.log_probs(), self.weight)

    def at(self, positions_BK: Tensor) -> "MixedPrediction":
        return MixedPrediction(self.first.at(positions_BK), self.second.at(positions_BK), self.weight)

    def nll(self, targets_BT: Tensor) -> Tensor:
        nll_BT = -mixed_log_probs(-self.first.nll(targets_BT), -self.second.nll(targets_BT), self.weight)
        return torch.where(targets_BT < 0, 0.0, nll_BT)

    def parts(self, targets_BT: Tensor) -> Parts:
        target_BT = targets_BT.clamp(min=0)
        terms = list[Part]()
        for prefix, prediction, weight in zip(
            PREFIXES, (self.first, self.second), (self.weight, 1 - self.weight), strict=True
        ):
            nll_BT = prediction.nll(target_BT)
            weight_BT = torch.full_like(nll_BT, weight)
            inner = prediction.parts(target_BT).scaled(weight_BT, "", nll_BT)
            terms.extend(replace(part, name=f"{prefix}{part.name}".rstrip(".")) for part in inner)
        return Parts("probability", tuple(terms))


def mixed_log_probs(first: Tensor, second: Tensor, weight: float) -> Tensor:
    """Return log(weight x P_first + (1 - weight) x P_second) for log-probabilities, which may be -inf."""
    logs = [math.log(share) if share > 0 else -math.inf for share in (weight, 1 - weight)]
    return torch.logaddexp(first + logs[0], second + logs[1])
