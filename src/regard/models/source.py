"""States that begin with a source sentence: `state = model.begin(source)`. Everything else is the contract of all language models.

    P(y_{t+1} | y_1..y_t, source)

Shape legend: B rows, S source positions, T target positions.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from regard.models.contract import State
from regard.parts.masks import Mask, padding


@dataclass(frozen=True)
class SourceState(State):
    """A state that holds a source sentence. The beams of one sentence share it: there is one source row for each group of equal rows."""

    source_BS: Tensor  # 1 + the position of each source token, 0 for padding
    memory: tuple[Tensor, ...]  # what the encoder made of the source, as many rows as source_BS

    @property
    def beams(self) -> int:
        """How many rows go on from each source."""
        return len(self.position_B) // len(self.source_BS)

    def pick(self, rows: Tensor) -> Self:
        """These rows. A source is kept once if the rows stand in equal groups of one source each."""
        sentence = rows // self.beams
        kept, counts = sentence.unique_consecutive(return_counts=True)
        kept = kept if bool((counts == counts[0]).all()) else sentence
        same = len(kept) == len(self.source_BS) and bool(
            (kept == torch.arange(len(kept), device=kept.device)).all()
        )
        parts: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("source_BS", "memory"):
                parts[field.name] = value if same else _pick(value, kept)
            else:
                parts[field.name] = _pick(value, rows)
        return type(self)(**parts)

    def trimmed(self) -> Self:
        """One source row for each row, as `join` needs it."""
        rows = torch.arange(len(self.position_B), device=self.position_B.device) // self.beams
        return dataclasses.replace(
            self, source_BS=_pick(self.source_BS, rows), memory=_pick(self.memory, rows)
        )


def _pick(value: Any, rows: Tensor) -> Any:
    if isinstance(value, State):
        return value.pick(rows)
    if isinstance(value, tuple):
        return tuple(_pick(item, rows) for item in value)
    return value.index_select(0, rows) if isinstance(value, Tensor) else value


def source_mask(position_BT: Tensor, state: SourceState) -> Mask:
    """All of the source but its padding may be seen. The beams of a sentence are queries beside each other."""
    query = position_BT.reshape(len(state.source_BS), -1)
    return padding.over(query, state.source_BS - 1)


def check_source(given: int | Tensor) -> Tensor:
    if isinstance(given, int):
        raise ValueError("this model's state begins with source sentences: state = model.begin(source_BS)")
    return given
