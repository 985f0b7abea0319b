"""Sense vectors C(x)_l of a word x, and their weighted sum.

    o_i = sum over positions j and senses l of alpha_{l,i,j} C(x_j)_l         (Hewitt et al. 2023, equation 3)

Shape legend: B rows, L senses, Q positions that predict, K positions that are read, D width, M inner width.
"""

import math
from typing import final

import torch.nn.functional as F
from torch import Tensor, nn

from regard.parts.layers import FeedForward
from regard.parts.products import Linear


def sum_senses(weights_BLQK: Tensor, senses_BLKD: Tensor) -> Tensor:
    """(B, Q, D): the weighted sum over positions and senses, as one product of (Q, L K) and (L K, D).

    >>> import torch
    >>> sum_senses(torch.tensor([[[[0.5, 2.0]]]]), torch.tensor([[[[1.0, 0.0], [0.0, 3.0]]]])).tolist()
    [[[0.5, 6.0]]]
    """
    return weights_BLQK.transpose(1, 2).flatten(2) @ senses_BLKD.flatten(1, 2)


def topic_evidence(senses_KLD: Tensor, topics: int) -> tuple[Tensor, Tensor]:
    """(K, L) twice: the evidence of the other words for each sense of a word, as in the lecture's Backpack.

    The last `topics` components of a word's summed senses are its topic vector t. Sense l is weighted by
    topic l. The first result normalises each word, then sums over the other words r: sum_r t_r / |t_r|. The
    second result sums first and then normalises: sum_r t_r / |sum_r t_r|. (|t| is the sum of the components
    of t.) A word whose topic vector is zero adds nothing.
    """
    topic_KL = senses_KLD.sum(1)[:, -topics:]
    share_KL = topic_KL / topic_KL.sum(1, keepdim=True).clamp(min=1e-300)
    summed_KL = topic_KL.sum(0) - topic_KL
    return share_KL.sum(0) - share_KL, summed_KL / summed_KL.sum(1, keepdim=True).clamp(min=1e-300)


@final
class SenseNetwork(nn.Module):
    """C(x): maps the embedding of a word, without its position, to the sense vectors of the word.

    The network has no dropout. No non-linear layer follows the senses that could average the noise of
    dropout, so a network that was trained with dropout would predict badly without it.
    """

    def __init__(self, width: int, senses: int):
        super().__init__()
        self.senses = senses
        self.in_norm, self.out_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = FeedForward(width, 0.0, "gelu-tanh")
        self.up = Linear(width, 4 * width)
        self.down = Linear(4 * width, senses * width)
        for linear in (self.feed.up, self.feed.down, self.up, self.down):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        nn.init.normal_(self.down.weight, std=1 / math.sqrt(4 * width))

    def forward(self, embedded_BKD: Tensor) -> Tensor:
        """(B, L, K, D): the sense vectors."""
        x_BKD = self.out_norm(embedded_BKD + self.feed(self.in_norm(embedded_BKD)))
        senses = self.down(F.gelu(self.up(x_BKD)))
        return senses.unflatten(2, (self.senses, -1)).transpose(1, 2)
