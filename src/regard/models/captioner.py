"""The captioner: a recurrent decoder that attends to the regions of an image (Xu et al. 2015).

    H = regions of the image, each a vector with its position (parts/regions.py)
    s_0 = tanh(W_0 [g_1; ...; g_R]),   g_r = drop(W_g H_r): a few numbers for each region

recurrent_decoder.py has the equations of the decoder. The first state holds the layout of the image:
attention compares the regions with a state one by one, so it cannot find the leftmost shape by itself.

Shape legend: B rows, R regions, T positions, G features of a glance, D width, L layers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.given import Images
from regard.models.recurrent_decoder import MaybeScore, RecurrentDecoder, RecurrentDecoderState
from regard.models.source import check_given
from regard.parts.layers import drop, drop_alike
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.parts.products import Linear
from regard.parts.recurrence import CellName, begin_embedding
from regard.parts.regions import RegionName, Regions, make_grid
from regard.ranges import Count, Layers, Share

GLANCE = 8  # features of a region in the first state
GLANCE_DROPOUT = (
    0.3  # in training: else a seed may read the words from the first state, and attend to nothing
)
TOKEN_DEFAULTS: dict[str, Any] = {"tokens": "word", "document": "line"}
PIXELS = (3, 32, 32)


@final
class Captioner(RecurrentDecoder):
    family = "captioner"
    reads = "captions"
    token_defaults: ClassVar[dict[str, Any]] = TOKEN_DEFAULTS
    training_defaults: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.002,
        "weight_decay": 0.01,
        "batch": 32,
        "steps": 5000,
        "evaluate_every": 500,
    }
    medium: ClassVar[dict[str, Any]] = {"width": 512}

    @dataclass(frozen=True, kw_only=True)
    class Config:
        regions: RegionName = "grid"
        """Regions of an image: a grid of convolutions, or patches of pixels."""
        patch: Count | None = None
        """Side of a region in pixels (4, or more for at most 100 regions)."""
        cell: CellName = "lstm"
        """The recurrent cell."""
        layers: Layers = 1
        """Number of recurrent layers."""
        width: Count = 128
        """Number of features of an embedding, a region and a hidden state."""
        score: MaybeScore = "dot"
        """Score function of attention, between a state and a region; none: no attention."""
        state: Literal["after", "before"] = "after"
        """The state that attends: after the last word was read, or before it. With before, the context is an
        input of the next state, as first published (slower: a loop over time)."""
        dropout: Share = 0.1
        """Share of features set to zero in training, the same features at every position of a row."""

        def __post_init__(self) -> None:
            if self.state == "before" and self.score == "none":
                raise UserError("`state` before needs attention: choose another `score` than none")

    def __init__(self, vocabulary_size: int, config: Config, size: tuple[int, ...] = PIXELS):
        super().__init__(vocabulary_size, config)
        grid = make_grid(tuple(size), config.patch, config.regions)
        self.given: Images = Images(tuple(size), grid=grid)
        width = config.width
        self.regions = Regions(self.given.size, grid, config.regions, width)
        self.glance = Linear(width, GLANCE)
        self.first = Linear(len(self.regions.position_RD) * GLANCE, config.layers * width)
        self.embedding = nn.Embedding(vocabulary_size + 2, width)
        begin_embedding(self.embedding)
        before = config.state == "before"
        self.add_decoder(config.cell, config.layers, width, config.score, before, config.dropout)

    def sites(self) -> dict[str, Site]:
        own = declare(values_at("regions", "BSD", rows="given"))
        return own | self.decoder_sites()

    def begin(self, given: int | Tensor, look: Look | None = None) -> RecurrentDecoderState:
        """Look at the images."""
        regions_BRD, slot_BR = see(self.regions, check_given(given), look)
        glance_BRG = self.glance(regions_BRD) * (slot_BR > 0).unsqueeze(2)
        glance_BRG = drop(glance_BRG, GLANCE_DROPOUT, self.training)
        hidden_BLD = torch.tanh(self.first(glance_BRG.flatten(1))).unflatten(1, (self.config.layers, -1))
        regions_BRD = drop_alike(regions_BRD, self.config.dropout, self.training)
        return self.first_state(slot_BR, regions_BRD, hidden_BLD)


def see(regions: Regions, given: Tensor, look: Look | None) -> tuple[Tensor, Tensor]:
    """Return the regions (B, R, D) of images, and 1 + the number of each region, 0 if it is not there."""
    regions_BRD, there_BR = regions(given)
    number_R = torch.arange(there_BR.shape[1], device=given.device)
    if look is not None:
        look.begin(torch.where(there_BR, number_R, -1))
    return at_site(look, "regions", regions_BRD), torch.where(there_BR, number_R + 1, 0)
