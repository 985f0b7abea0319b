"""Deep averaging network: the average of the embeddings of what was read, then a feed-forward network. It knows which words, not where.

    a_i = 1/i sum_{j <= i} w_j,   P(w_{i+1}) = softmax(U f(... f(W_1 a_i)))

Shape legend: B rows, T positions, D width, S words remembered, K = S + T.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Prediction, State
from regard.models.predictions import Readout
from regard.models.ranges import at_least, share
from regard.parts.layers import drop
from regard.parts.look import Look, Place, at_site
from regard.parts.masks import causal, lookback
from regard.parts.past import Recent, newest
from regard.parts.recurrence import pack_left


@dataclass(frozen=True)
class DanState(State):
    average_BD: Tensor  # of all that was read, where all of it counts
    slot_BS: Tensor  # 1 + the last words, 0 where there is none, where only they count


@final
class Dan(LanguageModel):
    family = "dan"
    training_defaults: ClassVar[dict[str, Any] | None] = {"optimiser": "muon", "learning_rate": 0.03, "segment": 32}
    medium: ClassVar[dict[str, Any]] = {
        "width": 512, "dropout": 0.5, "batch": 64, "segment": 64, "optimiser": "adamw", "learning_rate": 0.002,
    }  # fmt: skip

    @dataclass(frozen=True, kw_only=True)
    class Config:
        lookback: int = 4
        """How many of the last words are averaged; 0: all."""
        layers: int = 2
        """Layers of the feed-forward network."""
        width: int = 256
        """Features of an embedding and of a layer."""
        dropout: float = 0.2
        """Share of features left out while training."""
        tied: bool = True
        """The readout uses the embedding's own vectors."""

        def __post_init__(self) -> None:
            at_least(0, lookback=self.lookback)
            at_least(1, layers=self.layers, width=self.width)
            share(dropout=self.dropout)

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.layers = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(config.layers))
        self.readout = Readout(vocabulary_size, config.width, config.tied)

    def sites(self) -> dict[str, str]:
        return {"embedding": "(B, T, D)", "attention": "(B, 1, T, K)", "average": "(B, T, D)", "features": "(B, T, D)"}

    def forward(self, tokens_BT: Tensor, state: DanState | None = None, look: Look | None = None) -> tuple[Prediction, DanState]:
        packed = pack_left(tokens_BT, self.padding, self.training)
        if look is not None:
            look.begin(packed.positions(tokens_BT.new_zeros(len(tokens_BT)) if state is None else state.position_B))
        x_BTD = self.embedding(packed.tokens_BT)
        x_BTD = at_site(look, "embedding", x_BTD)
        average = self._average_of_last if self.config.lookback else self._average_of_all
        average_BTD, new = average(packed.tokens_BT, packed.length_B, x_BTD, state, look)
        average_BTD = at_site(look, "average", average_BTD)
        for layer in self.layers:
            average_BTD = drop(F.gelu(layer(average_BTD)), self.config.dropout, self.training)
        average_BTD = at_site(look, "features", average_BTD)
        return self.readout(packed.restore(average_BTD), self.embedding), new

    def _average_of_all(
        self, tokens_BT: Tensor, length_B: Tensor, x_BTD: Tensor, state: DanState | None, look: Look | None
    ) -> tuple[Tensor, DanState]:
        """The running average is all there is to remember."""
        rows, length, width = x_BTD.shape
        position_B = length_B.new_zeros(rows) if state is None else state.position_B
        before_BD = x_BTD.new_zeros(rows, width) if state is None else state.average_BD
        count_BT1 = (position_B.unsqueeze(1) + torch.arange(1, length + 1, device=length_B.device)).unsqueeze(2)
        past_BTD = (before_BD * position_B.unsqueeze(1)).unsqueeze(1) / count_BT1
        average_BTD = past_BTD + x_BTD.cumsum(1) / count_BT1
        if look is not None:
            place_BT = count_BT1.squeeze(2) - 1
            changed = _look(look, Place(place_BT, place_BT, causal.visible(length, length, x_BTD.device)), count_BT1, x_BTD)
            average_BTD = average_BTD if changed is None else past_BTD + changed
        last_BD = newest(torch.cat([before_BD.unsqueeze(1), average_BTD], 1), length_B + 1, 1).squeeze(1)
        return average_BTD, DanState(position_B + length_B, last_BD, tokens_BT[:, :0])

    def _average_of_last(
        self, tokens_BT: Tensor, length_B: Tensor, x_BTD: Tensor, state: DanState | None, look: Look | None
    ) -> tuple[Tensor, DanState]:
        words = self.config.lookback
        position_B = torch.zeros_like(length_B) if state is None else state.position_B
        recent = Recent(tokens_BT, x_BTD, None if state is None else state.slot_BS, words - 1, self.embedding)
        (average_BTD,) = recent.averages([(0, words)])
        if look is not None:
            first = recent.keep if state is None else 0  # before the beginning there is nothing to look at
            near_TK = (causal & lookback(words - 1)).visible(tokens_BT.shape[1], recent.slot_BK.shape[1], x_BTD.device)
            near_BTK = (near_TK & (recent.slot_BK > 0).unsqueeze(1))[:, :, first:]
            row_BT = position_B.unsqueeze(1) + torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
            column_BK = position_B.unsqueeze(1) + torch.arange(first - recent.keep, tokens_BT.shape[1], device=tokens_BT.device)
            place = Place(row_BT, column_BK, near_BTK)
            changed = _look(look, place, near_BTK.sum(2, keepdim=True), recent.embedded_BKD[:, first:])
            average_BTD = average_BTD if changed is None else changed
        return average_BTD, DanState(position_B + length_B, x_BTD[:, 0, :0], recent.slots(length_B))


def _look(look: Look, place: Place, count_BT1: Tensor, x_BKD: Tensor) -> Tensor | None:
    """An average is attention that looks at all alike: 1/n each. Where they are changed, the new weights make it."""
    assert place.visible_BTK is not None
    weights_B1TK = look.weights("attention", (place.visible_BTK / count_BT1).to(x_BKD.dtype).unsqueeze(1), place)
    return (weights_B1TK @ x_BKD.unsqueeze(1)).squeeze(1) if look.changes("attention") else None
