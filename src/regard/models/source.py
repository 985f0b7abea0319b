"""States that begin with a source sentence or with an image: `state = model.begin(given)`.

    P(y_{t+1} | y_1..y_t, given)

The rest of the contract is the same for all language models.

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
    """A state that holds the encoded source sentences, or the regions of images.

    The hypotheses of a beam share one source. `source_BS` and `memory` then have fewer rows than the
    rest of the state: row i of the state belongs to source row i // beams.
    """

    source_BS: Tensor  # 1 + the position of each source token or region, 0 for padding
    memory: tuple[Tensor, ...]  # the output of the encoder, in as many rows as source_BS

    @property
    def beams(self) -> int:
        """The number of rows for each source."""
        return len(self.position_B) // len(self.source_BS)

    def pick(self, rows: Tensor) -> Self:
        """Return these rows. A source is stored once if every source has the same number of adjacent rows."""
        sources = rows // self.beams
        distinct, counts = sources.unique_consecutive(return_counts=True)
        sources = distinct if bool((counts == counts[0]).all()) else sources
        same = len(sources) == len(self.source_BS) and bool(
            (sources == torch.arange(len(sources), device=sources.device)).all()
        )
        parts: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("source_BS", "memory"):
                parts[field.name] = value if same else _pick(value, sources)
            else:
                parts[field.name] = _pick(value, rows)
        return type(self)(**parts)

    def trimmed(self) -> Self:
        """Return the state with a source row for every row, because `join` needs equal numbers of rows."""
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
    """Return the mask that hides the padding of the source.

    The rows of one source are attended together, as the queries of a single row.
    """
    query = position_BT.reshape(len(state.source_BS), -1)
    return padding.over(query, state.source_BS - 1)


def check_given(given: int | Tensor) -> Tensor:
    """Return what the state begins with, or raise an error for a number of rows."""
    if isinstance(given, int):
        raise ValueError("this model needs what its state begins with: state = model.begin(given)")
    return given
