"""Copying: attention weights a_j over earlier words are also probabilities that word j comes again.

    average  P(w) = 1/2 P_vocabulary(w) + 1/2 sum over earlier j with w_j = w of a_j
    gate     P(w) = g P_vocabulary(w) + sum over earlier j with w_j = w of a_j

The gate g is the weight of a learned sentinel in the softmax of the a_j, so that g + sum_j a_j = 1 (Merity et
al. 2017, equations 5 to 8).

Shape legend: B rows, T positions, S positions to copy from, D width.
"""

import math
from typing import Literal, final

import torch
from torch import Tensor, nn

from regard.parts.attention import Normaliser, at_value, mix, softmax, softmax_with_extra, weigh
from regard.parts.look import Look
from regard.parts.masks import Mask
from regard.parts.products import Linear
from regard.parts.scores import ScaledDot, Score

CopyName = Literal["none", "average", "gate"]


def copy_column(copy: CopyName) -> str | None:
    """Return the name of the extra column of the weights: the vocabulary for a gate, None without a gate."""
    return "(vocabulary)" if copy == "gate" else None


@final
class Copier(nn.Module):
    """Attention over earlier words whose weights are also probabilities of copying."""

    def __init__(self, copy: CopyName, width: int, positions: int):
        super().__init__()
        self.sentinel = nn.Parameter(torch.randn(width) / math.sqrt(width)) if copy == "gate" else None
        # With equal scores at all positions, the gate starts at 0.9, so that the vocabulary is learned first.
        self.offset = nn.Parameter(torch.tensor(math.log(9 * positions))) if copy == "gate" else None

    def weights(
        self, query_BTD: Tensor, key_BSD: Tensor, *, score: Score, mask: Mask, look: Look | None, site: str
    ) -> Tensor:
        """(B, 1, T, S): the attention weights; (B, 1, T, S + 1) with the gate as the last column."""
        query_B1TD, key_B1SD = query_BTD.unsqueeze(1), key_BSD.unsqueeze(1)
        normalise: Normaliser = softmax
        if self.sentinel is not None and self.offset is not None:
            normalise = softmax_with_extra(score(query_B1TD, self._sentinel(key_BSD)) + self.offset)
        return weigh(query_B1TD, key_B1SD, score=score, mask=mask, normalise=normalise, look=look, site=site)

    def copied(self, weights_B1TS: Tensor, positions: int) -> Tensor:
        """(B, T, S): the probability mass that is copied from each position."""
        copied_BTS = weights_B1TS.squeeze(1)[:, :, :positions]
        return copied_BTS / 2 if self.sentinel is None else copied_BTS

    def forward(
        self, query_BTD: Tensor, key_BSD: Tensor, *, score: Score, mask: Mask, look: Look | None, site: str
    ) -> tuple[Tensor, Tensor]:
        """Return the mass that is copied from each position, and the keys averaged by the same weights."""
        weights_B1TS = self.weights(query_BTD, key_BSD, score=score, mask=mask, look=look, site=site)
        value_B1SD = at_value(key_BSD.unsqueeze(1), mask, look, site)
        if self.sentinel is not None:
            value_B1SD = torch.cat([value_B1SD, self._sentinel(key_BSD)], 2)
        return self.copied(weights_B1TS, key_BSD.shape[1]), mix(weights_B1TS, value_B1SD).squeeze(1)

    def _sentinel(self, key_BSD: Tensor) -> Tensor:
        assert self.sentinel is not None
        return self.sentinel.to(key_BSD.dtype).expand(key_BSD.shape[0], 1, 1, -1)


@final
class Pointer(nn.Module):
    """An attention for copying alone, with q = tanh(W x) and k = V x, for models with many heads."""

    def __init__(self, copy: CopyName, width: int, positions: int):
        super().__init__()
        self.query, self.key = Linear(width, width), Linear(width, width)
        self.copier = Copier(copy, width, positions)
        self.score = ScaledDot()

    def forward(self, x_BTD: Tensor, key_BSD: Tensor, mask: Mask, look: Look | None) -> Tensor:
        """(B, T, S): the probability mass that is copied from each position."""
        query_BTD = torch.tanh(self.query(x_BTD))
        weights_B1TS = self.copier.weights(
            query_BTD, key_BSD, score=self.score, mask=mask, look=look, site="copy"
        )
        return self.copier.copied(weights_B1TS, key_BSD.shape[1])
