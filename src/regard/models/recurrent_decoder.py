"""A recurrent decoder with attention to what its state began with: source words, or regions of an image.

    s_t = f(y_t, s_{t-1}),   a_tj = softmax_j score(s_t, H_j),   c_t = sum_j a_tj H_j
    P(y_{t+1}) = softmax(U tanh(W [s_t; c_t]))

Attention does not feed back into the recurrence, so training needs no loop over time (Luong et al. 2015).

With `feed`, the context is an input of the next state, as first published: s_t = f([y_t; c_t], s_{t-1}),
with scores of s_{t-1} and H_j (Bahdanau et al. 2015; for images, Xu et al. 2015). Training then needs a loop.

Without attention (`score` none), the first state is the only information about what was given.

Shape legend: B rows, S source positions or regions, T target positions, D width, L layers.
"""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, Padded, Prediction
from regard.models.predictions import Readout
from regard.models.source import SourceState, source_mask
from regard.parts.attention import attend
from regard.parts.layers import drop_alike
from regard.parts.look import Look, Site, at_site, attention_sites, declare, values_at
from regard.parts.products import Linear
from regard.parts.recurrence import CellName, Packed, Recurrence, pack_left
from regard.parts.scores import ScoreName, make_score

MaybeScore = ScoreName | Literal["none"]


@dataclass(frozen=True)
class RecurrentDecoderState(SourceState):
    """The memory of what was given, and the state of the decoder. `memory` holds H, a single tensor."""

    hidden_BLD: Tensor
    cell_BLD: Tensor | None


class RecurrentDecoder(LanguageModel, ABC):
    """The base class of families with this decoder. A subclass implements `begin`."""

    steady = True
    compiles: ClassVar[bool] = False  # batches differ in shape, and each shape would be compiled
    embedding: nn.Embedding

    def add_decoder(
        self, cell: CellName, layers: int, width: int, score: MaybeScore, feed: bool, dropout: float
    ) -> None:
        """Make the layers after the embedding."""
        self.dropout = dropout
        self.recurrence = Recurrence(cell, layers, width, dropout, 0.0)
        attentive = score != "none"
        self.score = make_score(score, width, width) if score != "none" else None
        self.feed = Linear(2 * width, width) if feed and attentive else None
        self.join = Linear(2 * width, width) if attentive else Linear(width, width)
        self.readout = Readout(self.vocabulary_size, width, tied=True)

    def decoder_sites(self) -> dict[str, Site]:
        own = declare(values_at("embedding"), values_at("hidden", remembers=True))
        if self.score is not None:
            own |= declare(values_at("context")) | attention_sites("attention", columns="given")
        return own | (self.recurrence.sites() if self.feed is None else {})

    def first_state(self, slot_BS: Tensor, memory_BSD: Tensor, hidden_BLD: Tensor) -> RecurrentDecoderState:
        """Return the state before the first token. `slot_BS` is 1 + the position of each column, or 0."""
        position_B = torch.zeros(len(slot_BS), dtype=torch.long, device=slot_BS.device)
        cell_BLD = torch.zeros_like(hidden_BLD) if self.recurrence.cell == "lstm" else None
        return RecurrentDecoderState(position_B, slot_BS, (memory_BSD,), hidden_BLD, cell_BLD)

    def forward(
        self,
        tokens_BT: Tensor,
        state: RecurrentDecoderState,
        look: Look | None = None,
        padded: Padded = "anywhere",
    ) -> tuple[Prediction, RecurrentDecoderState]:
        packed = pack_left(tokens_BT, self.padding, padded)
        position_BT = packed.positions(state.position_B)
        if look is not None:
            look.begin(position_BT)
        x_BTD = drop_alike(self.embedding(packed.tokens_BT), self.dropout, self.training)
        x_BTD = at_site(look, "embedding", x_BTD)
        if self.feed is None:
            out_BTD, hidden, cell = self.recurrence(x_BTD, state.hidden_BLD, state.cell_BLD, packed, look)
            query_BTD = out_BTD
        else:
            out_BTD, hidden, cell = self._step_by_step(x_BTD, position_BT, packed, state, look)
            query_BTD = torch.cat([state.hidden_BLD[:, -1:], out_BTD[:, :-1]], 1)
        out_BTD = at_site(look, "hidden", out_BTD)
        features_BTD = out_BTD
        if self.score is not None:
            context_BTD = at_site(look, "context", self._context(query_BTD, position_BT, state, look))
            features_BTD = torch.cat([out_BTD, context_BTD], 2)
        features_BTD = torch.tanh(self.join(packed.restore(features_BTD)))
        features_BTD = drop_alike(features_BTD, self.dropout, self.training)
        new = RecurrentDecoderState(
            state.position_B + packed.length_B, state.source_BS, state.memory, hidden, cell
        )
        return self.readout(features_BTD, self.embedding), new

    def _context(
        self, query_BTD: Tensor, position_BT: Tensor, state: RecurrentDecoderState, look: Look | None
    ) -> Tensor:
        """(B, T, D): the average of what was given by the attention weights of each position."""
        assert self.score is not None
        rows, length, width = query_BTD.shape
        query = query_BTD.reshape(len(state.source_BS), 1, -1, width)
        memory = state.memory[0].unsqueeze(1)
        mask = source_mask(position_BT, state)
        mixed = attend(query, memory, memory, score=self.score, mask=mask, look=look, site="attention")
        return mixed.view(rows, length, width)

    def _step_by_step(
        self,
        x_BTD: Tensor,
        position_BT: Tensor,
        packed: Packed,
        state: RecurrentDecoderState,
        look: Look | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Run the recurrence position by position, because a state depends on the context of the last one."""
        assert self.feed is not None
        hidden, cell, outs = state.hidden_BLD, state.cell_BLD, []
        for place in range(x_BTD.shape[1]):
            context_B1D = self._context(hidden[:, -1:], position_BT[:, place : place + 1], state, look)
            fed_B1D = torch.tanh(self.feed(torch.cat([x_BTD[:, place : place + 1], context_B1D], 2)))
            step = Packed(packed.tokens_BT[:, place : place + 1], (place < packed.length_B).long(), None)
            out_B1D, hidden, cell = self.recurrence(fed_B1D, hidden, cell, step, None)
            outs.append(out_B1D)
        return torch.cat(outs, 1), hidden, cell
