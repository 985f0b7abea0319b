"""The kinds of prediction that neural families share: a softmax over a readout, and its mixture with copying.

Shape legend: B rows, T positions, V vocabulary, D features, S source positions that can be copied from, K positions asked for.
"""

from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.contract import Prediction

SLICE = 1 << 24  # the most logits that are held at a time where only some are wanted


@final
class SoftmaxPrediction(Prediction):
    """P = softmax(W features + b)."""

    def __init__(self, features_BTD: Tensor, weight_VD: Tensor, bias_V: Tensor | None = None):
        self.features_BTD: Tensor = features_BTD
        self._weight_VD = weight_VD
        self._bias_V = bias_V

    def logits(self) -> Tensor:
        return F.linear(self.features_BTD, self._weight_VD, self._bias_V)

    def log_probs(self) -> Tensor:
        return F.log_softmax(self.logits(), 2)

    def at(self, positions_BK: Tensor) -> "SoftmaxPrediction":
        return SoftmaxPrediction(gather_positions(self.features_BTD, positions_BK), self._weight_VD, self._bias_V)

    def nll(self, targets_BT: Tensor) -> Tensor:
        features_ND, targets_N = self.features_BTD.flatten(0, 1), targets_BT.flatten()
        rows = max(1, SLICE // len(self._weight_VD))
        slices = [
            F.cross_entropy(F.linear(f, self._weight_VD, self._bias_V), t, ignore_index=-1, reduction="none")
            for f, t in zip(features_ND.split(rows), targets_N.split(rows), strict=True)
        ]
        return torch.cat(slices).view_as(targets_BT)


@final
class CopyPrediction(Prediction):
    """A mixture: what is copied from earlier tokens, and another prediction for the rest.

        P(w) = (1 - sum_s copied_s) P_other(w) + sum over the positions s that hold w of copied_s

    Weight on a position whose token can never be predicted (`<s>`, padding) goes to the other prediction, so the sum is always one.
    """

    def __init__(self, other: Prediction, copied_BTS: Tensor, sources_BS: Tensor, vocabulary_size: int):
        self.other = other
        self.features_BTD = other.features_BTD
        self._sources_BS = sources_BS
        self._size = vocabulary_size
        self.copied_BTS = copied_BTS * (sources_BS < vocabulary_size).unsqueeze(1)
        self.rest_BT = 1 - self.copied_BTS.sum(2)

    def at(self, positions_BK: Tensor) -> "CopyPrediction":
        copied_BKS = gather_positions(self.copied_BTS, positions_BK)
        return CopyPrediction(self.other.at(positions_BK), copied_BKS, self._sources_BS, self._size)

    def nll(self, targets_BT: Tensor) -> Tensor:
        # in probabilities with a floor: logs of sums of masked logs have NaN gradients where the target cannot be copied
        same_BTS = self._sources_BS.unsqueeze(1) == targets_BT.unsqueeze(2)
        copied_BT = (self.copied_BTS * same_BTS).sum(2)
        probability_BT = self.rest_BT * (-self.other.nll(targets_BT)).exp() + copied_BT
        return torch.where(targets_BT < 0, 0.0, -_log(probability_BT))

    def log_probs(self) -> Tensor:
        probability_BTV = self.rest_BT.unsqueeze(2) * self.other.log_probs().exp()
        sources_BTS = self._sources_BS.clamp(max=self._size - 1).unsqueeze(1).expand_as(self.copied_BTS)
        return _log(probability_BTV.scatter_add(2, sources_BTS, self.copied_BTS.to(probability_BTV.dtype)))


def _log(probability: Tensor) -> Tensor:
    return probability.clamp(min=torch.finfo(probability.dtype).tiny).log()


def gather_positions(values_BTD: Tensor, positions_BK: Tensor) -> Tensor:
    return values_BTD.gather(1, positions_BK.unsqueeze(2).expand(-1, -1, values_BTD.shape[2]))
