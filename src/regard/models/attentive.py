"""A recurrent language model with attention to its earlier hidden states.

    a_ij = softmax over j < i of score(h_i, h_j),   c_i = sum_j a_ij h_j,   P(w_{i+1}) = softmax(U [h_i; c_i])

Attention does not feed back into the recurrence. Training therefore needs no loop over time: PyTorch's
recurrent kernel runs over the whole segment, and attention is then computed for all positions at once.

Shape legend: B rows, T positions, D width, L layers, S stored states, K = S + T.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Padded, Prediction, State
from regard.models.copying import Copier, CopyName, copy_column
from regard.models.predictions import CopyPrediction, Readout
from regard.parts.attention import attend
from regard.parts.layers import drop_alike
from regard.parts.look import Look, Site, at_site, attention_sites, declare, values_at
from regard.parts.masks import earlier, lookback, padding
from regard.parts.past import filled_up, newest
from regard.parts.products import Linear
from regard.parts.recurrence import CellName, Packed, Recurrence, begin_embedding, pack_left
from regard.parts.scores import ScoreName, make_score
from regard.ranges import Count, Layers, Share


@dataclass(frozen=True)
class AttentiveState(State):
    """The state of the recurrence, and the earlier hidden states that attention can reach."""

    hidden_BLD: Tensor
    cell_BLD: Tensor | None
    past_BSD: Tensor  # earlier hidden states, the newest last
    slot_BS: Tensor  # 1 + the position of each earlier state, 0 for an empty slot
    token_BS: Tensor  # the word that was read at that position


@final
class Attentive(LanguageModel):
    family = "attentive"
    steady = True
    training_defaults: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.01,
        "segment": 32,
        "warmup": 0.15,  # with a shorter warm-up, the loss of some seeds stays on a plateau
    }
    medium: ClassVar[dict[str, Any]] = {
        "layers": 2,
        "width": 650,
        "lookback": 100,
        "dropout": 0.5,
        "batch": 64,
        "segment": 35,
        "learning_rate": 0.003,
        "weight_decay": 0.02,
    }
    # Small calls: attention scores all pairs of states in a call, and the mask hides some of them afterwards.
    batch_tokens, row_tokens = 1 << 12, 1 << 8

    @dataclass(frozen=True, kw_only=True)
    class Config:
        cell: CellName = "lstm"
        """The recurrent cell."""
        layers: Layers = 1
        """Number of recurrent layers."""
        width: Count = 256
        """Number of features of an embedding and of a hidden state."""
        score: ScoreName = "bilinear"
        """Score function of attention, between a hidden state and an earlier one."""
        lookback: Count = 64
        """Number of earlier hidden states that attention can reach."""
        dropout: Share = 0.3
        """Share of features set to zero in training, the same features at every position of a row."""
        weight_dropout: Share = 0.0
        """Share of the recurrent weights set to zero in training (AWD-LSTM)."""
        tied: bool = True
        """State and context are projected to the width of the embedding, and the readout shares the vectors
        of the embedding. Off: Give the readout its own vectors, for state and context without a projection.
        """
        copy: CopyName = "none"
        """Copy earlier words: with weight 1/2 (average), or with a learned weight (gate: the pointer sentinel
        of Merity et al. 2017)."""

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        width = config.width
        self.embedding = nn.Embedding(vocabulary_size + 2, width)
        begin_embedding(self.embedding)
        self.recurrence = Recurrence(config.cell, config.layers, width, config.dropout, config.weight_dropout)
        self.score = make_score(config.score, width, width)
        self.mask = earlier & lookback(config.lookback) & padding
        self.copier = Copier(config.copy, width, config.lookback) if config.copy != "none" else None
        self.join = Linear(2 * width, width) if config.tied else None
        self.readout = Readout(vocabulary_size, width if config.tied else 2 * width, config.tied)

    def sites(self) -> dict[str, Site]:
        own = declare(
            values_at("embedding"), *self.recurrence.sites().values(), values_at("hidden", remembers=True)
        )
        attention = attention_sites("attention", "BHTK", extra=copy_column(self.config.copy))
        return own | attention | declare(values_at("context"))

    def begin(self, given: int | Tensor, look: Look | None = None) -> AttentiveState:
        hidden, cell = self.recurrence.begin(int(given))
        zeros_B = torch.zeros(len(hidden), dtype=torch.long, device=hidden.device)
        empty_BS = zeros_B.unsqueeze(1)[:, :0]
        return AttentiveState(
            zeros_B, hidden, cell, hidden.new_zeros(len(hidden), 0, self.config.width), empty_BS, empty_BS
        )

    def with_room(self, state: AttentiveState, room: int) -> AttentiveState:
        keep = self.config.lookback
        past = {name: filled_up(getattr(state, name), keep) for name in ("past_BSD", "slot_BS", "token_BS")}
        return replace(state, **past)

    def forward(
        self, tokens_BT: Tensor, state: AttentiveState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, AttentiveState]:
        packed = pack_left(tokens_BT, self.padding, padded)
        position_BT = packed.positions(state.position_B)
        if look is not None:
            look.begin(position_BT)
        x_BTD = drop_alike(self.embedding(packed.tokens_BT), self.config.dropout, self.training)
        x_BTD = at_site(look, "embedding", x_BTD)
        out_BTD, hidden, cell = self.recurrence(x_BTD, state.hidden_BLD, state.cell_BLD, packed, look)
        out_BTD = at_site(look, "hidden", out_BTD)

        slot_BK = torch.cat([state.slot_BS, torch.where(packed.real_BT, position_BT + 1, 0)], 1)
        past_BKD = torch.cat([state.past_BSD, out_BTD], 1)
        token_BK = torch.cat([state.token_BS, packed.tokens_BT], 1)
        mask = self.mask.over(position_BT, slot_BK - 1)
        copied_BTK = None
        if self.copier is None:
            past_B1KD = past_BKD.unsqueeze(1)
            context_BTD = attend(
                out_BTD.unsqueeze(1), past_B1KD, past_B1KD, score=self.score, mask=mask, look=look
            ).squeeze(1)
        else:
            copied_BTK, context_BTD = self.copier(
                out_BTD, past_BKD, score=self.score, mask=mask, look=look, site="attention"
            )
        context_BTD = at_site(look, "context", context_BTD)

        prediction = self._predict(packed, out_BTD, context_BTD)
        if copied_BTK is not None:
            prediction = CopyPrediction(
                prediction, packed.restore(copied_BTK), token_BK, slot_BK - 1, self.vocabulary_size
            )
        end_B, keep = state.slot_BS.shape[1] + packed.length_B, min(self.config.lookback, slot_BK.shape[1])
        remembered = [newest(values, end_B, keep) for values in (past_BKD, slot_BK, token_BK)]
        return prediction, AttentiveState(state.position_B + packed.length_B, hidden, cell, *remembered)

    def _predict(self, packed: Packed, out_BTD: Tensor, context_BTD: Tensor) -> Prediction:
        features_BTD = packed.restore(torch.cat([out_BTD, context_BTD], 2))
        if self.join is not None:
            features_BTD = torch.tanh(self.join(features_BTD))
        return self.readout(drop_alike(features_BTD, self.config.dropout, self.training), self.embedding)
