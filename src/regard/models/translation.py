"""A translator is a language model whose state begins with a source: `state = model.read(source)`. No state is an error.

Everything else is the contract: P(y_{t+1} | y_1..y_t, source). The trainer, the losses, the decoders and looking are those of all models.

Shape legend: B rows, S source positions, T target positions, H heads, E head width, D width.
"""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, State
from regard.parts.attention import attend
from regard.parts.layers import drop
from regard.parts.look import Look
from regard.parts.masks import Mask, padding
from regard.parts.scores import ScaledDot


@dataclass(frozen=True)
class TranslatorState(State):
    """`memory` is what was made of the source. Beams of one sentence share it: it has one row for each group of equal rows."""

    source_BS: Tensor  # 1 + the position of each source token, 0 for padding
    memory: tuple[Tensor, ...]  # batch first, as many rows as source_BS

    @property
    def beams(self) -> int:
        """How many rows go on from each source."""
        return len(self.position_B) // len(self.source_BS)

    def pick(self, rows: Tensor) -> Self:
        """The rows asked for; where they stand in equal groups of one source each, that source is kept once."""
        sentence = rows // self.beams
        kept, counts = sentence.unique_consecutive(return_counts=True)
        kept = kept if bool((counts == counts[0]).all()) else sentence
        same = len(kept) == len(self.source_BS) and bool((kept == torch.arange(len(kept), device=kept.device)).all())
        parts: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("source_BS", "memory"):
                take = (lambda tensor: tensor) if same else lambda tensor: tensor.index_select(0, kept)
                parts[field.name] = tuple(map(take, value)) if isinstance(value, tuple) else take(value)
            else:
                parts[field.name] = _pick(value, rows)
        return type(self)(**parts)


def _pick(value: Any, rows: Tensor) -> Any:
    if isinstance(value, State):
        return value.pick(rows)
    if isinstance(value, tuple):
        return tuple(_pick(item, rows) for item in value)
    return value.index_select(0, rows) if isinstance(value, Tensor) else value


class Translator(LanguageModel, ABC):
    """Built as `Family(target vocabulary, config, source vocabulary)`. Source ids lie below `source_size`, which is padding."""

    compiles: ClassVar[bool] = False  # every batch has another shape
    crossing: tuple[str, ...]  # the sites whose rows are weights over the source
    source_limit: int | None = None  # the most source tokens that can be read

    def __init__(self, vocabulary_size: int, config: Any, source_size: int | None = None):
        super().__init__(vocabulary_size, config)
        self.source_size = vocabulary_size if source_size is None else source_size

    @property
    def source_padding(self) -> int:
        return self.source_size

    @abstractmethod
    def read(self, source_BS: Tensor, look: Look | None = None) -> TranslatorState:
        """The state from which a translation goes on."""


def begun(state: TranslatorState | None) -> TranslatorState:
    if state is None:
        raise ValueError("a translator goes on from a source: state = model.read(source)")
    return state


def source_mask(position_BT: Tensor, state: TranslatorState) -> Mask:
    """All of the source may be seen, but for its padding; beams of a sentence are queries beside each other."""
    query = position_BT.reshape(len(state.source_BS), -1)
    return padding.over(query, state.source_BS - 1)


@final
class CrossAttention(nn.Module):
    """Queries from the target, keys and values from the source."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.project = nn.Linear(width, 2 * width)  # key and value side by side
        self.out = nn.Linear(width, width)
        self.score = ScaledDot()

    def memory(self, encoded_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """(keys, values), each (B, H, S, E): worked out once a source."""
        key, value = self.project(encoded_BSD).unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return key.contiguous(), value.contiguous()

    def forward(self, x_BTD: Tensor, key: Tensor, value: Tensor, mask: Mask, look: Look | None, site: str) -> Tensor:
        rows, length, width = x_BTD.shape
        groups, beams = len(key), rows // len(key)
        query = self.query(x_BTD).view(groups, beams * length, self.heads, width // self.heads).transpose(1, 2)
        mixed = attend(query, key, value, score=self.score, mask=mask, look=look, site=site)
        return drop(self.out(mixed.transpose(1, 2).reshape(rows, length, width)), self.dropout, self.training)
