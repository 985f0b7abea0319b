"""Edits: small changes at one site of a model. Each is a value that can be written down and made again to the bit.

Rows and columns are positions in the text that the model reads, `<s>` being 0. Heads are also a Backpack's senses and a cell's gates. An
axis without numbers means all of it. Weights stay weights: a row keeps its sum, and what it may not see stays hidden.

Shape legend: B rows of a batch, H heads, T rows, K columns, D features.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.parts.look import Change, Holds, Place

Seen = Callable[
    [str], Tensor
]  # of a text: what stands at the site when the same model reads it, without the batch axis
LARGEST = 1e30  # single precision overflows not far above


@dataclass(frozen=True, kw_only=True)
class Edit(ABC):
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
                    f"`{field.name}` cannot be {value!r}: the numbers of a model do not go so far"
                )

    def places(self) -> tuple[int, ...]:
        """The positions that the edit names."""
        return (*(self.rows or ()), *(self.columns or ()))

    def prepare(self, seen: Seen) -> Change:
        """The change itself. An edit that needs another text reads it here, once."""
        return self

    def __call__(self, tensor: Tensor, place: Place) -> Tensor:
        kind = place.holds
        if kind not in self.kinds:
            raise UserError(f"{self.name()} changes {' or '.join(self.kinds)}; {self.site} holds {kind}")
        chosen = self.chosen(tensor, place)
        changed = self.change(tensor, chosen, place)
        if kind == "weights":
            changed = torch.where(visible(tensor, place), changed, tensor)
        return torch.where(chosen.any(-1, keepdim=True) if kind == "weights" else chosen, changed, tensor)

    @abstractmethod
    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor: ...

    def chosen(self, tensor: Tensor, place: Place) -> Tensor:
        """True at the numbers that are changed."""
        chosen = torch.ones_like(tensor, dtype=torch.bool)
        if self.rows is not None:
            rows_BT = torch.isin(
                place.row_BT[:, : tensor.shape[-2]], tensor.new_tensor(self.rows, dtype=torch.long)
            )
            chosen &= (rows_BT if tensor.dim() == 3 else rows_BT.unsqueeze(1)).unsqueeze(-1)
        if self.heads is not None:
            if tensor.dim() != 4:
                raise UserError(f"{self.site} has no heads")
            chosen &= self._among(self.heads, tensor.shape[1], "heads", tensor).view(1, -1, 1, 1)
        if self.columns is not None:
            if place.column_BK is None:
                raise UserError(f"{self.site} has no columns: it holds values, not weights")
            columns_BK = torch.isin(place.column_BK, tensor.new_tensor(self.columns, dtype=torch.long))
            chosen &= widen(columns_BK, tensor.shape[3], False)[:, None, None]
        if self.features is not None:
            if place.column_BK is not None:
                raise UserError(f"{self.site} has no features: it holds weights")
            chosen &= self._among(self.features, tensor.shape[-1], "features", tensor)
        return chosen & visible(tensor, place)

    def _among(self, wanted: tuple[int, ...], size: int, what: str, like: Tensor) -> Tensor:
        for number in wanted:
            if not 0 <= number < size:
                raise UserError(f"{self.site} has {what} from 0 to {size - 1}; there is no {number}")
        return torch.isin(torch.arange(size, device=like.device), torch.tensor(wanted, device=like.device))

    @classmethod
    def name(cls) -> str:
        return cls.__name__.lower()

    @classmethod
    def fields(cls) -> list[str]:
        return [field.name for field in fields(cls)]


def widen(values_BK: Tensor, columns: int, filler: bool) -> Tensor:
    """The values with one more column if the tensor has one: the vocabulary, which is no position, of a copying model."""
    if columns == values_BK.shape[-1]:
        return values_BK
    return torch.cat([values_BK, torch.full_like(values_BK[..., :1], filler)], -1)


def visible(tensor: Tensor, place: Place) -> Tensor:
    if place.visible_BTK is None:
        return torch.ones_like(tensor, dtype=torch.bool)
    return widen(place.visible_BTK, tensor.shape[3], True).unsqueeze(1).expand_as(tensor)


def total(weights: Tensor) -> Tensor:
    return weights.sum(-1, keepdim=True)


def keep_sum(weights: Tensor, before: Tensor) -> Tensor:
    """The rows scaled so that they keep their sums, unless nothing is left of a row."""
    return weights * (total(before) / total(weights).clamp(min=torch.finfo(weights.dtype).tiny))


@final
@dataclass(frozen=True, kw_only=True)
class Set(Edit):
    """Set numbers to `value`; the other weights of a row share the rest in their old proportions."""

    value: float

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        if place.holds != "weights":
            return torch.full_like(tensor, self.value)
        fixed, others = (
            torch.zeros_like(tensor).masked_fill(chosen, self.value),
            torch.where(chosen, 0.0, tensor),
        )
        rest = total(tensor) - total(fixed)
        if self.value < 0 or bool((rest < -1e-6).any()):
            raise UserError(
                f"set {self.value:g} at {self.site} makes a row sum to more than 1, or less than 0: choose another value"
            )
        return fixed + others * (rest.clamp(min=0) / total(others).clamp(min=torch.finfo(tensor.dtype).tiny))


@final
@dataclass(frozen=True, kw_only=True)
class Scale(Edit):
    """Multiply numbers by `by`; rows of weights keep their sums."""

    by: float

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        scaled = torch.where(chosen, tensor * self.by, tensor)
        if place.holds != "weights":
            return scaled
        if self.by < 0:
            raise UserError(f"weights cannot be scaled by {self.by:g}: they would be below 0")
        return keep_sum(scaled, tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Zero(Edit):
    """Set numbers to 0; the other weights of a row grow so that it keeps its sum, unless nothing is left."""

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        zeroed = torch.where(chosen, 0.0, tensor)
        return keep_sum(zeroed, tensor) if place.holds == "weights" else zeroed


@final
@dataclass(frozen=True, kw_only=True)
class Silence(Edit):
    """Make heads look at nothing, so that they add 0."""

    kinds = ("weights",)

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        return torch.zeros_like(tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(Edit):
    """Give all columns that a row may see, or the named ones, the same weight; other columns keep theirs."""

    kinds = ("weights",)

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        mass = total(torch.where(chosen, tensor, 0.0))
        return torch.where(chosen, mass / total(chosen).clamp(min=1), tensor)


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

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        if not 0 <= self.share <= 1:
            raise UserError(f"move: the share is between 0 and 1, not {self.share:g}")
        assert place.column_BK is not None
        seen = visible(tensor, place)
        source, to = (
            widen(place.column_BK == column, tensor.shape[3], False)[:, None, None] & seen
            for column in (self.source, self.to)
        )
        both = source.any(-1, keepdim=True) & to.any(
            -1, keepdim=True
        )  # a row that sees only one of the two stays as it is
        moved = total(torch.where(source, tensor, 0.0)) * self.share
        return torch.where(both, torch.where(source, tensor * (1 - self.share), tensor) + to * moved, tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Permute(Edit):
    """Give the named columns the weights of the columns in `order`; rows that do not see all of them stay as they are."""

    order: tuple[int, ...]
    kinds = ("weights",)

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        if self.columns is None or sorted(self.columns) != sorted(self.order):
            raise UserError("permute: columns and order must name the same positions")
        assert place.column_BK is not None
        seen = visible(tensor, place)
        at = {
            column: widen(place.column_BK == column, tensor.shape[3], False)[:, None, None] & seen
            for column in self.columns
        }
        changed = tensor
        for column, taken in zip(self.columns, self.order, strict=True):
            changed = torch.where(at[column], total(torch.where(at[taken], tensor, 0.0)), changed)
        whole = torch.stack([mask.any(-1, keepdim=True) for mask in at.values()]).all(0)
        return torch.where(whole, changed, tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Shift(Edit):
    """Add `by` to scores before the softmax, or to values."""

    by: float
    kinds = ("scores", "values")

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        return tensor + self.by


@final
@dataclass(frozen=True, kw_only=True)
class Mean(Edit):
    """Replace weights by their average over heads, or values by their average over the positions of a text."""

    text: str = ""
    kinds = ("weights", "values")

    def prepare(self, seen: Seen) -> Change:
        if not self.text:
            return self
        average = seen(self.text).mean(-2, keepdim=True)

        def put(tensor: Tensor, place: Place) -> Tensor:
            if place.holds != "values":
                raise UserError(f"mean over a text is for values; {self.site} holds {place.holds}")
            return torch.where(self.chosen(tensor, place), average.to(tensor.dtype), tensor)

        return put

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        if place.holds == "values":
            raise UserError(
                f"mean at {self.site}: say over which text ('text'), its values are averaged over the positions of that"
            )
        return tensor.mean(1, keepdim=True).expand_as(tensor)


@final
@dataclass(frozen=True, kw_only=True)
class Patch(Edit):
    """Put in what stands at the site when the model reads another text, position by position."""

    text: str

    def prepare(self, seen: Seen) -> Change:
        other = seen(self.text)

        def patch(tensor: Tensor, place: Place) -> Tensor:
            chosen = self.chosen(tensor, place)
            row_BT = place.row_BT[:, : tensor.shape[-2]]
            wanted = row_BT if self.rows is None else row_BT[torch.isin(row_BT, row_BT.new_tensor(self.rows))]
            if len(wanted) and int(wanted.max()) >= other.shape[-2]:
                raise UserError(
                    f"patch at {self.site}: the other text has positions 0 to {other.shape[-2] - 1}, row {int(wanted.max())} is asked for"
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
            return torch.where(chosen, rows.to(tensor.dtype), tensor)

        return patch

    def change(self, tensor: Tensor, chosen: Tensor, place: Place) -> Tensor:
        raise AssertionError("a patch is prepared with its other text first")


EDITS: dict[str, type[Edit]] = {
    kind.name(): kind for kind in (Set, Scale, Zero, Mean, Uniform, Permute, Move, Silence, Shift, Patch)
}
