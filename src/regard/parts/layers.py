"""Small layers that several families share.

Shape legend: B rows, T positions, D width.
"""

from typing import final

import torch.nn.functional as F
from torch import Tensor, nn


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """Set a share of the features to zero in training (dropout)."""
    return F.dropout(x, share) if training and share else x


def drop_alike(x_BTD: Tensor, share: float, training: bool) -> Tensor:
    """Set the same features to zero at all positions of a row (Gal and Ghahramani 2016)."""
    return F.dropout1d(x_BTD.transpose(1, 2), share).transpose(1, 2) if training and share else x_BTD


@final
class FeedForward(nn.Module):
    """W2 f(W1 x). The inner layer is four times as wide; f is GELU (its tanh form, as in GPT-2) or ReLU."""

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
