"""Encoded captions of images, and batches of captions for training.

Shape legend: B rows, N images, P captions, C channels, Y and X pixels, R regions, D features, T positions.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from regard.text.images import Fitted
from regard.tokens.contract import Encoded
from regard.tokens.pairs import ExampleSchedule, GivenExamples


class ImageRows(ABC):
    """Images in memory, from which the rows of a batch are taken."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def size(self) -> tuple[int, ...]:
        """(channels, height, width) of pixels, or (regions, features)."""

    @property
    @abstractmethod
    def cost(self) -> int:
        """The number of positions that an image takes in a batch."""

    @abstractmethod
    def rows(self, places_B: Tensor) -> Tensor:
        """Return these images for the model: NaN stands for what is not there."""


@final
@dataclass(frozen=True)
class Pixels(ImageRows):
    """Images as bytes, in the upper left corner of a common frame."""

    bytes_NYXC: Tensor
    filled_N2: Tensor  # the height and the width of each image

    @classmethod
    def of(cls, images: list[Fitted]) -> "Pixels":
        """Store images of one frame."""
        pixels = torch.from_numpy(np.stack([image.pixels for image in images]))
        return cls(pixels, torch.tensor([image.filled for image in images]))

    def __len__(self) -> int:
        return len(self.bytes_NYXC)

    @property
    def size(self) -> tuple[int, ...]:
        _, height, width, channels = self.bytes_NYXC.shape
        return channels, height, width

    @property
    def cost(self) -> int:
        return self.bytes_NYXC.shape[1] * self.bytes_NYXC.shape[2] // 16

    def rows(self, places_B: Tensor) -> Tensor:
        pixels = self.bytes_NYXC[places_B].permute(0, 3, 1, 2).to(torch.get_default_dtype()) / 127.5 - 1
        height, width = pixels.shape[2:]
        filled_B2 = self.filled_N2[places_B].view(-1, 2, 1, 1, 1)
        if bool((self.filled_N2 == torch.tensor([height, width])).all()):
            return pixels
        outside = (torch.arange(height).view(-1, 1) >= filled_B2[:, 0]) | (
            torch.arange(width) >= filled_B2[:, 1]
        )
        return pixels.masked_fill(outside, torch.nan)


@final
@dataclass(frozen=True)
class Features(ImageRows):
    """The features of the regions of images, which another tool has computed. NaN pads missing regions."""

    values_NRD: Tensor

    def __len__(self) -> int:
        return len(self.values_NRD)

    @property
    def size(self) -> tuple[int, ...]:
        return tuple(self.values_NRD.shape[1:])

    @property
    def cost(self) -> int:
        return self.values_NRD.shape[1]

    def rows(self, places_B: Tensor) -> Tensor:
        return self.values_NRD[places_B]


@final
@dataclass(frozen=True)
class EncodedCaptions(GivenExamples):
    """Captions and their images. Caption i is document i of the target."""

    images: ImageRows
    image_P: Tensor  # the index of the image of each caption
    target: Encoded

    @property
    def lengths_P(self) -> Tensor:
        return self.target.lengths_D.clamp(min=self.images.cost)


@final
class CaptionSchedule(ExampleSchedule):
    """Shuffled captions, `batch` in each step."""

    def __init__(self, captions: EncodedCaptions, batch: int, seed: int):
        self.examples, self._batch, self._seed, self._epoch = captions, min(batch, len(captions)), seed, -1
        self._order_P = torch.arange(0)

    def steps(self, epoch: int) -> int:
        return len(self.examples) // self._batch

    def chosen(self, epoch: int, step: int) -> Tensor:
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
            self._order_P, self._epoch = torch.randperm(len(self.examples), generator=generator), epoch
        return self._order_P[step * self._batch : (step + 1) * self._batch]
