"""A Transformer decoder with cross-attention to what its state began with: source words, or regions.

A block of the decoder attends to the text so far, and then to what was given (Vaswani et al. 2017).

Shape legend: B rows, S source positions or regions, T target positions, D width.
"""

import math
from abc import ABC
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Padded, Prediction
from regard.models.predictions import Readout
from regard.models.source import SourceState, source_mask
from regard.models.trunk import Block, Trunk
from regard.models.trunk_config import TrunkConfig
from regard.models.trunk_state import TrunkState
from regard.parts.look import Look, Site, at_site, declare, values_at


@dataclass(frozen=True)
class TransformerDecoderState(SourceState):
    """The memory of what was given, and the KV cache of the decoder.

    `memory` holds the keys and values of what was given, a pair for each layer of the decoder.
    """

    trunk: TrunkState

    def trimmed(self) -> Self:
        return replace(super().trimmed(), trunk=self.trunk.trimmed())

    def next_window(self) -> Self:
        """Return the state for a new window of the target. What was given stays the same."""
        trunk = self.trunk.next_window()
        return replace(self, position_B=trunk.position_B, trunk=trunk)


class TransformerDecoder(LanguageModel, ABC):
    """The base class of families with this decoder. A subclass implements `begin`."""

    config: Any
    steady = True
    bounded: ClassVar[bool] = True
    compiles: ClassVar[bool] = False  # batches differ in shape, and each shape would be compiled
    embedding: nn.Embedding

    def add_decoder(self, config: TrunkConfig) -> None:
        """Make the layers after the embedding."""
        self.context = config.context
        self.trunk = Trunk(config, crossing=True)
        self.readout = Readout(self.vocabulary_size, config.width, tied=True)

    def decoder_sites(self) -> dict[str, Site]:
        return self.trunk.sites() | declare(values_at("features"))

    def first_state(self, slot_BS: Tensor, encoded_BSD: Tensor) -> TransformerDecoderState:
        """Return the state before the first token: the keys and values for every layer of the decoder.

        `slot_BS` is 1 + the position of each column, 0 for padding.
        """
        memory = list[Tensor]()
        for block in self.trunk.blocks:
            assert isinstance(block, Block)
            assert block.cross is not None
            memory.extend(block.cross.memory(encoded_BSD))
        trunk = self.trunk.begin(len(slot_BS), self.embedding.weight)
        return TransformerDecoderState(trunk.position_B, slot_BS, tuple(memory), trunk)

    def with_room(self, state: TransformerDecoderState, room: int) -> TransformerDecoderState:
        return replace(state, trunk=state.trunk.with_room(min(room, self.config.context)))

    def forward(
        self,
        tokens_BT: Tensor,
        state: TransformerDecoderState,
        look: Look | None = None,
        padded: Padded = "anywhere",
    ) -> tuple[Prediction, TransformerDecoderState]:
        real_BT = tokens_BT != self.padding
        position_BT = torch.where(real_BT, state.position_B.unsqueeze(1) + real_BT.cumsum(1) - 1, -1)
        # Embeddings become as large as positions (section 3.4).
        embedded_BTD = self.embedding(tokens_BT) * math.sqrt(self.config.width)
        crossing = source_mask(position_BT, state)
        x_BTD, _, trunk = self.trunk(embedded_BTD, real_BT, state.trunk, look, padded, state.memory, crossing)
        x_BTD = at_site(look, "features", x_BTD)
        new = TransformerDecoderState(trunk.position_B, state.source_BS, state.memory, trunk)
        return self.readout(x_BTD, self.embedding), new
