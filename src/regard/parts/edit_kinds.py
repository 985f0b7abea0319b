"""Edits of values along directions and between heads, and the registry of all edits by name.

Shape legend: B rows of a batch, H heads, T rows of a site, D features.
"""

from abc import ABC
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.parts.edits import (
    Edit,
    Mean,
    Move,
    Patch,
    Permute,
    Scale,
    Set,
    Shift,
    Silence,
    Uniform,
    Zero,
)
from regard.parts.look import Place


@final
@dataclass(frozen=True, kw_only=True)
class Swap(Edit):
    """Exchange the values of two heads, such as two senses of a word."""

    kinds = ("values",)

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        if self.heads is None or len(set(self.heads)) != 2:
            raise UserError("swap: name the two `heads` (or senses) that change places")
        first, second = self.heads
        swapped = tensor.clone()
        swapped[:, first], swapped[:, second] = tensor[:, second], tensor[:, first]
        return swapped


@dataclass(frozen=True, kw_only=True)
class Directed(Edit, ABC):
    """Edits along a direction in the space of the values."""

    direction: tuple[float, ...]
    kinds = ("values",)

    def unit(self, tensor: Tensor) -> Tensor:
        """Return the direction, with the length that it was given."""
        if len(self.direction) != tensor.shape[-1]:
            raise UserError(
                f"{self.site} has {tensor.shape[-1]} features; `direction` has {len(self.direction)}"
            )
        return tensor.new_tensor(self.direction)


@final
@dataclass(frozen=True, kw_only=True)
class Project(Directed):
    """Remove what values hold along a direction: v - (v . d) d / |d|^2."""

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        direction = self.unit(tensor)
        along = (tensor @ direction) / direction.dot(direction).clamp(min=torch.finfo(tensor.dtype).tiny)
        return tensor - along.unsqueeze(-1) * direction


@final
@dataclass(frozen=True, kw_only=True)
class Steer(Directed):
    """Add a direction, `by` times, to values."""

    by: float

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        return tensor + self.by * self.unit(tensor)


EDITS: dict[str, type[Edit]] = {
    kind.name(): kind
    for kind in (
        Set,
        Scale,
        Zero,
        Mean,
        Uniform,
        Permute,
        Move,
        Silence,
        Shift,
        Patch,
        Swap,
        Project,
        Steer,
    )
}
