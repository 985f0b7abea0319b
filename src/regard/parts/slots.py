"""Memories whose slot p holds what a row read at position p: the KV cache, senses, words that can be copied.

Padding takes no slot, so rows of different lengths share a buffer and each of them fills it from slot 0 on.

Shape legend: B rows, T positions of a call, S slots that a call sees.
"""

from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor


@final
@dataclass(frozen=True)
class Slots:
    """The slots of one call: where its tokens go, and which slots it sees."""

    position_BT: Tensor  # -1 for padding
    seen: int  # the call sees the slots from 0 to seen - 1
    first: int | None  # the slot of the first token in every row; None if rows differ or have padding
    fixed: bool = False  # buffers have their final size: writing changes no shape and asks the host nothing

    @property
    def columns_1S(self) -> Tensor:
        """The position that each slot stands for."""
        return torch.arange(self.seen, device=self.position_BT.device).unsqueeze(0)

    def filled_columns(self) -> Tensor:
        """(B, S): the position of each slot, -1 if the slot is empty after the call."""
        end_B1 = self.position_BT.amax(1, keepdim=True)
        columns_BS = self.columns_1S.expand(len(self.position_BT), -1)
        return columns_BS if self.first is not None else torch.where(columns_BS <= end_B1, columns_BS, -1)

    def write(self, buffer: Tensor, new: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """(the buffer to keep, the slots that the call sees). `dim` is the axis of slots in `buffer` and of positions in `new`.

        A buffer without room is doubled. Without gradients the new values are written into the old buffer, so the old state is used up.
        """
        if (
            self.fixed
        ):  # as an assignment, a compiler writes it in place, where it copies the whole buffer for a scatter
            row_B, slot_B = torch.arange(len(buffer), device=buffer.device), self.position_BT[:, 0]
            buffer.transpose(1, dim)[row_B, slot_B] = new.select(dim, 0)
            return buffer, buffer.narrow(dim, 0, self.seen)
        if self.first == 0:
            return new, new
        if self.first is None:
            kept = self._write_ragged(buffer, new, dim)
        elif torch.is_grad_enabled():  # the backward pass needs the old buffer as it is
            kept = torch.cat([buffer.narrow(dim, 0, self.first), new], dim)
        else:
            kept = buffer
            if buffer.shape[dim] < self.seen:
                kept = _longer(buffer.narrow(dim, 0, self.first), 2 * self.seen, dim)
            kept.narrow(dim, self.first, new.shape[dim]).copy_(new)
        return kept, kept.narrow(dim, 0, self.seen)

    def _write_ragged(self, buffer: Tensor, new: Tensor, dim: int) -> Tensor:
        """Padding is written into one slot more, behind those that are seen."""
        missing = self.seen + 1 - buffer.shape[dim]
        if missing > 0:
            buffer = _longer(buffer, self.seen + 1, dim)
        place_BT = torch.where(self.position_BT >= 0, self.position_BT, self.seen)
        index = _along(place_BT, new, dim)
        return (
            buffer.scatter(dim, index, new) if torch.is_grad_enabled() else buffer.scatter_(dim, index, new)
        )


def remember(
    key: Tensor, value: Tensor, cache: tuple[Tensor, Tensor], slots: Slots
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """New keys and values among the old ones: (two buffers to keep, the slots of both that the call sees)."""
    keys, seen_key = slots.write(cache[0], key, 2)
    values, seen_value = slots.write(cache[1], value, 2)
    return keys, values, seen_key, seen_value


def _along(place_BT: Tensor, new: Tensor, dim: int) -> Tensor:
    """The places as an index into `new`, whose axis `dim` has the T positions."""
    shape = [len(place_BT), *[1] * (new.dim() - 1)]
    shape[dim] = place_BT.shape[1]
    return place_BT.view(shape).expand_as(new)


def _longer(buffer: Tensor, size: int, dim: int) -> Tensor:
    """A copy of a buffer with so many slots; the new ones hold zeros."""
    return F.pad(buffer, [0, 0] * (buffer.dim() - 1 - dim) + [0, size - buffer.shape[dim]])


def shortened(buffer: Tensor, slots: int, dim: int) -> Tensor:
    return buffer.narrow(dim, 0, min(slots, buffer.shape[dim]))


def fixed_size(buffer: Tensor, slots: int, dim: int) -> Tensor:
    """A copy of a buffer with exactly so many slots."""
    return _longer(shortened(buffer, slots, dim), slots, dim).contiguous()
