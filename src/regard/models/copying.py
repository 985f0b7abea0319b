"""Copying: one softmax says which earlier word comes again, and whether one does at all.

    average  P(w) = 1/2 P_vocabulary(w) + 1/2 sum over earlier j with w_j = w of a_j
    gate     a learned sentinel stands beside the earlier words in the same softmax; the weight on it is the gate g:
             P(w) = g P_vocabulary(w) + sum over earlier j with w_j = w of a_j            (Merity et al. 2017, equations 5 to 8)

Shape legend: B rows, T positions, S positions that can be copied from, D width.
"""

import math
from typing import Literal, final

import torch
from torch import Tensor, nn

from regard.parts.attention import Normaliser, beside, softmax, weigh
from regard.parts.look import Look
from regard.parts.masks import Mask
from regard.parts.scores import ScaledDot, Score

CopyName = Literal["none", "average", "gate"]


@final
class Copier(nn.Module):
    """Attention whose weights are also probabilities of copying."""

    def __init__(self, copy: CopyName, width: int, positions: int):
        super().__init__()
        self.sentinel = nn.Parameter(torch.randn(width) / math.sqrt(width)) if copy == "gate" else None
        # beside so many positions of like scores the gate starts at 0.9: the vocabulary is learned first
        self.offset = nn.Parameter(torch.tensor(math.log(9 * positions))) if copy == "gate" else None

    def forward(
        self, query_BTD: Tensor, key_BSD: Tensor, *, score: Score, mask: Mask, look: Look | None, site: str
    ) -> tuple[Tensor, Tensor]:
        """(copied_BTS, mixed_BTD): the mass copied from each position, and the average of the keys by the same weights."""
        query_B1TD, value_B1SD = query_BTD.unsqueeze(1), key_BSD.unsqueeze(1)
        normalise: Normaliser = softmax
        if self.sentinel is not None and self.offset is not None:
            sentinel_B11D = self.sentinel.to(key_BSD.dtype).expand(len(key_BSD), 1, 1, -1)
            normalise = beside(score(query_B1TD, sentinel_B11D) + self.offset)
            value_B1SD = torch.cat([value_B1SD, sentinel_B11D], 2)
        weights_B1TS = weigh(query_B1TD, key_BSD.unsqueeze(1), score=score, mask=mask, normalise=normalise, look=look, site=site)
        copied_BTS = weights_B1TS.squeeze(1)[:, :, : key_BSD.shape[1]]
        mixed_BTD = (weights_B1TS.to(value_B1SD.dtype) @ value_B1SD).squeeze(1)
        return copied_BTS / 2 if self.sentinel is None else copied_BTS, mixed_BTD


@final
class Pointer(nn.Module):
    """One more attention, for models whose own have many heads: q = tanh(W x), k = V x."""

    def __init__(self, copy: CopyName, width: int, positions: int):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.copier = Copier(copy, width, positions)
        self.score = ScaledDot()

    def forward(self, x_BTD: Tensor, key_BSD: Tensor, mask: Mask, look: Look | None) -> Tensor:
        """(B, T, S): the mass copied from each position."""
        return self.copier(torch.tanh(self.query(x_BTD)), key_BSD, score=self.score, mask=mask, look=look, site="copy")[0]
