"""A toy family that keeps the contract: a recurrent model that attends to earlier states and copies tokens.

The code works position by position, with padding anywhere in a row, so that the contract is tested on a model
that differs from n-grams in every respect.

Shape legend: B rows, T positions, S positions remembered, D width.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Padded, Prediction, State
from regard.models.predictions import CopyPrediction, SoftmaxPrediction
from regard.parts.look import Look


@dataclass(frozen=True)
class ToyState(State):
    hidden_BD: Tensor
    past_BSD: Tensor
    tokens_BS: Tensor  # 1 + what stood at each remembered position; 0 where nothing did


@final
class Toy(LanguageModel):
    family = "toy"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 7

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        width = config.width
        self.embedding = nn.Embedding(vocabulary_size + 2, width)
        self.cell = nn.GRUCell(width, width)
        self.gate = nn.Linear(width, 1)
        self.readout = nn.Linear(2 * width, vocabulary_size)

    def begin(self, given: int | Tensor, look: Look | None = None) -> ToyState:
        empty_BSD = self.readout.weight.new_zeros(int(given), 0, self.config.width)
        position_B = torch.zeros(int(given), dtype=torch.long)
        return ToyState(
            position_B,
            empty_BSD.new_zeros(int(given), self.config.width),
            empty_BSD,
            position_B.unsqueeze(1)[:, :0],
        )

    def forward(
        self, tokens_BT: Tensor, state: ToyState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, ToyState]:
        hidden_BD, past_BSD, tokens_BS = state.hidden_BD, state.past_BSD, state.tokens_BS
        embedded_BTD = self.embedding(tokens_BT)
        features, gates, weights = [], [], []
        length = past_BSD.shape[1] + tokens_BT.shape[1]
        for t in range(tokens_BT.shape[1]):
            real_B1 = (tokens_BT[:, t] != self.padding).unsqueeze(1)
            hidden_BD = torch.where(real_B1, self.cell(embedded_BTD[:, t], hidden_BD), hidden_BD)
            weight_BS = torch.where(tokens_BS > 0, torch.einsum("bd,bsd->bs", hidden_BD, past_BSD).exp(), 0.0)
            weight_BS = weight_BS / weight_BS.sum(1, keepdim=True).clamp(min=1e-30)
            features.append(torch.cat([hidden_BD, torch.einsum("bs,bsd->bd", weight_BS, past_BSD)], 1))
            gates.append(self.gate(hidden_BD).sigmoid())
            weights.append(nn.functional.pad(weight_BS, (0, length - weight_BS.shape[1])))
            past_BSD = torch.cat([past_BSD, hidden_BD.unsqueeze(1)], 1)
            tokens_BS = torch.cat([tokens_BS, torch.where(real_B1, tokens_BT[:, t : t + 1] + 1, 0)], 1)
        position_B = state.position_B + (tokens_BT != self.padding).sum(1)
        softmax = SoftmaxPrediction(torch.stack(features, 1), self.readout.weight, self.readout.bias)
        copied_BTS = torch.stack(weights, 1) * torch.stack(gates, 1)
        sources_BS = torch.where(tokens_BS > 0, tokens_BS - 1, self.padding)
        place_BS = torch.where(tokens_BS > 0, (tokens_BS > 0).cumsum(1) - 1, -1)
        prediction = CopyPrediction(softmax, copied_BTS, sources_BS, place_BS, self.vocabulary_size)
        return prediction, ToyState(position_B, hidden_BD, past_BSD, tokens_BS)
