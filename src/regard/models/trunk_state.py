"""The KV cache of a trunk (trunk.py).

Shape legend: B rows, G heads of keys and values, S slots, E head width.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from regard.models.contract import State
from regard.parts.slots import fixed_size, shortened


@dataclass(frozen=True)
class TrunkState(State):
    """The KV cache. Slot p of a buffer holds the key or value of the token at position p (parts/slots.py)."""

    fills_front: ClassVar[bool] = False

    keys: tuple[Tensor, ...]  # a buffer for each layer: (B, G, S, E)
    values: tuple[Tensor, ...]
    fixed: bool = False  # True: the buffers have a fixed size

    def trimmed(self) -> Self:
        filled = int(self.position_B.max())
        return self._with_buffers(lambda buffer: shortened(buffer, filled, 2), fixed=False)

    def with_room(self, room: int) -> Self:
        """Return the state with buffers of a fixed size, for `room` tokens in all.

        Slots after a row's last token may hold old values. The mask hides them, and later tokens of the row
        overwrite them.
        """
        return self._with_buffers(lambda buffer: fixed_size(buffer, room, 2), fixed=True)

    def next_window(self) -> Self:
        """Return an empty state, because a window remembers nothing of the window before it."""
        position_B = torch.zeros_like(self.position_B)
        if self.fixed:
            return replace(self, position_B=position_B)
        emptied = self._with_buffers(lambda buffer: shortened(buffer, 0, 2), fixed=False)
        return replace(emptied, position_B=position_B)

    def _with_buffers(self, change: Callable[[Tensor], Tensor], fixed: bool) -> Self:
        keys, values = (tuple(map(change, buffers)) for buffers in (self.keys, self.values))
        return replace(self, keys=keys, values=values, fixed=fixed)
