"""A recurrent model that looks back: its prediction sees a weighted average of its strictly earlier hidden states.

    a_ij = softmax over the earlier j of score(h_i, h_j),  c_i = sum_j a_ij h_j,  P(w_{i+1}) = softmax(U [h_i; c_i])

Attention does not feed back into the recurrence, so training has no loop over time: the library's kernel for the whole segment, then
attention for all its positions at once.

Shape legend: B rows, T positions, D width, L layers, S remembered states, K = S + T.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Prediction, State
from regard.models.copying import Copier, CopyName
from regard.models.predictions import CopyPrediction, Readout
from regard.models.ranges import at_least, share
from regard.parts.attention import attend
from regard.parts.layers import drop_alike
from regard.parts.look import Look, at_site, weight_sites
from regard.parts.masks import earlier, lookback, padding
from regard.parts.past import newest
from regard.parts.recurrence import CellName, Recurrence, begin_embedding, pack_left
from regard.parts.scores import ScoreName, make_score


@dataclass(frozen=True)
class AttentiveState(State):
    hidden_BLD: Tensor
    cell_BLD: Tensor | None
    past_BSD: Tensor  # earlier states, the newest last
    slot_BS: Tensor  # 1 + the position of each, 0 where there is none
    token_BS: Tensor  # the word read there


@final
class Attentive(LanguageModel):
    family = "attentive"
    training_defaults: ClassVar[dict[str, Any] | None] = {
        "learning_rate": 0.01,
        "segment": 32,
        "warmup": 0.15,
    }  # with less, some seeds stay on a plateau
    medium: ClassVar[dict[str, Any]] = {
        "layers": 2, "width": 650, "lookback": 100, "dropout": 0.5,
        "batch": 64, "segment": 35, "learning_rate": 0.003, "weight_decay": 0.02,
    }  # fmt: skip
    batch_tokens, row_tokens = 1 << 12, 1 << 8  # each is compared with all others of the call, seen or not

    @dataclass(frozen=True, kw_only=True)
    class Config:
        cell: CellName = "lstm"
        """The recurrent cell."""
        layers: int = 1
        """How many recurrent layers are stacked."""
        width: int = 256
        """Features of an embedding and of a hidden state."""
        score: ScoreName = "bilinear"
        """How a state and an earlier one are compared."""
        lookback: int = 64
        """How many earlier states it may look back to."""
        dropout: float = 0.3
        """Share of features left out while training, the same along a row."""
        weight_dropout: float = 0.0
        """Share of the weights from state to state left out while training (AWD-LSTM)."""
        tied: bool = True
        """State and context are projected to the embedding's width and read out by its vectors; else read out directly."""
        copy: CopyName = "none"
        """Copy earlier words: average of softmax and attention, or a gate learned in the attention's softmax (pointer sentinel)."""

        def __post_init__(self) -> None:
            at_least(1, layers=self.layers, width=self.width, lookback=self.lookback)
            share(dropout=self.dropout, weight_dropout=self.weight_dropout)

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        width = config.width
        self.embedding = nn.Embedding(vocabulary_size + 2, width)
        begin_embedding(self.embedding)
        self.recurrence = Recurrence(config.cell, config.layers, width, config.dropout, config.weight_dropout)
        self.score = make_score(config.score, width, width)
        self.mask = earlier & lookback(config.lookback) & padding
        self.copier = Copier(config.copy, width, config.lookback) if config.copy != "none" else None
        self.join = nn.Linear(2 * width, width) if config.tied else None
        self.readout = Readout(vocabulary_size, width if config.tied else 2 * width, config.tied)

    def sites(self) -> dict[str, str]:
        attention = weight_sites("attention", "(B, 1, T, K)")
        return {"embedding": "(B, T, D)", **self.recurrence.sites(), "hidden": "(B, T, D)", **attention, "context": "(B, T, D)"}

    def begin(self, rows: int) -> AttentiveState:
        hidden, cell = self.recurrence.begin(rows)
        nothing_B = torch.zeros(rows, dtype=torch.long, device=hidden.device)
        none_BS = nothing_B.new_zeros(rows, 0)
        return AttentiveState(nothing_B, hidden, cell, hidden.new_zeros(rows, 0, self.config.width), none_BS, none_BS)

    def forward(
        self, tokens_BT: Tensor, state: AttentiveState | None = None, look: Look | None = None
    ) -> tuple[Prediction, AttentiveState]:
        packed = pack_left(tokens_BT, self.padding, self.training)
        state = state or self.begin(len(tokens_BT))
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
        if self.copier is None:
            past_B1KD = past_BKD.unsqueeze(1)
            context_BTD = attend(out_BTD.unsqueeze(1), past_B1KD, past_B1KD, score=self.score, mask=mask, look=look).squeeze(1)
        else:
            copied_BTK, context_BTD = self.copier(out_BTD, past_BKD, score=self.score, mask=mask, look=look, site="attention")
        context_BTD = at_site(look, "context", context_BTD)

        features_BTD = packed.restore(torch.cat([out_BTD, context_BTD], 2))
        if self.join is not None:
            features_BTD = torch.tanh(self.join(features_BTD))
        end_B, keep = state.slot_BS.shape[1] + packed.length_B, min(self.config.lookback, slot_BK.shape[1])
        new = AttentiveState(
            state.position_B + packed.length_B,
            hidden,
            cell,
            newest(past_BKD, end_B, keep),
            newest(slot_BK, end_B, keep),
            newest(token_BK, end_B, keep),
        )
        prediction: Prediction = self.readout(drop_alike(features_BTD, self.config.dropout, self.training), self.embedding)
        if self.copier is not None:
            prediction = CopyPrediction(prediction, packed.restore(copied_BTK), token_BK, self.vocabulary_size)
        return prediction, new
