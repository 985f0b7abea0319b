"""Sense vectors: what a word can mean, whatever stands around it; and the sum that joins them.

    o_i = sum over positions j and senses l of alpha_{l,i,j} C(x_j)_l                                (Hewitt et al. 2023, equation 3)

Shape legend: B rows, L senses, Q positions that predict, K positions that are read, D width, M inner width.
"""

import math
from typing import final

import torch.nn.functional as F
from torch import Tensor, nn

from regard.parts.layers import FeedForward


def weave(weights_BLQK: Tensor, senses_BLKD: Tensor) -> Tensor:
    """(B, Q, D): the sum over positions and senses, for any non-negative weights, as one product of (Q, L K) and (L K, D).

    >>> import torch
    >>> weave(torch.tensor([[[[0.5, 2.0]]]]), torch.tensor([[[[1.0, 0.0], [0.0, 3.0]]]])).tolist()
    [[[0.5, 6.0]]]
    """
    return weights_BLQK.transpose(1, 2).flatten(2) @ senses_BLKD.flatten(1, 2)


def topic_evidence(senses_KLD: Tensor, topics: int) -> tuple[Tensor, Tensor]:
    """(evidence_KL, query_KL): what the other words say for each sense of a word, as the lecture's small Backpack weighs.

    The last `topics` components of a word's senses, summed, are its evidence for each topic; sense l is weighed by topic l.
    evidence: sum over the others r of C(x_r)_l / sum_m C(x_r)_m;  query: the same summed first, then normalised. A word that says nothing
    of topics adds nothing.
    """
    topic_KL = senses_KLD.sum(1)[:, -topics:]
    share_KL = topic_KL / topic_KL.sum(1, keepdim=True).clamp(min=1e-300)
    summed_KL = topic_KL.sum(0) - topic_KL
    return share_KL.sum(0) - share_KL, summed_KL / summed_KL.sum(1, keepdim=True).clamp(min=1e-300)


@final
class SenseNetwork(nn.Module):
    """C(x): a word's embedding alone, without its position, to its sense vectors.

    Without dropout: nothing non-linear follows to average it out, and what is then learned does not hold once it is gone.
    """

    def __init__(self, width: int, senses: int):
        super().__init__()
        self.senses = senses
        self.in_norm, self.out_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = FeedForward(width, 0.0)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, senses * width)
        for linear in (self.feed.up, self.feed.down, self.up, self.down):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        nn.init.normal_(self.down.weight, std=1 / math.sqrt(4 * width))

    def forward(self, embedded_BKD: Tensor) -> Tensor:
        """(B, L, K, D)"""
        x_BKD = self.out_norm(embedded_BKD + self.feed(self.in_norm(embedded_BKD)))
        senses = self.down(F.gelu(self.up(x_BKD)))
        return senses.unflatten(2, (self.senses, -1)).transpose(1, 2)
