"""Small layers that several families share.

Shape legend: B rows, T positions, D width.
"""

from typing import final

import torch.nn.functional as F
from torch import Tensor, nn


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """Leave out a share of the features while training; otherwise cost nothing."""
    return F.dropout(x, share) if training and share else x


def drop_alike(x_BTD: Tensor, share: float, training: bool) -> Tensor:
    """Leave out the same features at every position of a row (variational dropout, Gal & Ghahramani 2016)."""
    return F.dropout1d(x_BTD.transpose(1, 2), share).transpose(1, 2) if training and share else x_BTD


@final
class FeedForward(nn.Module):
    """W2 f(W1 x), four times as wide inside; f is GELU (by tanh, as in GPT-2), or ReLU as published in 2017."""

    def __init__(self, width: int, dropout: float, relu: bool = False):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = dropout
        self.relu = relu

    def forward(self, x_BTD: Tensor) -> Tensor:
        inner = self.up(x_BTD)
        return drop(
            self.down(F.relu(inner) if self.relu else F.gelu(inner, approximate="tanh")),
            self.dropout,
            self.training,
        )
