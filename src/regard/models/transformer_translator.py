"""The Transformer translator (Vaswani et al. 2017): an encoder reads the source, a decoder writes the target.

A block of the decoder attends to the target so far, and then to the source. The published form is `norm` post
with `positions` sinusoidal. The defaults are pre-norm and rotary positions.

Shape legend: B rows, S source positions, T target positions, H heads, E head width, D width.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.contract import Given, LanguageModel, Padded, Prediction
from regard.models.predictions import Readout
from regard.models.source import SourceState, check_source, source_mask
from regard.models.trunk import Block, Trunk, TrunkState
from regard.models.trunk_config import TrunkConfig
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.ranges import Count, Share


@dataclass(frozen=True)
class TransformerTranslatorState(SourceState):
    """The source, and the KV cache of the decoder.

    `memory` holds the keys and values of the source, a pair for each layer of the decoder.
    """

    trunk: TrunkState

    def trimmed(self) -> Self:
        return replace(super().trimmed(), trunk=self.trunk.trimmed())

    def next_window(self) -> Self:
        """Return the state for a new window of the target. The source stays the same."""
        trunk = self.trunk.next_window()
        return replace(self, position_B=trunk.position_B, trunk=trunk)


@final
class TransformerTranslator(LanguageModel):
    family = "transformer-translator"
    reads = "pairs"
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "word", "document": "line"}
    steady = True
    bounded: ClassVar[bool] = True
    compiles: ClassVar[bool] = False  # batches differ in shape, and each shape would be compiled
    training_defaults: ClassVar[dict[str, Any]] = {
        "optimiser": "muon",
        "learning_rate": 0.005,
        "weight_decay": 0.01,
        "warmup": 0.1,
    }
    medium: ClassVar[dict[str, Any]] = {
        "layers": 3,
        "width": 256,
        "batch_tokens": 2048,
        "label_smoothing": 0.1,
    }

    @dataclass(frozen=True, kw_only=True)
    class Config(TrunkConfig):
        dropout: Share = 0.1
        """Share of features set to zero in training."""
        context: Count = 128
        """Maximal number of tokens in a source or target sentence."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.projections != "learned" or self.positions in ("onehot", "sinusoidal-appended"):
                raise UserError(
                    "a translator needs `projections` learned, and `positions` other than onehot and "
                    "sinusoidal-appended"
                )

    def __init__(self, vocabulary_size: int, config: Config, source_size: int | None = None):
        super().__init__(vocabulary_size, config)
        self.given = Given(vocabulary_size if source_size is None else source_size, config.context)
        self.context = config.context
        self.source_embedding = nn.Embedding(self.given.size + 1, config.width)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        for table in (self.source_embedding, self.embedding):
            nn.init.normal_(table.weight, std=config.width**-0.5)
        self.encoder = Trunk(config, side="given", causal=False)
        self.trunk = Trunk(config, crossing=True)
        self.readout = Readout(vocabulary_size, config.width, tied=True)

    def sites(self) -> dict[str, Site]:
        source = self.encoder.sites() | declare(values_at("source.features", "BSD", rows="given"))
        return source | self.trunk.sites() | declare(values_at("features"))

    def begin(self, given: int | Tensor, look: Look | None = None) -> TransformerTranslatorState:
        """Encode the source sentences, and compute their keys and values for every layer of the decoder."""
        assert self.given is not None
        source_BS = check_source(given)
        real_BS = source_BS != self.given.padding
        scale = math.sqrt(self.config.width)  # embeddings become as large as positions (section 3.4)
        empty = self.encoder.begin(len(source_BS), self.embedding.weight)
        encoded_BSD, placement, _ = self.encoder(
            self.source_embedding(source_BS) * scale, real_BS, empty, look
        )
        encoded_BSD = at_site(look, "source.features", encoded_BSD)
        memory = list[Tensor]()
        for block in self.trunk.blocks:
            assert isinstance(block, Block)
            assert block.cross is not None
            memory.extend(block.cross.memory(encoded_BSD))
        trunk = self.trunk.begin(len(source_BS), self.embedding.weight)
        return TransformerTranslatorState(trunk.position_B, placement.position_BT + 1, tuple(memory), trunk)

    def with_room(self, state: TransformerTranslatorState, room: int) -> TransformerTranslatorState:
        return replace(state, trunk=state.trunk.with_room(min(room, self.config.context)))

    def forward(
        self,
        tokens_BT: Tensor,
        state: TransformerTranslatorState,
        look: Look | None = None,
        padded: Padded = "anywhere",
    ) -> tuple[Prediction, TransformerTranslatorState]:
        real_BT = tokens_BT != self.padding
        position_BT = torch.where(real_BT, state.position_B.unsqueeze(1) + real_BT.cumsum(1) - 1, -1)
        embedded_BTD = self.embedding(tokens_BT) * math.sqrt(self.config.width)
        crossing = source_mask(position_BT, state)
        x_BTD, _, trunk = self.trunk(embedded_BTD, real_BT, state.trunk, look, padded, state.memory, crossing)
        x_BTD = at_site(look, "features", x_BTD)
        new = TransformerTranslatorState(trunk.position_B, state.source_BS, state.memory, trunk)
        return self.readout(x_BTD, self.embedding), new
