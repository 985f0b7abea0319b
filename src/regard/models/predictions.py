"""The predictions that neural families share: a softmax of features, and its mixture with copied words.

Shape legend: B rows, T positions, N rows x positions, V vocabulary, D features, S positions to copy from,
K selected positions.
"""

from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.models.contract import Part, Parts, Prediction, real_weights
from regard.parts.cross_entropy import linear_cross_entropy, rows_of_slice
from regard.parts.products import linear


@final
class SoftmaxPrediction(Prediction):
    """P = softmax(W features + b)."""

    def __init__(self, features_BTD: Tensor, weight_VD: Tensor, bias_V: Tensor):
        self.features_BTD: Tensor = features_BTD
        self.weight_VD = weight_VD
        self.bias_V = bias_V

    def log_probs(self) -> Tensor:
        return F.log_softmax(
            linear(self.features_BTD, self.weight_VD, self.bias_V), 2, dtype=_wide(self.features_BTD)
        )

    def at(self, positions_BK: Tensor) -> "SoftmaxPrediction":
        return SoftmaxPrediction(
            gather_positions(self.features_BTD, positions_BK), self.weight_VD, self.bias_V
        )

    def nll(self, targets_BT: Tensor) -> Tensor:
        features_ND, targets_N = self.features_BTD.flatten(0, 1), targets_BT.flatten()
        rows = rows_of_slice(self.weight_VD)
        parts = list(zip(features_ND.split(rows), targets_N.split(rows), strict=True))
        if len(parts) > 1 and torch.is_grad_enabled():
            # The backward pass computes the logits of each slice again instead of storing them.
            slices = [checkpoint(self._slice_nll, *part, use_reentrant=False) for part in parts]
        else:
            slices = [self._slice_nll(*part) for part in parts]
        return torch.cat(slices).view_as(targets_BT)

    def parts(self, targets_BT: Tensor) -> Parts:
        """The terms of score = W_target . features + b_target."""
        target_BT = targets_BT.clamp(min=0)
        from_features_BT = (self.features_BTD * F.embedding(target_BT, self.weight_VD)).sum(2)
        return Parts("score", (Part("features", from_features_BT), Part("bias", self.bias_V[target_BT])))

    def _slice_nll(self, features_ND: Tensor, targets_N: Tensor) -> Tensor:
        return F.cross_entropy(self._logits(features_ND), targets_N, ignore_index=-1, reduction="none")

    def loss(
        self, targets_BT: Tensor, weights_BT: Tensor | None = None, smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        features_ND, targets_N = self.features_BTD.flatten(0, 1), targets_BT.flatten()
        weights_N = real_weights(targets_BT, weights_BT).to(_wide(features_ND)).flatten()
        in_slices = features_ND.is_cuda or len(targets_N) > rows_of_slice(self.weight_VD)
        if in_slices:
            total = linear_cross_entropy(
                features_ND, self.weight_VD, self.bias_V, targets_N, weights_N, smoothing
            )
        else:
            total = self._summed(features_ND, targets_N, weights_N, smoothing)
        return total, weights_N.sum()

    def _summed(self, features_ND: Tensor, targets_N: Tensor, weights_N: Tensor, smoothing: float) -> Tensor:
        loss_N = F.cross_entropy(
            self._logits(features_ND), targets_N, ignore_index=-1, reduction="none", label_smoothing=smoothing
        )
        return (loss_N * weights_N).sum()

    def _logits(self, features_ND: Tensor) -> Tensor:
        logits_NV = linear(features_ND, self.weight_VD, self.bias_V)
        return logits_NV.to(_wide(logits_NV))


@final
class Readout(nn.Module):
    """Maps features to a prediction. A tied readout uses the embedding's vectors; any other has its own."""

    def __init__(self, vocabulary_size: int, width: int, tied: bool, bias: bool = True):
        super().__init__()
        self.size = vocabulary_size
        self.weight = None if tied else nn.Parameter(torch.empty(vocabulary_size, width).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size), requires_grad=bias)

    def forward(self, features_BTD: Tensor, embedding: nn.Embedding) -> SoftmaxPrediction:
        weight = embedding.weight[: self.size] if self.weight is None else self.weight
        return SoftmaxPrediction(features_BTD, weight, self.bias)


def _wide(tensor: Tensor) -> torch.dtype:
    """Return the type for logits and probabilities: the tensor's own, but at least single precision."""
    return torch.promote_types(torch.float32, tensor.dtype)


@final
class CopyPrediction(Prediction):
    """A mixture of another prediction with words that are copied from earlier positions.

        P(w) = (1 - sum_s copied_s) P_other(w) + sum over the positions s that hold w of copied_s

    A position may hold a token that is never predicted (`<s>`, padding). The weight of that position goes to
    the other prediction, so that the probabilities always sum to one.
    """

    def __init__(
        self,
        other: Prediction,
        copied_BTS: Tensor,
        token_BS: Tensor,
        position_BS: Tensor,
        vocabulary_size: int,
        name: str = "copy",
    ):
        """`token_BS` are the words to copy, and `position_BS` are their positions, -1 for empty slots."""
        self.other, self.name = other, name
        self.features_BTD = other.features_BTD
        self._token_BS, self._position_BS, self._size = token_BS, position_BS, vocabulary_size
        # At least single precision, because small probabilities are differences here.
        self.copied_BTS = copied_BTS.to(_wide(copied_BTS)) * (token_BS < vocabulary_size).unsqueeze(1)
        self.rest_BT = 1 - self.copied_BTS.sum(2)

    def at(self, positions_BK: Tensor) -> "CopyPrediction":
        copied_BKS = gather_positions(self.copied_BTS, positions_BK)
        other = self.other.at(positions_BK)
        return CopyPrediction(other, copied_BKS, self._token_BS, self._position_BS, self._size, self.name)

    def _copied(self, targets_BT: Tensor) -> Tensor:
        """(B, T, S): the copied mass of the positions that hold the target, and 0 for other positions."""
        return self.copied_BTS * (self._token_BS.unsqueeze(1) == targets_BT.unsqueeze(2))

    def nll(self, targets_BT: Tensor) -> Tensor:
        # Sums of probabilities with a floor: a log-sum-exp of masked logs has NaN gradients if the target
        # cannot be copied.
        probability_BT = self.rest_BT * (-self.other.nll(targets_BT)).exp() + self._copied(targets_BT).sum(2)
        return torch.where(targets_BT < 0, 0.0, -_log(probability_BT))

    def parts(self, targets_BT: Tensor) -> Parts:
        target_BT = targets_BT.clamp(min=0)
        others = self.other.parts(target_BT).scaled(self.rest_BT, "vocabulary", self.other.nll(target_BT))
        return Parts("probability", (*others, Part(self.name, self._copied(target_BT), self._position_BS)))

    def log_probs(self) -> Tensor:
        probability_BTV = self.rest_BT.unsqueeze(2) * self.other.log_probs().exp()
        token_BTS = self._token_BS.clamp(max=self._size - 1).unsqueeze(1).expand_as(self.copied_BTS)
        return _log(probability_BTV.scatter_add(2, token_BTS, self.copied_BTS.to(probability_BTV.dtype)))


def _log(probability: Tensor) -> Tensor:
    """Return the logarithm, with a floor that keeps its gradient finite."""
    return probability.clamp(min=torch.finfo(probability.dtype).tiny).log()


def gather_positions(values_BTD: Tensor, positions_BK: Tensor) -> Tensor:
    """(B, K, D): the values at the selected positions of each row."""
    return values_BTD.gather(1, positions_BK.unsqueeze(2).expand(-1, -1, values_BTD.shape[2]))
