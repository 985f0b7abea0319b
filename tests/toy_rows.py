"""Toy families that keep the contract of models that read whole rows: a number for each row or position.

Shape legend: B rows, T positions, D width, L labels.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from regard.models.rows import RowModel
from regard.parts.look import Look, Place, Site, at_site, declare, values_at


@final
class ToyRows(RowModel):
    """Attention from a learned query pools the words; the result is read as scores of labels."""

    family = "toy-rows"
    reads = "labels"
    purpose = "labels texts"
    verb = "classify"  # type: ignore[assignment]

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 7
        answers: str = "rows"

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.answers = config.answers  # type: ignore[misc]
        self.embedding = nn.Embedding(vocabulary_size, config.width)
        self.query = nn.Parameter(torch.randn(config.width))
        self.readout = nn.Linear(config.width, 3)

    def sites(self) -> dict[str, Site]:
        return declare(values_at("embedding"), Site("pooling", "BHTS", "weights"))

    def read(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        embedded_BTD = self.embedding(tokens_BT.clamp(max=self.vocabulary_size - 1))
        embedded_BTD = at_site(look, "embedding", embedded_BTD)
        if self.answers == "positions":
            weights_B11T = real_BT[:, None, None] / real_BT.sum(1).clamp(min=1)[:, None, None, None]
        else:
            scores_BT = (embedded_BTD @ self.query).masked_fill(~real_BT, -torch.inf)
            weights_B11T = scores_BT.softmax(1).nan_to_num()[:, None, None]
        if look is not None:
            place = Place(real_BT[:, :1].long() - 1, visible_BTK=real_BT[:, None], holds="weights")
            weights_B11T = look.at_weights("pooling", weights_B11T, place)
        pooled_B1D = weights_B11T[:, 0] @ embedded_BTD
        if self.answers == "positions":
            return self.readout(embedded_BTD + pooled_B1D)
        return self.readout(pooled_B1D[:, 0]).log_softmax(1)

    def loss(self, tokens_BT: Tensor, labels_B: Tensor) -> Tensor:  # type: ignore[override]
        return -self(tokens_BT).gather(1, labels_B[:, None]).sum()
