"""Deep averaging network: a feed-forward network reads the average of the embeddings of earlier words.

    a_i = 1/i sum_{j <= i} w_j,   P(w_{i+1}) = softmax(U f(... f(W_1 a_i)))           (Iyyer et al. 2015)

The average does not depend on the order of the words.

Shape legend: B rows, T positions, D width, S stored words, K = S + T.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Padded, Prediction, State
from regard.models.predictions import Readout
from regard.parts.layers import drop
from regard.parts.look import Look, Place, Site, at_site, declare, values_at
from regard.parts.masks import causal, lookback
from regard.parts.past import Recent, filled_up, newest
from regard.parts.products import Linear
from regard.parts.recurrence import Packed, pack_left
from regard.ranges import Count, Layers, Number, Share


@dataclass(frozen=True)
class DanState(State):
    """The average of all words (if `lookback` is 0), or else the last words."""

    average_BD: Tensor  # the average of all words read so far; no features if `lookback` is above 0
    slot_BS: Tensor  # 1 + the id of each of the last words, 0 for an empty slot; no slots if `lookback` is 0


@final
class Dan(LanguageModel):
    family = "dan"
    steady = True
    training_defaults: ClassVar[dict[str, Any]] = {"optimiser": "muon", "learning_rate": 0.03, "segment": 32}
    medium: ClassVar[dict[str, Any]] = {
        "width": 512,
        "dropout": 0.5,
        "batch": 64,
        "segment": 64,
        "optimiser": "adamw",
        "learning_rate": 0.002,
    }

    @dataclass(frozen=True, kw_only=True)
    class Config:
        lookback: Number = 4
        """Number of last words in the average; 0: all words."""
        layers: Layers = 2
        """Number of layers of the feed-forward network."""
        width: Count = 256
        """Number of features of an embedding and of a layer."""
        dropout: Share = 0.2
        """Share of features set to zero in training."""
        tied: bool = True
        """The readout shares the vectors of the embedding. Off: Give the readout its own vectors, instead of
        the embedding's."""

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.layers = nn.ModuleList(Linear(config.width, config.width) for _ in range(config.layers))
        self.readout = Readout(vocabulary_size, config.width, config.tied)

    def sites(self) -> dict[str, Site]:
        attention = Site("attention", "BHTK", "weights")
        return declare(values_at("embedding"), attention, values_at("average"), values_at("features"))

    def begin(self, given: int | Tensor, look: Look | None = None) -> DanState:
        average_BD = self.embedding.weight.new_zeros(int(given), self.config.width)
        zeros_B = torch.zeros(int(given), dtype=torch.long, device=average_BD.device)
        return DanState(
            zeros_B,
            average_BD if not self.config.lookback else average_BD[:, :0],
            zeros_B.unsqueeze(1)[:, :0],
        )

    def with_room(self, state: DanState, room: int) -> DanState:
        return replace(state, slot_BS=filled_up(state.slot_BS, max(0, self.config.lookback - 1)))

    def forward(
        self, tokens_BT: Tensor, state: DanState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, DanState]:
        packed = pack_left(tokens_BT, self.padding, padded)
        if look is not None:
            look.begin(packed.positions(state.position_B))
        x_BTD = self.embedding(packed.tokens_BT)
        x_BTD = at_site(look, "embedding", x_BTD)
        average = self._average_of_last if self.config.lookback else self._average_of_all
        average_BTD, new = average(packed, x_BTD, state, look)
        average_BTD = at_site(look, "average", average_BTD)
        for layer in self.layers:
            average_BTD = drop(F.gelu(layer(average_BTD)), self.config.dropout, self.training)
        average_BTD = at_site(look, "features", average_BTD)
        return self.readout(packed.restore(average_BTD), self.embedding), new

    def _average_of_all(
        self, packed: Packed, x_BTD: Tensor, state: DanState, look: Look | None
    ) -> tuple[Tensor, DanState]:
        """Return the running averages and the new state, which stores the last average only."""
        length, length_B = x_BTD.shape[1], packed.length_B
        count_BT1 = (packed.positions(state.position_B) + 1).unsqueeze(2)
        past_BTD = (state.average_BD * state.position_B.unsqueeze(1)).unsqueeze(1) / count_BT1
        average_BTD = past_BTD + x_BTD.cumsum(1) / count_BT1
        if look is not None:
            place_BT = count_BT1.squeeze(2) - 1
            place = Place(place_BT, place_BT, causal.visible(length, length, x_BTD.device), "weights")
            changed = _at_attention(look, place, count_BT1, x_BTD)
            average_BTD = average_BTD if changed is None else past_BTD + changed
        all_BKD = torch.cat([state.average_BD.unsqueeze(1), average_BTD], 1)
        last_BD = newest(all_BKD, length_B + 1, 1).squeeze(1)
        return average_BTD, DanState(state.position_B + length_B, last_BD, state.slot_BS)

    def _average_of_last(
        self, packed: Packed, x_BTD: Tensor, state: DanState, look: Look | None
    ) -> tuple[Tensor, DanState]:
        """Return the averages of the last `lookback` words and the new state, which stores these words."""
        words, length = self.config.lookback, x_BTD.shape[1]
        recent = Recent(packed.tokens_BT, x_BTD, state.slot_BS, words - 1, self.embedding)
        (average_BTD,) = recent.averages([(0, words)])
        if look is not None:
            first = recent.keep - state.slot_BS.shape[1]  # columns before `first` are empty in every row
            near_TK = (causal & lookback(words - 1)).visible(length, recent.slot_BK.shape[1], x_BTD.device)
            near_BTK = (near_TK & (recent.slot_BK > 0).unsqueeze(1))[:, :, first:]
            offsets = torch.arange(first - recent.keep, length, device=x_BTD.device)
            column_BK = state.position_B.unsqueeze(1) + offsets
            place = Place(packed.positions(state.position_B), column_BK, near_BTK, "weights")
            count_BT1 = near_BTK.sum(2, keepdim=True)
            changed = _at_attention(look, place, count_BT1, recent.embedded_BKD[:, first:])
            average_BTD = average_BTD if changed is None else changed
        return average_BTD, DanState(
            state.position_B + packed.length_B, state.average_BD, recent.slots(packed.length_B)
        )


def _at_attention(look: Look, place: Place, count_BT1: Tensor, x_BKD: Tensor) -> Tensor | None:
    """Show the average as attention with equal weights 1/n. Return the new average if weights are edited."""
    assert place.visible_BTK is not None
    weights_B1TK = look.at_weights(
        "attention", (place.visible_BTK / count_BT1).to(x_BKD.dtype).unsqueeze(1), place
    )
    return (weights_B1TK @ x_BKD.unsqueeze(1)).squeeze(1) if look.changes("attention") else None
