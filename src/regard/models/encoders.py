"""Encoders: the states of the words of a whole text, for classifiers and masked readers.

    dan                 the word vectors themselves, perhaps with vectors of word pairs
    rnn, lstm, gru      the states of a recurrent network, which has read the words up to each word
    birnn, bilstm, ...  the states of two recurrent networks, from the left and from the right
    transformer         the states of attention blocks in which every word attends to all words

Shape legend: B rows, T positions, D width.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.trunk import Trunk
from regard.models.trunk_config import TrunkConfig
from regard.parts.bidirectional import Bidirectional
from regard.parts.layers import drop_alike
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.parts.recurrence import CellName, Packed, Recurrence, begin_embedding
from regard.ranges import Count, Depth, Number, Share

EncoderName = Literal["dan", "rnn", "lstm", "gru", "birnn", "bilstm", "bigru", "transformer"]
CELLS: dict[str, CellName] = {
    "rnn": "rnn",
    "lstm": "lstm",
    "gru": "gru",
    "birnn": "rnn",
    "bilstm": "lstm",
    "bigru": "gru",
}
TWO_WAYS = ("birnn", "bilstm", "bigru")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The options of encoders."""

    encoder: EncoderName = "bilstm"
    """The network that reads the words. bi...: in both directions; transformer: without a mask."""
    layers: Depth | None = None
    """Number of layers (1). dan: of the feed-forward network that follows the pooling (none)."""
    width: Count = 128
    """Number of features of a word vector and of a state. Two directions have half of them each."""
    heads: Count = 4
    """Number of attention heads in a layer (transformer)."""
    bigrams: Number = 0
    """Number of vectors for pairs of neighbouring words, which share them by a hash; 0: none (dan)."""
    context: Count = 512
    """Maximal number of tokens of a text. Later tokens of a longer text are left out, and counted."""
    dropout: Share = 0.3
    """Share of features set to zero in training, the same features at every position of a row."""

    def __post_init__(self) -> None:
        if self.encoder != "dan" and self.layers == 0:
            raise UserError("`layers` must be 1 or more, unless `encoder` is dan")
        if self.bigrams and self.encoder != "dan":
            raise UserError(
                "`bigrams` is an option of `encoder` dan; the other encoders read the order of words"
            )
        if self.encoder in TWO_WAYS and self.width % 2:
            raise UserError(
                f"`width` {self.width} cannot be divided among two directions; choose an even one"
            )
        if self.encoder == "transformer":
            self.trunk()  # checks width and heads

    def trunk(self) -> TrunkConfig:
        """Return the options of the attention blocks."""
        return TrunkConfig(
            layers=self.depth,
            width=self.width,
            heads=self.heads,
            context=self.context,
            dropout=self.dropout,
            activation="gelu-tanh",  # the one that saved runs were trained with
        )

    @property
    def depth(self) -> int:
        """The number of layers that was given, or the encoder's own."""
        if self.layers is None:
            return 0 if self.encoder == "dan" else 1
        return self.layers

    @property
    def directions(self) -> int:
        """2 if a state has a half for each direction, else 1."""
        return 2 if self.encoder in TWO_WAYS else 1


class Encoder(nn.Module, ABC):
    """The base class of encoders. `embedding` holds the vectors of the tokens."""

    embedding: nn.Embedding

    @abstractmethod
    def sites(self) -> dict[str, Site]: ...

    @abstractmethod
    def forward(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        """(B, T, D): the state of each word. Padding stands on the right of the rows."""


@final
class Averaged(Encoder):
    """The vectors of the words; with `bigrams`, a word also has the vector of the pair that it ends."""

    def __init__(self, tokens: int, config: EncoderConfig):
        super().__init__()
        self.dropout, self.start = config.dropout, tokens - 1
        self.embedding = nn.Embedding(tokens, config.width)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.bigram_embedding = nn.Embedding(config.bigrams, config.width) if config.bigrams else None
        if self.bigram_embedding is not None:
            nn.init.normal_(self.bigram_embedding.weight, std=0.1)

    def sites(self) -> dict[str, Site]:
        return declare(values_at("embedding"))

    def forward(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        x_BTD = self.embedding(tokens_BT)
        if self.bigram_embedding is not None:
            before_BT = torch.cat([torch.full_like(tokens_BT[:, :1], self.start), tokens_BT[:, :-1]], 1)
            # A linear hash with odd multipliers spreads the pairs over the vectors.
            pair_BT = (before_BT * 0x9E3779B1 + tokens_BT * 0x85EBCA77) % self.bigram_embedding.num_embeddings
            x_BTD = x_BTD + self.bigram_embedding(pair_BT)
        return at_site(look, "embedding", drop_alike(x_BTD, self.dropout, self.training))


@final
class Recurrent(Encoder):
    """Recurrent layers in one direction or in both."""

    def __init__(self, tokens: int, config: EncoderConfig):
        super().__init__()
        self.dropout = config.dropout
        self.embedding = nn.Embedding(tokens, config.width)
        begin_embedding(self.embedding)
        cell, options = CELLS[config.encoder], (config.depth, config.width, config.dropout)
        two_ways = config.directions == 2
        self.one_way = None if two_ways else Recurrence(cell, *options, 0.0)
        self.two_ways = Bidirectional(cell, *options) if two_ways else None

    def sites(self) -> dict[str, Site]:
        layers = self.one_way or self.two_ways
        assert layers is not None
        return declare(values_at("embedding")) | layers.sites() | declare(values_at("hidden"))

    def forward(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        packed = Packed(tokens_BT, real_BT.sum(1), None)  # padding on the right changes no earlier state
        x_BTD = drop_alike(self.embedding(tokens_BT), self.dropout, self.training)
        x_BTD = at_site(look, "embedding", x_BTD)
        if self.two_ways is not None:
            out_BTD = self.two_ways(x_BTD, packed, look)
        else:
            assert self.one_way is not None
            out_BTD, _, _ = self.one_way(x_BTD, *self.one_way.begin(len(x_BTD)), packed, look)
        return drop_alike(at_site(look, "hidden", out_BTD), self.dropout, self.training)


@final
class Attending(Encoder):
    """Attention blocks without a causal mask: every word sees all words."""

    def __init__(self, tokens: int, config: EncoderConfig):
        super().__init__()
        self.scale = math.sqrt(config.width)  # embeddings become as large as positions
        self.embedding = nn.Embedding(tokens, config.width)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.trunk = Trunk(config.trunk(), causal=False)

    def sites(self) -> dict[str, Site]:
        return self.trunk.sites() | declare(values_at("hidden"))

    def forward(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        empty = self.trunk.begin(len(tokens_BT), self.embedding.weight)
        states_BTD, _, _ = self.trunk(self.embedding(tokens_BT) * self.scale, real_BT, empty, look)
        return at_site(look, "hidden", states_BTD)


def make_encoder(tokens: int, config: Any) -> Encoder:
    """Make the encoder that the options name, for ids below `tokens`."""
    kinds: dict[str, type[Encoder]] = {"dan": Averaged, "transformer": Attending}
    return kinds.get(config.encoder, Recurrent)(tokens, config)
