"""Transformers: softmax over the vocabulary of what a stack of self-attention makes of all earlier tokens; no recurrence.

Its smallest member has no parameters but the embeddings: y_i = sum_j softmax_j(x_i . x_j) x_j (`--projections none`).

Shape legend: B rows, T positions, S slots remembered, D width.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Prediction, State
from regard.models.copying import CopyName, Pointer
from regard.models.predictions import CopyPrediction, Readout
from regard.models.trunk import MEDIUM, Trunk, TrunkConfig, TrunkState
from regard.parts.look import Look, at_site, weight_sites
from regard.parts.masks import earlier, padding


@dataclass(frozen=True)
class TransformerState(State):
    trunk: TrunkState
    token_BS: Tensor  # what stood in each slot; none are kept where nothing is copied
    pointer_BSD: Tensor


@final
class Transformer(LanguageModel):
    family = "transformer"
    training_defaults: ClassVar[dict[str, Any] | None] = {"optimiser": "muon", "learning_rate": 0.012, "batch": 32}
    medium: ClassVar[dict[str, Any]] = MEDIUM

    @dataclass(frozen=True, kw_only=True)
    class Config(TrunkConfig):
        tied: bool = True
        """The readout uses the embedding's own vectors."""
        readout_bias: bool = True
        """The readout has a number of its own for each token; GPT-2's has none."""
        copy: CopyName = "none"
        """Copy earlier words: average of softmax and attention, or a gate learned in the attention's softmax (pointer sentinel)."""

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.context = config.context
        self.trunk = Trunk(config)
        embedding_width = self.trunk.embedding_width
        self.embedding = nn.Embedding(vocabulary_size + 2, embedding_width)
        self._begin(config)
        narrow = config.tied and embedding_width != config.width  # appended positions are not read out
        self.narrow = nn.Linear(config.width, embedding_width) if narrow else nn.Identity()
        self.readout = Readout(vocabulary_size, embedding_width if narrow else config.width, config.tied, config.readout_bias)
        self.pointer = Pointer(config.copy, config.width, config.context) if config.copy != "none" else None

    def _begin(self, config: Config) -> None:
        """Words must weigh in the stream what blocks add to it, or no layer learns to look a word up (docs/benchmarks.md, puzzles); the
        last norm makes up for it, so that the first predictions are near uniform all the same."""
        norm, small, std = self.trunk.final_norm, 0.02, 1 / math.sqrt(config.width)
        if isinstance(norm, nn.Identity):
            nn.init.normal_(self.embedding.weight, std=small)
            return
        nn.init.normal_(self.embedding.weight, std=std)
        if config.tied:
            assert isinstance(norm, nn.LayerNorm)
            nn.init.constant_(norm.weight, small / std)

    def sites(self) -> dict[str, str]:
        return self.trunk.sites() | {"features": "(B, T, D)"} | (weight_sites("copy", "(B, 1, T, S)") if self.pointer else {})

    def forward(
        self, tokens_BT: Tensor, state: TransformerState | None = None, look: Look | None = None
    ) -> tuple[Prediction, TransformerState]:
        before = None if state is None else state.trunk
        x_BTD, where, trunk = self.trunk(self.embedding(tokens_BT), tokens_BT != self.padding, before, look)
        x_BTD = at_site(look, "features", x_BTD)
        prediction: Prediction = self.readout(self.narrow(x_BTD), self.embedding)
        token_BS, pointer_BSD = tokens_BT[:, :0], x_BTD[:, :0]
        if self.pointer is not None:
            token_BS, pointer_BSD = tokens_BT, self.pointer.key(x_BTD)
            if state is not None:
                token_BS, pointer_BSD = torch.cat([state.token_BS, token_BS], 1), torch.cat([state.pointer_BSD, pointer_BSD], 1)
            mask = (earlier & padding).over(where.position_BT, where.slot_BS - 1)
            copied_BTS = self.pointer(x_BTD, pointer_BSD, mask, look)
            prediction = CopyPrediction(prediction, copied_BTS, token_BS, self.vocabulary_size)
        return prediction, TransformerState(trunk.position_B, trunk, token_BS, pointer_BSD)
