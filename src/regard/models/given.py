"""The inputs that the state of a model can begin with: source sentences, or images.

Shape legend: B rows, S source positions, C channels, Y and X pixels, R regions, D features.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from regard.parts.regions import Grid
from regard.tokens.captions import EncodedCaptions, Features
from regard.tokens.contract import Encoded
from regard.tokens.pairs import EncodedPairs, GivenExamples, source_rows


@dataclass(frozen=True)
class Given(ABC):
    """The kind of tensor that `begin` takes. A run stores `size`, from which the model is made again."""

    does: ClassVar[str]  # what a model with such a state does, for messages: "translates"
    verb: ClassVar[str]  # that uses the model, such as translate

    size: Any
    longest: int | None = None  # the maximal number of source tokens; None: no limit

    @abstractmethod
    def smallest(self, device: torch.device) -> Tensor:
        """Return the smallest argument of `begin`, with a single row."""

    @abstractmethod
    def rows(self, examples: Any, places_B: Tensor) -> Tensor:
        """Return what the states of these examples begin with."""

    @abstractmethod
    def lengths(self, given: Tensor) -> Sequence[int | None]:
        """Return the number of columns that a map over each row shows; None: all of them."""

    @abstractmethod
    def random(self, rows: int, random: Random) -> Tensor:
        """Return random rows of different lengths, for the laws."""

    @abstractmethod
    def random_examples(self, target: Encoded, random: Random) -> GivenExamples:
        """Return random examples with these texts, for the laws."""


@final
@dataclass(frozen=True)
class Sentences(Given):
    """Source sentences: ids below `size`, padded with the id `size`."""

    does = "translates"
    verb = "translate"

    size: int

    @property
    def padding(self) -> int:
        return self.size

    def smallest(self, device: torch.device) -> Tensor:
        return torch.zeros(1, 1, dtype=torch.long, device=device)

    def rows(self, examples: EncodedPairs, places_B: Tensor) -> Tensor:
        return source_rows(examples.source, places_B, self.padding)

    def lengths(self, given: Tensor) -> list[int]:
        return (given != self.padding).sum(1).tolist()

    def random(self, rows: int, random: Random) -> Tensor:
        """Return random sentences with padding anywhere."""
        sentences = [self._sentence(random, 5) for _ in range(rows)]
        longest = max(map(len, sentences))
        for sentence in sentences:
            while len(sentence) < longest:
                sentence.insert(random.randint(0, len(sentence)), self.padding)
        return torch.tensor(sentences)

    def random_examples(self, target: Encoded, random: Random) -> EncodedPairs:
        sentences = [self._sentence(random, 7) for _ in range(len(target.ends_D))]
        ids = torch.tensor([token for sentence in sentences for token in sentence])
        ends = torch.tensor([len(sentence) for sentence in sentences]).cumsum(0)
        return EncodedPairs(Encoded(ids, ends, bytes=len(ids), unknown=0), target)

    def _sentence(self, random: Random, longest: int) -> list[int]:
        return [random.randrange(self.size) for _ in range(random.randint(1, longest))]


@final
@dataclass(frozen=True)
class Images(Given):
    """Images of one size, or the features of regions; NaN stands for what is not there.

    `size` is (channels, height, width) of pixels between -1 and 1: an image that does not fill the frame has
    NaN on its right or below. Or it is (regions, features): a row with fewer regions has NaN in the others.
    """

    does = "captions images"
    verb = "caption"

    size: tuple[int, ...]
    grid: Grid | None = None  # the regions of images; None for given features

    def region_names(self) -> tuple[str, ...]:
        """Return the number of each region, row by row from the upper left corner. Edits name it."""
        return tuple(map(str, range(self.size[0] if self.grid is None else len(self.grid.boxes()))))

    def smallest(self, device: torch.device) -> Tensor:
        return torch.zeros(1, *self.size, device=device)

    def rows(self, examples: EncodedCaptions, places_B: Tensor) -> Tensor:
        return examples.images.rows(examples.image_P[places_B])

    def lengths(self, given: Tensor) -> list[None]:
        return [None] * len(given)  # the regions keep their places in the grid

    def random(self, rows: int, random: Random) -> Tensor:
        """Return random images, some of which do not fill the frame."""
        generator = torch.Generator().manual_seed(random.randrange(1 << 30))
        given = torch.rand(rows, *self.size, generator=generator, dtype=torch.get_default_dtype()) * 2 - 1
        for image in given:
            if len(self.size) == 2:
                image[random.randint(1, self.size[0]) :] = torch.nan
            else:
                image[:, random.randint(1, self.size[1]) :] = torch.nan
                image[:, :, random.randint(1, self.size[2]) :] = torch.nan
        return given

    def random_examples(self, target: Encoded, random: Random) -> EncodedCaptions:
        count = len(target.ends_D)
        return EncodedCaptions(Features(self.random(count, random)), torch.arange(count), target)


def as_sentences(given: Given | None) -> Sentences:
    """Return what the states of a translator begin with."""
    assert isinstance(given, Sentences)
    return given


def as_images(given: Given | None) -> Images:
    """Return what the states of a captioner begin with."""
    assert isinstance(given, Images)
    return given
