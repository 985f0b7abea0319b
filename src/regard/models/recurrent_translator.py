"""The recurrent translator: a bidirectional encoder, and a decoder with attention to the encoder's states.

    H = [forward; backward] states of the source

recurrent_decoder.py has the equations of the decoder. Without attention (`score` none), the decoder's first
state is the only information about the source.

Shape legend: B rows, S source positions, D width, L layers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import UserError
from regard.models.given import Sentences
from regard.models.recurrent_decoder import MaybeScore, RecurrentDecoder, RecurrentDecoderState
from regard.models.source import check_given
from regard.parts.layers import drop_alike
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.parts.products import Linear
from regard.parts.recurrence import CellName, begin_embedding, pack_left
from regard.ranges import Count, Layers, Share


@final
class RecurrentTranslator(RecurrentDecoder):
    family = "recurrent-translator"
    reads = "pairs"
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "word", "document": "line"}
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
        score: MaybeScore = "bilinear"
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
        self.given: Sentences = Sentences(vocabulary_size if source_size is None else source_size)
        width = config.width
        self.source_embedding = nn.Embedding(self.given.size + 1, width)
        self.embedding = nn.Embedding(vocabulary_size + 2, width)
        for table in (self.source_embedding, self.embedding):
            begin_embedding(table)
        library = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[config.cell]
        self.encoder = library(width, width, config.layers, batch_first=True, bidirectional=True)
        self.narrow = Linear(2 * width, width)  # maps the states of both directions to the width
        self.first = Linear(2 * width, config.layers * width)  # the decoder's first state
        self.add_decoder(config.cell, config.layers, width, config.score, config.feed, config.dropout)

    def sites(self) -> dict[str, Site]:
        own = declare(values_at("source.embedding", "BSD", rows="given"))
        if self.score is not None:
            own |= declare(values_at("source.hidden", "BSD", rows="given", remembers=True))
        return own | self.decoder_sites()

    def begin(self, given: int | Tensor, look: Look | None = None) -> RecurrentDecoderState:
        """Encode the source sentences."""
        packed = pack_left(check_given(given), self.given.padding, "anywhere")
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
        return self.first_state(slot_BS, memory_BSD, hidden_BLD)
