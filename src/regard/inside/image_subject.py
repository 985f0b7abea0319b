"""A word of a caption to explain: its words are the regions of the image.

A region that is left out is hidden: its pixels, or its features, are NaN, which attention does not see and
which its neighbours see as grey. The vectors of a region are those that the decoder attends to, position
included.

Shape legend: W worlds (copies of the image, each changed in its own way), T positions that are read, V
vocabulary, R regions, D width; Y and X pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.observe import Reading
from regard.inside.subject import NextPrediction, explaining, read_before
from regard.inside.word_vectors import Change
from regard.models.contract import LanguageModel
from regard.models.given import as_images
from regard.parts.look import Look, Place, Side
from regard.tokens.contract import Tokenizer


@final
@dataclass(frozen=True)
class NextOfCaption(NextPrediction):
    """The next token of a caption."""

    image: Tensor  # (1, C, Y, X), or (1, R, features)
    regions: tuple[int, ...]  # that hold something of the image

    @property
    def side(self) -> Side:
        return "given"

    @property
    def positions(self) -> list[int]:
        return list(self.regions)

    def inputs(
        self, worlds: int, words: Sequence[Sequence[int]] | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if words is None:
            return self._copies(self.ids, worlds), self.image.expand(worlds, *self.image.shape[1:])
        images = self.image.repeat(len(words), *[1] * (self.image.ndim - 1))
        for image, kept in zip(images, words, strict=True):
            self._hide(image, set(self.regions) - set(kept))
        return self._copies(self.ids, len(words)), images

    def _hide(self, image: Tensor, regions: set[int]) -> None:
        grid = as_images(self.model.given).grid
        if grid is None:
            image[sorted(regions)] = torch.nan
            return
        boxes = grid.boxes()
        for region in regions:
            left, top, right, bottom = map(int, boxes[region])
            image[:, top:bottom, left:right] = torch.nan

    def with_vectors(self, worlds: int, change: Change) -> Tensor:
        def at_regions(regions_WRD: Tensor, place: Place) -> Tensor:
            return change(0, regions_WRD)

        # cuDNN differentiates recurrent kernels in training mode alone
        with torch.backends.cudnn.flags(enabled=False):
            return self.log_probs(worlds, Look(changes={"regions": at_regions}))


def caption_subject(
    model: LanguageModel,
    tokenizer: Tokenizer,
    reading: Reading,
    word: str | None = None,
    position: int | None = None,
) -> NextOfCaption:
    """Choose a word of a caption: `word`, or the one that follows a position, or the likeliest."""
    read, following = read_before(model, reading, position)
    assert reading.given is not None
    seen = list[int]()

    def there(regions_BRD: Tensor, place: Place) -> Tensor:
        seen.extend(region for region in place.row_BT[0].tolist() if region >= 0)
        return regions_BRD

    with torch.no_grad():
        model.begin(reading.given, Look(changes={"regions": there}))
    if len(seen) < 2:
        raise UserError("attention has nothing to choose from: the image has one region; give a larger one")
    names = tuple(reading.given_names[region] for region in seen)
    plain = NextOfCaption(model, read, None, 0, "", names, 0, reading.given, tuple(seen))
    return explaining(plain, tokenizer, word, following)
