"""Small layers that several families share.

Shape legend: B rows, T positions, D width.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.parts.products import Linear, Product

ActivationName = Literal["gelu-tanh", "gelu", "relu", "silu"]
ACTIVATIONS: dict[ActivationName, Callable[[Tensor], Tensor]] = {
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
}


def weights_of(layer: nn.Module) -> tuple[Tensor, Tensor]:
    """Return the weight and the bias of a layer.

    nn.Module's search for an attribute takes as long as a small product, which matters for a single token.
    """
    own: Any = layer._parameters
    return own["weight"], own["bias"]


def layer_norm(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    """The result of the layer, without the call of a module."""
    return torch.layer_norm(x, layer.normalized_shape, *weights_of(layer), layer.eps)


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """Set a share of the features to zero in training (dropout)."""
    return F.dropout(x, share) if training and share else x


def drop_alike(x_BTD: Tensor, share: float, training: bool) -> Tensor:
    """Set the same features to zero at all positions of a row (Gal and Ghahramani 2016)."""
    return F.dropout1d(x_BTD.transpose(1, 2), share).transpose(1, 2) if training and share else x_BTD


@final
class FeedForward(nn.Module):
    """W2 f(W1 x). By default, W1 makes x four times as wide."""

    def __init__(self, width: int, dropout: float, activation: ActivationName, inner: int | None = None):
        super().__init__()
        self.up = Linear(width, inner or 4 * width)
        self.down = Linear(inner or 4 * width, width)
        self.activate = ACTIVATIONS[activation]
        self.dropout = dropout

    def without_dropout(self, x_BD: Tensor, product: Product) -> Tensor:
        """forward() in evaluation, with fewer calls of Python."""
        own: Any = self._modules
        return product(self.activate(product(x_BD, *weights_of(own["up"]))), *weights_of(own["down"]))

    def forward(self, x_BTD: Tensor) -> Tensor:
        return drop(self.down(self.activate(self.up(x_BTD))), self.dropout, self.training)
