"""A Transformer that reads a source and one that writes: the second looks at itself, then at the source (Vaswani et al. 2017).

`--norm post --positions sinusoidal` is the published form; the defaults have the norm before each part and rotary positions.

Shape legend: B rows, S source positions, T target positions, H heads, E head width, D width.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.contract import Prediction
from regard.models.predictions import Readout
from regard.models.translation import Translator, TranslatorState, begun, source_mask
from regard.models.trunk import Block, Trunk, TrunkConfig, TrunkState
from regard.parts.look import Look, at_site


@dataclass(frozen=True)
class TransformerTranslatorState(TranslatorState):
    """Memory holds keys and values of the source, a pair for each layer of the decoder."""

    trunk: TrunkState | None


@final
class TransformerTranslator(Translator):
    family = "transformer-translator"
    training_defaults: ClassVar[dict[str, Any] | None] = {"optimiser": "muon", "learning_rate": 0.005, "weight_decay": 0.01, "warmup": 0.1}

    medium: ClassVar[dict[str, Any]] = {"layers": 3, "width": 256, "batch_tokens": 2048, "label_smoothing": 0.1}

    @dataclass(frozen=True, kw_only=True)
    class Config(TrunkConfig):
        dropout: float = 0.1
        """Share of features left out while training."""
        context: int = 128
        """How many tokens a sentence can have, on each side."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.projections != "learned" or self.positions in ("onehot", "sinusoidal-appended"):
                raise UserError("a translator has learned projections, and positions that are not appended: choose others")

    def __init__(self, vocabulary_size: int, config: Config, source_size: int | None = None):
        super().__init__(vocabulary_size, config, source_size)
        self.context = self.source_limit = config.context
        self.source_embedding = nn.Embedding(self.source_size + 1, config.width)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        for table in (self.source_embedding, self.embedding):
            nn.init.normal_(table.weight, std=config.width**-0.5)
        self.encoder = Trunk(config, name="source.", causal=False)
        self.trunk = Trunk(config, crossing=True)
        self.readout = Readout(vocabulary_size, config.width, tied=True)
        self.crossing = tuple(f"layer{number}.cross" for number in range(config.layers))

    def sites(self) -> dict[str, str]:
        return {**self.encoder.sites(), "source.features": "(B, S, D)", **self.trunk.sites(), "features": "(B, T, D)"}

    def read(self, source_BS: Tensor, look: Look | None = None) -> TransformerTranslatorState:
        real_BS = source_BS != self.source_padding
        scale = math.sqrt(self.config.width)  # so that words weigh as much as positions (section 3.4)
        encoded_BSD, where, _ = self.encoder(self.source_embedding(source_BS) * scale, real_BS, None, look)
        encoded_BSD = at_site(look, "source.features", encoded_BSD)
        memory = list[Tensor]()
        for block in self.trunk.blocks:
            assert isinstance(block, Block)
            assert block.cross is not None
            memory.extend(block.cross.memory(encoded_BSD))
        return TransformerTranslatorState(torch.zeros_like(real_BS.sum(1)), where.position_BT + 1, tuple(memory), None)

    def forward(
        self, tokens_BT: Tensor, state: TransformerTranslatorState | None = None, look: Look | None = None
    ) -> tuple[Prediction, TransformerTranslatorState]:
        state = begun(state)  # type: ignore[assignment]
        assert state is not None
        real_BT = tokens_BT != self.padding
        position_BT = torch.where(real_BT, state.position_B.unsqueeze(1) + real_BT.cumsum(1) - 1, -1)
        embedded_BTD = self.embedding(tokens_BT) * math.sqrt(self.config.width)
        x_BTD, _, trunk = self.trunk(embedded_BTD, real_BT, state.trunk, look, state.memory, source_mask(position_BT, state))
        x_BTD = at_site(look, "features", x_BTD)
        return self.readout(x_BTD, self.embedding), TransformerTranslatorState(trunk.position_B, state.source_BS, state.memory, trunk)
