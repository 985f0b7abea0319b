"""Buffers whose slot p holds the value of the token at position p: the KV cache, senses, words to copy.

Padding takes no slot. Rows of different lengths share a buffer, and each row fills it from slot 0.

Shape legend: B rows, T positions of a call, S slots that a call sees.
"""

import math
from dataclasses import dataclass, field
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor


@final
@dataclass(frozen=True)
class Slots:
    """The slots that the tokens of one call are written to, and the slots that the call sees."""

    position_BT: Tensor  # -1 for padding
    seen: int  # the call sees slots 0 to seen - 1
    first: int | None  # the slot of the first token in every row; None if rows differ or have padding
    # True: the buffers have a fixed size. Writing then changes no shape, and no tensor is read on the host.
    fixed: bool = False
    # The places of the new values in a buffer, by the number of its rows of slots. All layers share them.
    _places: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def columns_1S(self) -> Tensor:
        """(1, S): the position of each slot."""
        return torch.arange(self.seen, device=self.position_BT.device).unsqueeze(0)

    def filled_columns(self) -> Tensor:
        """(B, S): the position of each slot, or -1 if the slot is empty after the call."""
        end_B1 = self.position_BT.amax(1, keepdim=True)
        columns_BS = self.columns_1S.expand(self.position_BT.shape[0], -1)
        return columns_BS if self.first is not None else torch.where(columns_BS <= end_B1, columns_BS, -1)

    def write(self, buffer: Tensor, new: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """Write the values `new` into a buffer. Return the new buffer, and the part of it that the call sees.

        `dim` is the axis of slots in `buffer`, and of positions in `new`. A buffer without room is doubled.
        In a call without gradients, the values are written into the old buffer, which becomes invalid.
        """
        if self.fixed:
            self._write_fixed(buffer, new, dim)
            return buffer, buffer.narrow(dim, 0, self.seen)
        if self.first == 0:
            return new, new
        if self.first is None:
            buffer = self._write_ragged(buffer, new, dim)
        elif torch.is_grad_enabled():  # the backward pass needs the old buffer unchanged
            buffer = torch.cat([buffer.narrow(dim, 0, self.first), new], dim)
        else:
            if buffer.shape[dim] < self.seen:
                buffer = _lengthened(buffer.narrow(dim, 0, self.first), 2 * self.seen, dim)
            buffer.narrow(dim, self.first, new.shape[dim]).copy_(new)
        return buffer, buffer.narrow(dim, 0, self.seen)

    def _write_fixed(self, buffer: Tensor, new: Tensor, dim: int) -> None:
        """Write one value in each row."""
        if self.first is not None:
            buffer.narrow(dim, self.first, 1).copy_(new)
            return
        if buffer.is_cuda or torch.compiler.is_compiling():
            # A compiler performs this assignment in place. For a scatter, it would copy the whole buffer.
            row_B, slot_B = torch.arange(buffer.shape[0], device=buffer.device), self.position_BT[:, 0]
            buffer.transpose(1, dim)[row_B, slot_B] = new.select(dim, 0)
            return
        rows = math.prod(buffer.shape[:dim])
        if rows not in self._places:
            slot_R = self.position_BT.expand(-1, rows // len(buffer)).flatten()
            self._places[rows] = slot_R + torch.arange(rows) * buffer.shape[dim]
        flat = buffer.view(-1, *buffer.shape[dim + 1 :])
        flat.index_copy_(0, self._places[rows], new.flatten(0, dim))

    def _write_ragged(self, buffer: Tensor, new: Tensor, dim: int) -> Tensor:
        """Write rows that begin at different slots. Padding goes to an extra slot after the seen ones."""
        missing = self.seen + 1 - buffer.shape[dim]
        if missing > 0:
            buffer = _lengthened(buffer, self.seen + 1, dim)
        slot_BT = torch.where(self.position_BT >= 0, self.position_BT, self.seen)
        index = _index_for(new, slot_BT, dim)
        if torch.is_grad_enabled():
            return buffer.scatter(dim, index, new)
        return buffer.scatter_(dim, index, new)


def remember(
    key: Tensor, value: Tensor, cache: tuple[Tensor, Tensor], slots: Slots
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Write keys and values into a KV cache. Return both buffers, and the part of each that the call sees."""
    keys, seen_key = slots.write(cache[0], key, 2)
    values, seen_value = slots.write(cache[1], value, 2)
    return keys, values, seen_key, seen_value


def _index_for(new: Tensor, slot_BT: Tensor, dim: int) -> Tensor:
    """Expand the slots to the shape of `new`, whose axis `dim` holds the T positions, for a scatter."""
    shape = [len(slot_BT), *[1] * (new.dim() - 1)]
    shape[dim] = slot_BT.shape[1]
    return slot_BT.view(shape).expand_as(new)


def _lengthened(buffer: Tensor, size: int, dim: int) -> Tensor:
    """Return a copy of a buffer with `size` slots. The new slots hold zeros."""
    return F.pad(buffer, [0, 0] * (buffer.dim() - 1 - dim) + [0, size - buffer.shape[dim]])


def shortened(buffer: Tensor, slots: int, dim: int) -> Tensor:
    """Return a view of the first slots of a buffer, or of all if there are fewer."""
    return buffer.narrow(dim, 0, min(slots, buffer.shape[dim]))


def fixed_size(buffer: Tensor, slots: int, dim: int) -> Tensor:
    """Return a buffer with exactly `slots` slots: a copy, unless the buffer has this size already."""
    if buffer.shape[dim] == slots and buffer.is_contiguous():
        return buffer
    return _lengthened(shortened(buffer, slots, dim), slots, dim).contiguous()
