"""The Transformer captioner: a Transformer decoder with cross-attention to the regions of an image.

H = regions of the image, each a vector with its position (parts/regions.py); transformer_decoder.py has the
decoder. The regions do not attend to each other: a region then holds only its own part of the image, and the
weights of a word say where the word comes from.

Shape legend: B rows, R regions, D width.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from torch import Tensor, nn

from regard.errors import UserError
from regard.models.captioner import PIXELS, TOKEN_DEFAULTS, see
from regard.models.given import Images
from regard.models.source import check_given
from regard.models.transformer_decoder import TransformerDecoder, TransformerDecoderState
from regard.models.trunk_config import TrunkConfig
from regard.parts.look import Look, Site, declare, values_at
from regard.parts.regions import RegionName, Regions, make_grid
from regard.ranges import Count


@final
class TransformerCaptioner(TransformerDecoder):
    family = "transformer-captioner"
    reads = "captions"
    token_defaults: ClassVar[dict[str, Any]] = TOKEN_DEFAULTS
    training_defaults: ClassVar[dict[str, Any]] = {
        "batch": 32,
        "learning_rate": 0.001,
        "weight_decay": 0.01,
        "warmup": 0.1,
        "steps": 5000,
        "evaluate_every": 500,
    }
    medium: ClassVar[dict[str, Any]] = {"layers": 4, "width": 384, "heads": 6}

    @dataclass(frozen=True, kw_only=True)
    class Config(TrunkConfig):
        regions: RegionName = "patches"
        """Regions of an image: a grid of convolutions, or patches of pixels."""
        patch: Count | None = None
        """Side of a region in pixels (4, or more for at most 100 regions)."""
        context: Count = 64
        """Maximal number of tokens in a caption."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.projections != "learned" or self.positions in ("onehot", "sinusoidal-appended"):
                raise UserError(
                    "a captioner needs `projections` learned, and `positions` other than onehot and "
                    "sinusoidal-appended"
                )

    def __init__(self, vocabulary_size: int, config: Config, size: tuple[int, ...] = PIXELS):
        super().__init__(vocabulary_size, config)
        grid = make_grid(tuple(size), config.patch, config.regions)
        self.given: Images = Images(tuple(size), grid=grid)
        self.regions = Regions(self.given.size, grid, config.regions, config.width)
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.add_decoder(config)

    def sites(self) -> dict[str, Site]:
        return declare(values_at("regions", "BSD", rows="given")) | self.decoder_sites()

    def begin(self, given: int | Tensor, look: Look | None = None) -> TransformerDecoderState:
        """Look at the images, and compute keys and values of regions for every layer of the decoder."""
        regions_BRD, slot_BR = see(self.regions, check_given(given), look)
        return self.first_state(slot_BR, regions_BRD)
