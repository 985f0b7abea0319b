"""Recurrent language models (RNN, LSTM, GRU): h_i = f(w_i, h_{i-1}), P(w_{i+1}) = softmax(U h_i).

The hidden state is the only memory of the words read so far.

Shape legend: B rows, T positions, D width, L layers, V vocabulary.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Padded, Prediction, State
from regard.models.predictions import Readout
from regard.parts.layers import drop_alike
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.parts.recurrence import CellName, Recurrence, begin_embedding, pack_left
from regard.ranges import Count, Layers, Share


@dataclass(frozen=True)
class RecurrentState(State):
    """The hidden states of all layers, and the cells of an LSTM."""

    hidden_BLD: Tensor
    cell_BLD: Tensor | None


class Recurrent(LanguageModel, ABC):
    cell: ClassVar[CellName]
    steady = True
    training_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 0.01, "segment": 32}
    medium: ClassVar[dict[str, Any]] = {
        "layers": 2,
        "width": 650,
        "dropout": 0.5,
        "batch": 64,
        "segment": 35,
        "optimiser": "adamw",
        "learning_rate": 0.002,
        "weight_decay": 0.02,
    }

    @dataclass(frozen=True, kw_only=True)
    class Config:
        layers: Layers = 1
        """Number of recurrent layers."""
        width: Count = 256
        """Number of features of an embedding and of a hidden state."""
        dropout: Share = 0.3
        """Share of features set to zero in training, the same features at every position of a row: in
        embeddings, between layers, and in the last hidden states."""
        weight_dropout: Share = 0.0
        """Share of the recurrent weights set to zero in training (AWD-LSTM)."""
        tied: bool = True
        """The readout shares the vectors of the embedding. Off: Give the readout its own vectors, instead of
        the embedding's."""

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        begin_embedding(self.embedding)
        self.recurrence = Recurrence(
            self.cell, config.layers, config.width, config.dropout, config.weight_dropout
        )
        self.readout = Readout(vocabulary_size, config.width, config.tied)

    def sites(self) -> dict[str, Site]:
        return declare(
            values_at("embedding"), *self.recurrence.sites().values(), values_at("hidden", remembers=True)
        )

    def layer_sites(self) -> list[str]:
        return ["embedding", *(f"layer{number}.hidden" for number in range(self.config.layers))]

    def begin(self, given: int | Tensor, look: Look | None = None) -> RecurrentState:
        hidden_BLD, cell_BLD = self.recurrence.begin(int(given))
        return RecurrentState(
            torch.zeros(len(hidden_BLD), dtype=torch.long, device=hidden_BLD.device), hidden_BLD, cell_BLD
        )

    def forward(
        self, tokens_BT: Tensor, state: RecurrentState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, RecurrentState]:
        packed = pack_left(tokens_BT, self.padding, padded)
        if look is not None:
            look.begin(packed.positions(state.position_B))
        x_BTD = drop_alike(self.embedding(packed.tokens_BT), self.config.dropout, self.training)
        x_BTD = at_site(look, "embedding", x_BTD)
        out_BTD, hidden, cell = self.recurrence(x_BTD, state.hidden_BLD, state.cell_BLD, packed, look)
        out_BTD = at_site(look, "hidden", out_BTD)
        features_BTD = drop_alike(packed.restore(out_BTD), self.config.dropout, self.training)
        return self.readout(features_BTD, self.embedding), RecurrentState(
            state.position_B + packed.length_B, hidden, cell
        )


@final
class Rnn(Recurrent):
    family = "rnn"
    cell = "rnn"
    training_defaults: ClassVar[dict[str, Any]] = {"optimiser": "muon", "learning_rate": 0.005, "segment": 32}


@final
class Lstm(Recurrent):
    family = "lstm"
    cell = "lstm"


@final
class Gru(Recurrent):
    family = "gru"
    cell = "gru"
