"""Recurrent language models: h_i = f(w_i, h_{i-1}), P(w_{i+1}) = softmax(U h_i). One vector must hold all that was read.

Shape legend: B rows, T positions, D width, L layers, V vocabulary.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, final

from torch import Tensor, nn

from regard.models.contract import LanguageModel, Prediction, State
from regard.models.predictions import Readout
from regard.models.ranges import at_least, share
from regard.parts.layers import drop_alike
from regard.parts.look import Look, at_site
from regard.parts.recurrence import CellName, Recurrence, begin_embedding, pack_left


@dataclass(frozen=True)
class RecurrentState(State):
    hidden_BLD: Tensor
    cell_BLD: Tensor | None


class Recurrent(LanguageModel, ABC):
    cell: ClassVar[CellName]
    training_defaults: ClassVar[dict[str, Any] | None] = {"learning_rate": 0.01, "segment": 32}
    medium: ClassVar[dict[str, Any]] = {
        "layers": 2, "width": 650, "dropout": 0.5,
        "batch": 64, "segment": 35, "optimiser": "adamw", "learning_rate": 0.002, "weight_decay": 0.02,
    }  # fmt: skip

    @dataclass(frozen=True, kw_only=True)
    class Config:
        layers: int = 1
        """How many recurrent layers are stacked."""
        width: int = 256
        """Features of an embedding and of a hidden state."""
        dropout: float = 0.3
        """Share of features left out while training, the same along a row: of embeddings, between layers, of the last states."""
        weight_dropout: float = 0.0
        """Share of the weights from state to state left out while training (AWD-LSTM)."""
        tied: bool = True
        """The readout uses the embedding's own vectors."""

        def __post_init__(self) -> None:
            at_least(1, layers=self.layers, width=self.width)
            share(dropout=self.dropout, weight_dropout=self.weight_dropout)

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        begin_embedding(self.embedding)
        self.recurrence = Recurrence(self.cell, config.layers, config.width, config.dropout, config.weight_dropout)
        self.readout = Readout(vocabulary_size, config.width, config.tied)

    def sites(self) -> dict[str, str]:
        return {"embedding": "(B, T, D)", **self.recurrence.sites(), "hidden": "(B, T, D)"}

    def forward(
        self, tokens_BT: Tensor, state: RecurrentState | None = None, look: Look | None = None
    ) -> tuple[Prediction, RecurrentState]:
        packed = pack_left(tokens_BT, self.padding, self.training)
        if state is None:
            state = RecurrentState(tokens_BT.new_zeros(len(tokens_BT)), *self.recurrence.begin(len(tokens_BT)))
        if look is not None:
            look.begin(packed.positions(state.position_B))
        x_BTD = drop_alike(self.embedding(packed.tokens_BT), self.config.dropout, self.training)
        x_BTD = at_site(look, "embedding", x_BTD)
        out_BTD, hidden, cell = self.recurrence(x_BTD, state.hidden_BLD, state.cell_BLD, packed, look)
        out_BTD = at_site(look, "hidden", out_BTD)
        features_BTD = drop_alike(packed.restore(out_BTD), self.config.dropout, self.training)
        return self.readout(features_BTD, self.embedding), RecurrentState(state.position_B + packed.length_B, hidden, cell)


@final
class Rnn(Recurrent):
    family = "rnn"
    cell = "rnn"
    training_defaults: ClassVar[dict[str, Any] | None] = {"optimiser": "muon", "learning_rate": 0.005, "segment": 32}


@final
class Lstm(Recurrent):
    family = "lstm"
    cell = "lstm"


@final
class Gru(Recurrent):
    family = "gru"
    cell = "gru"
