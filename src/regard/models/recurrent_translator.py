"""The recurrent translator: a bidirectional encoder, and a decoder with attention to the encoder's states.

    H = [forward; backward] states of the source
    s_t = f(y_t, s_{t-1}),   a_tj = softmax_j score(s_t, H_j),   c_t = sum_j a_tj H_j
    P(y_{t+1}) = softmax(U tanh(W [s_t; c_t]))

Attention does not feed back into the recurrence, so training needs no loop over time (Luong et al. 2015).

The option `feed` is the form that was published first (Bahdanau et al. 2015). There the context is an input
of the next state: s_t = f([y_t; c_t], s_{t-1}), with scores of s_{t-1} and H_j. Training then needs a loop.

Without attention (`score` none), the decoder's first state is the only information about the source.

Shape legend: B rows, S source positions, T target positions, D width, L layers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import UserError
from regard.models.contract import Given, LanguageModel, Padded, Prediction
from regard.models.predictions import Readout
from regard.models.source import SourceState, check_source, source_mask
from regard.parts.attention import attend
from regard.parts.layers import drop_alike
from regard.parts.look import Look, Site, at_site, attention_sites, declare, values_at
from regard.parts.recurrence import CellName, Packed, Recurrence, begin_embedding, pack_left
from regard.parts.scores import make_score
from regard.ranges import Count, Layers, Share


@dataclass(frozen=True)
class RecurrentTranslatorState(SourceState):
    """The source, and the state of the decoder. `memory` holds the encoder's states, a single tensor."""

    hidden_BLD: Tensor
    cell_BLD: Tensor | None


@final
class RecurrentTranslator(LanguageModel):
    family = "recurrent-translator"
    reads = "pairs"
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "word", "document": "line"}
    steady = True
    compiles: ClassVar[bool] = False  # batches differ in shape, and each shape would be compiled
    training_defaults: ClassVar[dict[str, Any]] = {
        "optimiser": "muon",
        "learning_rate": 0.005,
        "weight_decay": 0.01,
    }
    medium: ClassVar[dict[str, Any]] = {"width": 256, "batch_tokens": 2048, "label_smoothing": 0.1}

    @dataclass(frozen=True, kw_only=True)
    class Config:
        cell: CellName = "lstm"
        """The recurrent cell."""
        layers: Layers = 1
        """Number of recurrent layers in the encoder, and in the decoder."""
        width: Count = 128
        """Number of features of an embedding and of a hidden state."""
        score: Literal["additive", "bilinear", "dot", "scaled-dot", "none"] = "bilinear"
        """Score function of attention, between a target state and a source state; none: no attention."""
        feed: bool = False
        """Make the context an input of the next state, as first published (slower: a loop over time)."""
        dropout: Share = 0.2
        """Share of features set to zero in training, the same features at every position of a row."""

        def __post_init__(self) -> None:
            if self.feed and self.score == "none":
                raise UserError(
                    "`feed` needs attention: choose another `score` than none, or leave out `feed`"
                )

    def __init__(self, vocabulary_size: int, config: Config, source_size: int | None = None):
        super().__init__(vocabulary_size, config)
        self.given = Given(vocabulary_size if source_size is None else source_size)
        width = config.width
        self.source_embedding = nn.Embedding(self.given.size + 1, width)
        self.embedding = nn.Embedding(vocabulary_size + 2, width)
        for table in (self.source_embedding, self.embedding):
            begin_embedding(table)
        library = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[config.cell]
        self.encoder = library(width, width, config.layers, batch_first=True, bidirectional=True)
        self.narrow = nn.Linear(2 * width, width)  # maps the states of both directions to the width
        self.first = nn.Linear(2 * width, config.layers * width)  # the decoder's first state
        self.recurrence = Recurrence(config.cell, config.layers, width, config.dropout, 0.0)
        attentive = config.score != "none"
        self.score = make_score(config.score, width, width) if config.score != "none" else None
        self.feed = nn.Linear(2 * width, width) if config.feed and attentive else None
        self.join = nn.Linear(2 * width, width) if attentive else nn.Linear(width, width)
        self.readout = Readout(vocabulary_size, width, tied=True)

    def sites(self) -> dict[str, Site]:
        own = declare(
            values_at("source.embedding", "BSD", rows="given"),
            values_at("embedding"),
            values_at("hidden", remembers=True),
        )
        if self.score is not None:
            own |= declare(
                values_at("source.hidden", "BSD", rows="given", remembers=True), values_at("context")
            )
            own |= attention_sites("attention", columns="given")
        return own | (self.recurrence.sites() if self.feed is None else {})

    def begin(self, given: int | Tensor, look: Look | None = None) -> RecurrentTranslatorState:
        """Encode the source sentences."""
        assert self.given is not None
        packed = pack_left(check_source(given), self.given.padding, "anywhere")
        if look is not None:
            look.begin(packed.positions(torch.zeros_like(packed.length_B)))
        x_BSD = drop_alike(self.source_embedding(packed.tokens_BT), self.config.dropout, self.training)
        x_BSD = at_site(look, "source.embedding", x_BSD)
        # The two directions begin at the two ends of each sentence, so the rows are packed without padding.
        rows = pack_padded_sequence(
            x_BSD, packed.length_B.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        out, end = self.encoder(rows)
        both_BSD, _ = pad_packed_sequence(out, batch_first=True, total_length=x_BSD.shape[1])
        hidden_2LBD = end if isinstance(end, Tensor) else end[0]
        last_BD = torch.cat([hidden_2LBD[-2], hidden_2LBD[-1]], 1)
        memory_BSD = drop_alike(self.narrow(both_BSD), self.config.dropout, self.training)
        memory_BSD = memory_BSD if self.score is None else at_site(look, "source.hidden", memory_BSD)
        hidden_BLD = torch.tanh(self.first(last_BD)).unflatten(1, (self.config.layers, -1))
        slot_BS = torch.where(packed.real_BT, packed.positions(torch.ones_like(packed.length_B)), 0)
        cell_BLD = torch.zeros_like(hidden_BLD) if self.config.cell == "lstm" else None
        return RecurrentTranslatorState(
            torch.zeros_like(packed.length_B), slot_BS, (memory_BSD,), hidden_BLD, cell_BLD
        )

    def forward(
        self,
        tokens_BT: Tensor,
        state: RecurrentTranslatorState,
        look: Look | None = None,
        padded: Padded = "anywhere",
    ) -> tuple[Prediction, RecurrentTranslatorState]:
        packed = pack_left(tokens_BT, self.padding, padded)
        position_BT = packed.positions(state.position_B)
        if look is not None:
            look.begin(position_BT)
        x_BTD = drop_alike(self.embedding(packed.tokens_BT), self.config.dropout, self.training)
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
        features_BTD = drop_alike(features_BTD, self.config.dropout, self.training)
        new = RecurrentTranslatorState(
            state.position_B + packed.length_B, state.source_BS, state.memory, hidden, cell
        )
        return self.readout(features_BTD, self.embedding), new

    def _context(
        self, query_BTD: Tensor, position_BT: Tensor, state: RecurrentTranslatorState, look: Look | None
    ) -> Tensor:
        """(B, T, D): the average of the source states by the attention weights of each position."""
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
        state: RecurrentTranslatorState,
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
