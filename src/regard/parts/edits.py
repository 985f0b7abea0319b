"""Edits: changes of the weights, scores or values at a site of a model.

An edit is a value that can be saved and repeated; its result is the same to the bit. Rows and columns of an
edit are positions in the text, and `<s>` has position 0. Heads are also the senses of a Backpack and the
gates of a recurrent cell. An axis without numbers (None) is selected as a whole. Edited weights stay weights:
each row keeps its sum, and hidden columns stay hidden.

Shape legend: B rows of a batch, H heads, T rows of a site (positions), K columns, D features.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.parts.look import Change, Holds, Place

# Returns the tensor at the site, without the batch axis, while the same model reads another text.
ReadSite = Callable[[str], Tensor]
LARGEST = 1e30  # single precision overflows at 3e38, and an edit may multiply numbers


@dataclass(frozen=True, kw_only=True)
class Edit(ABC):
    """The base class of edits: the site, and the numbers that the edit selects there."""

    site: str
    heads: tuple[int, ...] | None = None
    rows: tuple[int, ...] | None = None
    columns: tuple[int, ...] | None = None
    features: tuple[int, ...] | None = None

    kinds: ClassVar[tuple[Holds, ...]] = ("weights", "scores", "values")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float | int) and abs(value) > LARGEST:
                raise UserError(
                    f"`{field.name}` cannot be {value!r}: give a number between -{LARGEST:g} and {LARGEST:g}"
                )

    def places(self) -> tuple[int, ...]:
        """Return the positions that the edit names."""
        return (*(self.rows or ()), *(self.columns or ()))

    def prepare(self, read_site: ReadSite) -> Change:
        """Return the function that changes the tensor. An edit that needs another text reads it here."""
        return self

    def __call__(self, tensor: Tensor, place: Place) -> Tensor:
        """Return the changed tensor. Other weights of a row may change as well, so that it keeps its sum."""
        kind = place.holds
        if kind not in self.kinds:
            raise UserError(f"{self.name()} changes {' or '.join(self.kinds)}; {self.site} holds {kind}")
        selected = self.selected(tensor, place)
        changed = self.change(tensor, selected, place)
        if kind == "weights":
            changed = torch.where(visible(tensor, place), changed, tensor)
        return torch.where(selected.any(-1, keepdim=True) if kind == "weights" else selected, changed, tensor)

    @abstractmethod
    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        """Return the changed tensor. `selected` is True at the numbers that the edit names."""

    def selected(self, tensor: Tensor, place: Place) -> Tensor:
        """Return a tensor that is True at the numbers that the edit names."""
        selected = torch.ones_like(tensor, dtype=torch.bool)
        if self.rows is not None:
            rows_BT = torch.isin(
                place.row_BT[:, : tensor.shape[-2]], tensor.new_tensor(self.rows, dtype=torch.long)
            )
            selected &= (rows_BT if tensor.dim() == 3 else rows_BT.unsqueeze(1)).unsqueeze(-1)
        if self.heads is not None:
            if tensor.dim() != 4:
                raise UserError(f"{self.site} has no heads")
            selected &= self._among(self.heads, tensor.shape[1], "heads", tensor).view(1, -1, 1, 1)
        if self.columns is not None:
            if place.column_BK is None:
                raise UserError(f"{self.site} has no columns: it holds values, not weights")
            columns_BK = torch.isin(place.column_BK, tensor.new_tensor(self.columns, dtype=torch.long))
            selected &= widen(columns_BK, tensor.shape[3], False)[:, None, None]
        if self.features is not None:
            if place.column_BK is not None:
                raise UserError(f"{self.site} has no features: it holds weights")
            selected &= self._among(self.features, tensor.shape[-1], "features", tensor)
        return selected & visible(tensor, place)

    def _among(self, numbers: tuple[int, ...], size: int, axis: str, like: Tensor) -> Tensor:
        """(size): True at the numbers, which must lie on the axis."""
        for number in numbers:
            if not 0 <= number < size:
                raise UserError(f"{self.site} has {axis} from 0 to {size - 1}; there is no {number}")
        return torch.isin(torch.arange(size, device=like.device), torch.tensor(numbers, device=like.device))

    @classmethod
    def name(cls) -> str:
        """Return the name of the edit in files and on the command line."""
        return cls.__name__.lower()

    @classmethod
    def fields(cls) -> list[str]:
        """Return the names of the edit's fields."""
        return [field.name for field in fields(cls)]


