"""Masked readers: each hidden word is predicted from the words before it and after it (Devlin et al. 2019).

    P(w_i | the other words) = softmax(E h_i),   h = encode(the text with a blank at i)

A reader is no language model: its probabilities of the words of a text do not multiply to that of the text.

Shape legend: B rows, T positions, D width, N blanks.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from torch import Tensor

from regard.models.encoders import EncoderConfig, make_encoder
from regard.models.predictions import Readout, SoftmaxPrediction
from regard.models.rows import RowModel
from regard.parts.look import Look, Site
from regard.ranges import Count, Share


class Filler(RowModel, ABC):
    """The models that fill blanks. `model(tokens_BT)` gives the features of each position, (B, T, D)."""

    reads = "blanks"
    answers = "positions"
    purpose = "fills blanks"

    @property
    def verb(self) -> str:
        return "fill"

    @property
    def blank(self) -> int:
        """The id of a hidden word."""
        return self.vocabulary_size + 2

    @abstractmethod
    def words(self, features_ND: Tensor) -> SoftmaxPrediction:
        """Return the predictions of the words at N positions, as those of a single row."""


@final
class Reader(Filler):
    family = "reader"
    bounded: ClassVar[bool] = True
    compiles: ClassVar[bool] = False  # batches differ in the number of blanks
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "word", "document": "line"}
    training_defaults: ClassVar[dict[str, Any]] = {
        "optimiser": "muon",
        "batch": 64,
        "learning_rate": 0.01,
        "weight_decay": 0.01,
    }
    medium: ClassVar[dict[str, Any]] = {"layers": 2, "width": 512, "batch": 64, "learning_rate": 0.002}

    @dataclass(frozen=True, kw_only=True)
    class Config(EncoderConfig):
        encoder: Literal["birnn", "bilstm", "bigru", "transformer"] = "bilstm"
        """The network that reads the words: in both directions, or without a mask (transformer)."""
        context: Count = 64
        """Maximal number of tokens in a row. A longer line is read in several rows."""
        dropout: Share = 0.1
        """Share of features set to zero in training, the same features at every position of a row."""

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.context = config.context
        self.encoder = make_encoder(vocabulary_size + 3, config)
        self.readout = Readout(vocabulary_size, config.width, tied=True)

    def sites(self) -> dict[str, Site]:
        return self.encoder.sites()

    def read(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        return self.encoder(tokens_BT, real_BT, look)

    def words(self, features_ND: Tensor) -> SoftmaxPrediction:
        return self.readout(features_ND.unsqueeze(0), self.encoder.embedding)

    def loss(self, tokens_BT: Tensor, targets_BT: Tensor, smoothing: float = 0.0) -> Tensor:
        """Return the summed cross-entropy of the hidden words; targets below 0 are not predicted."""
        hidden_BT = targets_BT >= 0
        predicted = self.words(self(tokens_BT)[hidden_BT])
        return predicted.loss(targets_BT[hidden_BT].unsqueeze(0), smoothing=smoothing)[0]
