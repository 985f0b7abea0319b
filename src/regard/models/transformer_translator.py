"""The Transformer translator (Vaswani et al. 2017): an encoder reads the source, a decoder writes the target.

A block of the decoder attends to the target so far, and then to the source (transformer_decoder.py). The
published form is `norm` post with `positions` sinusoidal. The defaults are pre-norm and rotary positions.

Shape legend: B rows, S source positions, D width.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

from torch import Tensor, nn

from regard.errors import UserError
from regard.models.given import Sentences
from regard.models.source import check_given
from regard.models.transformer_decoder import TransformerDecoder, TransformerDecoderState
from regard.models.trunk import Trunk
from regard.models.trunk_config import TrunkConfig
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.ranges import Count, Share


@final
class TransformerTranslator(TransformerDecoder):
    family = "transformer-translator"
    reads = "pairs"
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "word", "document": "line"}
    training_defaults: ClassVar[dict[str, Any]] = {
        "optimiser": "muon",
        "learning_rate": 0.005,
        "weight_decay": 0.01,
        "warmup": 0.1,
    }
    medium: ClassVar[dict[str, Any]] = {
        "layers": 3,
        "width": 256,
        "batch_tokens": 2048,
        "label_smoothing": 0.1,
    }

    @dataclass(frozen=True, kw_only=True)
    class Config(TrunkConfig):
        dropout: Share = 0.1
        """Share of features set to zero in training."""
        context: Count = 128
        """Maximal number of tokens in a source or target sentence."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.projections != "learned" or self.positions in ("onehot", "sinusoidal-appended"):
                raise UserError(
                    "a translator needs `projections` learned, and `positions` other than onehot and "
                    "sinusoidal-appended"
                )

    def __init__(self, vocabulary_size: int, config: Config, source_size: int | None = None):
        super().__init__(vocabulary_size, config)
        size = vocabulary_size if source_size is None else source_size
        self.given: Sentences = Sentences(size, config.context)
        self.source_embedding = nn.Embedding(self.given.size + 1, config.width)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        for table in (self.source_embedding, self.embedding):
            nn.init.normal_(table.weight, std=config.width**-0.5)
        self.encoder = Trunk(config, side="given", causal=False)
        self.add_decoder(config)

    def sites(self) -> dict[str, Site]:
        source = self.encoder.sites() | declare(values_at("source.features", "BSD", rows="given"))
        return source | self.decoder_sites()

    def begin(self, given: int | Tensor, look: Look | None = None) -> TransformerDecoderState:
        """Encode the source sentences, and compute their keys and values for every layer of the decoder."""
        source_BS = check_given(given)
        real_BS = source_BS != self.given.padding
        scale = math.sqrt(self.config.width)  # embeddings become as large as positions (section 3.4)
        empty = self.encoder.begin(len(source_BS), self.embedding.weight)
        encoded_BSD, placement, _ = self.encoder(
            self.source_embedding(source_BS) * scale, real_BS, empty, look
        )
        encoded_BSD = at_site(look, "source.features", encoded_BSD)
        return self.first_state(placement.position_BT + 1, encoded_BSD)