def widen(values_BK: Tensor, columns: int, filler: bool) -> Tensor:
    """Add a column of `filler` if the tensor has one more column than positions.

    The weights of a copying model have such a column, which stands for the vocabulary.
    """
    if columns == values_BK.shape[-1]:
        return values_BK
    return torch.cat([values_BK, torch.full_like(values_BK[..., :1], filler)], -1)


def visible(tensor: Tensor, place: Place) -> Tensor:
    """Return a tensor that is True where a row may attend to a column."""
    if place.visible_BTK is None:
        return torch.ones_like(tensor, dtype=torch.bool)
    return widen(place.visible_BTK, tensor.shape[3], True).unsqueeze(1).expand_as(tensor)


def total(weights: Tensor) -> Tensor:
    """Return the sum of each row."""
    return weights.sum(-1, keepdim=True)


def keep_sum(weights: Tensor, before: Tensor) -> Tensor:
    """Scale each row so that its sum is the sum before the edit. Rows of zeros stay zero."""
    return weights * (total(before) / total(weights).clamp(min=torch.finfo(weights.dtype).tiny))


@final
@dataclass(frozen=True, kw_only=True)
class Set(Edit):
    """Set numbers to `value`. The other weights of a row are scaled, so that the row keeps its sum."""

    value: float

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        if place.holds != "weights":
            return torch.full_like(tensor, self.value)
        fixed = torch.zeros_like(tensor).masked_fill(selected, self.value)
        others = torch.where(selected, 0.0, tensor)
        rest = total(tensor) - total(fixed)
        if self.value < 0 or bool((rest < -1e-6).any()):
            raise UserError(
                f"set {self.value:g} at {self.site} makes a row sum to more than 1, or less than 0: "
                "choose another value"
            )
        return fixed + others * (rest.clamp(min=0) / total(others).clamp(min=torch.finfo(tensor.dtype).tiny))


