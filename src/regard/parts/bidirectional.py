"""Recurrent layers in both directions: the state of a word knows the words before it and after it.

    forward_i = f(x_i, forward_{i-1}),   backward_i = f(x_i, backward_{i+1}),   h_i = [forward_i; backward_i]

The layers are those of PyTorch's bidirectional kernels, with the two directions apart, so that gates and
cells of each direction can be watched and changed.

Shape legend: B rows, T positions, D width.
"""

from typing import Any, final

import torch
from torch import Tensor, nn

from regard.parts.layers import drop_alike
from regard.parts.look import Look, Site
from regard.parts.recurrence import CellName, Packed, Recurrence

DIRECTIONS = ("forward", "backward")


@final
class Bidirectional(nn.Module):
    """A stack of layers with two directions. Each direction has half of the features."""

    def __init__(self, cell: CellName, layers: int, width: int, dropout: float):
        super().__init__()
        self.dropout = dropout
        options: Any = (cell, 1, width // 2, 0.0, 0.0)
        self.ahead, self.back = (
            nn.ModuleList(Recurrence(*options, inputs=width, first=layer) for layer in range(layers))
            for _ in DIRECTIONS
        )

    def sites(self) -> dict[str, Site]:
        """Return the sites of both directions, such as forward.layer0.hidden."""
        sites = dict[str, Site]()
        for way, layers in zip(DIRECTIONS, (self.ahead, self.back), strict=True):
            for layer in layers:
                assert isinstance(layer, Recurrence)
                within = (site.within(f"{way}.") for site in layer.sites().values())
                sites |= {site.name: site for site in within}
        return sites

    def forward(self, x_BTD: Tensor, packed: Packed, look: Look | None) -> Tensor:
        """(B, T, D): the states of the last layer. Padding stands on the right of the rows."""
        length_B1 = packed.length_B.unsqueeze(1)
        place_BT = torch.arange(x_BTD.shape[1], device=x_BTD.device).expand(len(x_BTD), -1)
        back_BT = torch.where(place_BT < length_B1, length_B1 - 1 - place_BT, place_BT)
        for number, (ahead, back) in enumerate(zip(self.ahead, self.back, strict=True)):
            assert isinstance(ahead, Recurrence)
            assert isinstance(back, Recurrence)
            x_BTD = drop_alike(x_BTD, self.dropout, self.training) if number else x_BTD
            inner = _looks(look, place_BT, back_BT)
            ahead_BTD, _, _ = ahead(x_BTD, *ahead.begin(len(x_BTD)), packed, inner[0])
            turned_BTD = _in_order(x_BTD, back_BT)
            back_BTD, _, _ = back(turned_BTD, *back.begin(len(x_BTD)), packed, inner[1])
            if inner[1] is not None:
                inner[1].arrange(back.sites(), lambda values: _in_order(values, back_BT))
            x_BTD = torch.cat([ahead_BTD, _in_order(back_BTD, back_BT)], 2)
        return x_BTD


def _looks(look: Look | None, *positions: Tensor) -> tuple[Look | None, ...]:
    """Return the looks of the two directions, each with the positions of its rows."""
    if look is None:
        return None, None
    inner = tuple(look.within(f"{way}.") for way in DIRECTIONS)
    for each, position_BT in zip(inner, positions, strict=True):
        each.begin(position_BT)
    return inner


def _in_order(values: Tensor, order_BT: Tensor) -> Tensor:
    """Return values (B, T, D) or (B, G, T, D) in another order of positions. The order is its own inverse."""
    index = order_BT.unsqueeze(-1) if values.dim() == 3 else order_BT[:, None, :, None]
    return values.gather(-2, index.expand_as(values))
