"""Small layers that several families share.

Shape legend: B rows, T positions, D width.
"""

from typing import Literal, final

import torch.nn.functional as F
from torch import Tensor, nn

ActivationName = Literal["gelu", "relu", "relu-squared", "swiglu"]
NormName = Literal["layer", "rms"]


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """Leave out a share of the features while training; otherwise cost nothing."""
    return F.dropout(x, share) if training and share else x


def drop_alike(x_BTD: Tensor, share: float, training: bool) -> Tensor:
    """Leave out the same features at every position of a row (variational dropout, Gal & Ghahramani 2016)."""
    return F.dropout1d(x_BTD.transpose(1, 2), share).transpose(1, 2) if training and share else x_BTD


@final
class FeedForward(nn.Module):
    """W2 f(W1 x), four times as wide inside; f is GELU (by tanh, as in GPT-2), ReLU as published in 2017, or ReLU squared (So et al. 2021).

    SwiGLU is W2 (silu(W1 x) * V x), 8/3 times as wide inside: as many weights (Shazeer 2020).
    """

    def __init__(self, width: int, dropout: float, activation: ActivationName = "gelu"):
        super().__init__()
        self.gated = activation == "swiglu"
        inner = round(8 * width / 3) if self.gated else 4 * width
        self.up = nn.Linear(width, 2 * inner if self.gated else inner)
        self.down = nn.Linear(inner, width)
        self.dropout = dropout
        self.activation = activation

    def forward(self, x_BTD: Tensor) -> Tensor:
        return drop(self.down(self._activated(self.up(x_BTD))), self.dropout, self.training)

    def _activated(self, inner: Tensor) -> Tensor:
        match self.activation:
            case "gelu":
                return F.gelu(inner, approximate="tanh")
            case "relu":
                return F.relu(inner)
            case "relu-squared":
                return F.relu(inner).square()
            case "swiglu":
                gate, value = inner.chunk(2, -1)
                return F.silu(gate) * value


def make_norm(kind: NormName, width: int) -> nn.Module:
    return nn.LayerNorm(width) if kind == "layer" else nn.RMSNorm(width, eps=1e-5)