@final
@dataclass(frozen=True, kw_only=True)
class Scale(Edit):
    """Multiply numbers by `by`. Rows of weights keep their sums."""

    by: float

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        scaled = torch.where(selected, tensor * self.by, tensor)
        if place.holds != "weights":
            return scaled
        if self.by < 0:
            raise UserError(f"weights cannot be scaled by {self.by:g}: they would be below 0")
        return keep_sum(scaled, tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Zero(Edit):
    """Set numbers to 0. The other weights of a row are scaled, so that the row keeps its sum."""

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        zeroed = torch.where(selected, 0.0, tensor)
        return keep_sum(zeroed, tensor) if place.holds == "weights" else zeroed


@final
@dataclass(frozen=True, kw_only=True)
class Silence(Edit):
    """Set all weights of heads to 0, so that the heads add nothing."""

    kinds = ("weights",)

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        return torch.zeros_like(tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(Edit):
    """Give equal weights to all visible columns of a row, or to the named columns."""

    kinds = ("weights",)

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        mass = total(torch.where(selected, tensor, 0.0))
        return torch.where(selected, mass / total(selected).clamp(min=1), tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Move(Edit):
    """Move a share of a row's weight from the word at `source` to the word at `to`."""

    source: int
    to: int
    share: float = 1.0
    kinds = ("weights",)

    def places(self) -> tuple[int, ...]:
        return (*super().places(), self.source, self.to)

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        if not 0 <= self.share <= 1:
            raise UserError(f"move: the share must lie between 0 and 1, not {self.share:g}")
        assert place.column_BK is not None
        seen = visible(tensor, place)
        source, to = (
            widen(place.column_BK == column, tensor.shape[3], False)[:, None, None] & seen
            for column in (self.source, self.to)
        )
        # Rows that do not see both words stay the same.
        both = source.any(-1, keepdim=True) & to.any(-1, keepdim=True)
        moved = total(torch.where(source, tensor, 0.0)) * self.share
        return torch.where(both, torch.where(source, tensor * (1 - self.share), tensor) + to * moved, tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Permute(Edit):
    """Give the named columns the weights of the columns in `order`.

    Rows that do not see all of these columns stay the same.
    """

    order: tuple[int, ...]
    kinds = ("weights",)

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        if self.columns is None or sorted(self.columns) != sorted(self.order):
            raise UserError("permute: `columns` and `order` must name the same positions")
        assert place.column_BK is not None
        seen = visible(tensor, place)
        masks = {
            column: widen(place.column_BK == column, tensor.shape[3], False)[:, None, None] & seen
            for column in self.columns
        }
        changed = tensor
        for column, origin in zip(self.columns, self.order, strict=True):
            changed = torch.where(masks[column], total(torch.where(masks[origin], tensor, 0.0)), changed)
        sees_all = torch.stack([mask.any(-1, keepdim=True) for mask in masks.values()]).all(0)
        return torch.where(sees_all, changed, tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Shift(Edit):
    """Add `by` to scores before the softmax, or to values."""

    by: float
    kinds = ("scores", "values")

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        return tensor + self.by


@final
@dataclass(frozen=True, kw_only=True)
class Mean(Edit):
    """Replace weights by their average over heads, or values by their average over a text's positions."""

    text: str = ""
    kinds = ("weights", "values")

    def prepare(self, read_site: ReadSite) -> Change:
        if not self.text:
            return self
        average = read_site(self.text).mean(-2, keepdim=True)

        def replace(tensor: Tensor, place: Place) -> Tensor:
            if place.holds != "values":
                raise UserError(f"mean over a text is for values; {self.site} holds {place.holds}")
            return torch.where(self.selected(tensor, place), average.to(tensor.dtype), tensor)

        return replace

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        if place.holds == "values":
            raise UserError(
                f"mean at {self.site}: name the text over whose positions the values are averaged (`text`)"
            )
        return tensor.mean(1, keepdim=True).expand_as(tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Patch(Edit):
    """Replace numbers by those at the same site and position while the model reads another text."""

    text: str

    def prepare(self, read_site: ReadSite) -> Change:
        other = read_site(self.text)

        def patch(tensor: Tensor, place: Place) -> Tensor:
            selected = self.selected(tensor, place)
            row_BT = place.row_BT[:, : tensor.shape[-2]]
            rows = row_BT if self.rows is None else row_BT[torch.isin(row_BT, row_BT.new_tensor(self.rows))]
            if len(rows) and int(rows.max()) >= other.shape[-2]:
                raise UserError(
                    f"patch at {self.site}: the other text has positions 0 to {other.shape[-2] - 1}, "
                    f"but the edit needs position {int(rows.max())}"
                )
            row_BT = row_BT.clamp(0, other.shape[-2] - 1)
            rows = other[row_BT] if other.dim() == 2 else other[:, row_BT].transpose(0, 1)
            if place.column_BK is not None:
                columns = other.shape[-1] - (tensor.shape[3] - place.column_BK.shape[1])
                inside_BK = widen((place.column_BK >= 0) & (place.column_BK < columns), tensor.shape[3], True)
                index_BK = place.column_BK.clamp(0, columns - 1)
                if tensor.shape[3] > index_BK.shape[1]:
                    index_BK = torch.cat([index_BK, torch.full_like(index_BK[:, :1], columns)], 1)
                rows = (
                    rows.gather(3, index_BK[:, None, None].expand(*rows.shape[:3], -1))
                    * inside_BK[:, None, None]
                )
            return torch.where(selected, rows.to(tensor.dtype), tensor)

        return patch

    def change(self, tensor: Tensor, selected: Tensor, place: Place) -> Tensor:
        raise AssertionError("prepare() returns the change of a patch")


EDITS: dict[str, type[Edit]] = {
    kind.name(): kind for kind in (Set, Scale, Zero, Mean, Uniform, Permute, Move, Silence, Shift, Patch)
}
