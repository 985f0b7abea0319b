"""Classifiers: an encoder reads a text, a pooling makes one vector of its states, a layer scores the labels.

    P(label | text) = softmax(U pool(encode(text)))

With the encoder dan and `layers`, the pooled vector passes through a feed-forward network first (Iyyer et
al. 2015).

Shape legend: B rows, T positions, D width, L labels.
"""

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.encoders import EncoderConfig, EncoderName, make_encoder
from regard.models.rows import RowModel
from regard.parts.layers import drop
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.parts.pooling import PoolName, Words, make_pooling
from regard.parts.products import Linear
from regard.parts.scores import ScoreName


class Labeller(RowModel, ABC):
    """The models that label texts: `model(tokens_BT)` gives the log-probability of each label, (B, L)."""

    reads = "labels"
    answers = "rows"
    purpose = "labels texts"

    @property
    def verb(self) -> str:
        return "classify"


@final
class Classifier(Labeller):
    family = "classifier"
    bounded: ClassVar[bool] = True
    compiles: ClassVar[bool] = False  # batches differ in shape, and each shape would be compiled
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "word", "document": "line"}
    training_defaults: ClassVar[dict[str, Any]] = {
        "batch": 64,
        "learning_rate": 0.003,
        "evaluate_every": 50,
        "patience": 5,
        "weight_decay": 0.01,
    }
    medium: ClassVar[dict[str, Any]] = {"width": 512, "layers": 2, "batch": 128, "learning_rate": 0.001}

    @dataclass(frozen=True, kw_only=True)
    class Config(EncoderConfig):
        encoder: EncoderName = "bilstm"
        """The network that reads the words. bi...: in both directions; transformer: without a mask."""
        pool: PoolName = "attention"
        """Pooling, which makes one vector of the states of the words: the last state, the mean, the maximum
        of each feature, or attention from a learned query."""
        score: ScoreName = "additive"
        """Score function of the attention in `pool` attention."""

    def __init__(self, vocabulary_size: int, config: Config, label_count: int = 2):
        super().__init__(vocabulary_size, config)
        self.context = config.context
        self._labels = label_count
        self.encoder = make_encoder(vocabulary_size + 2, config)
        self.pooling = make_pooling(config.pool, config.width, config.score, config.directions)
        layers = config.depth if config.encoder == "dan" else 0
        self.layers = nn.ModuleList(Linear(config.width, config.width) for _ in range(layers))
        self.readout = Linear(config.width, label_count)

    @property
    def label_count(self) -> int:
        return self._labels

    def sites(self) -> dict[str, Site]:
        pooled = values_at("pooled", "BTD", rows="whole")
        return self.encoder.sites() | self.pooling.sites() | declare(pooled)

    def read(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        words = Words(self.encoder(tokens_BT, real_BT, look), real_BT)
        pooled_BD = self.pooling(words, look)
        pooled_BD = at_site(look, "pooled", pooled_BD.unsqueeze(1), words.place.row_BT).squeeze(1)
        for layer in self.layers:
            pooled_BD = F.gelu(layer(drop(pooled_BD, self.config.dropout, self.training)))
        scores_BL = self.readout(drop(pooled_BD, self.config.dropout, self.training))
        return scores_BL.log_softmax(1)

    def loss(self, tokens_BT: Tensor, labels_B: Tensor, smoothing: float = 0.0) -> Tensor:
        """Return the summed cross-entropy, with label smoothing (Szegedy et al. 2016, section 7)."""
        log_probs_BL = self(tokens_BT)
        loss_B = -log_probs_BL.gather(1, labels_B.unsqueeze(1)).squeeze(1)
        return ((1 - smoothing) * loss_B - smoothing * log_probs_BL.mean(1)).sum()
