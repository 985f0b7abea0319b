"""Encoded captions of images, and batches of captions for training.

Shape legend: B rows, N images, P captions, C channels, Y and X pixels, R regions, D features, T positions.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.text.captions import Captioned
from regard.text.images import Fitted, fit, frame_of, image_size, open_image
from regard.text.scenes import draw
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import ExampleSchedule, GivenExamples, encode_lines

DRAWN = 1000  # scenes that are drawn at a time
CHANNELS, SCENE = 3, 32  # colours of a pixel; pixels on a side of a built-in scene


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
    def part(self, first: int) -> "ImageRows":
        """Return the first images."""

    @abstractmethod
    def filled(self, image: int) -> tuple[int, int]:
        """Return the height and the width of an image in its frame, in pixels."""

    @abstractmethod
    def rows(self, places_B: Tensor) -> Tensor:
        """Return these images for the model: NaN stands for what is not there."""

    @abstractmethod
    def data(self) -> bytes:
        """Return all numbers, for a hash."""


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

    def part(self, first: int) -> "Pixels":
        return Pixels(self.bytes_NYXC[:first], self.filled_N2[:first])

    def filled(self, image: int) -> tuple[int, int]:
        height, width = self.filled_N2[image].tolist()
        return height, width

    def data(self) -> bytes:
        return self.bytes_NYXC.numpy().tobytes()

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

    def part(self, first: int) -> "Features":
        return Features(self.values_NRD[:first])

    def filled(self, image: int) -> tuple[int, int]:
        raise TypeError("features have no pixels")

    def data(self) -> bytes:
        return self.values_NRD.numpy().tobytes()


def load_images(captioned: Captioned, size: Sequence[int]) -> ImageRows:
    """Read the images, and fit them into frames of this size (channels, height, width)."""
    if captioned.features is not None:
        return Features(pad_features([captioned.features[name] for name in captioned.names], size))
    _, height, width = size
    if captioned.scenes and height == width:
        parts = (captioned.scenes[first : first + DRAWN] for first in range(0, len(captioned.scenes), DRAWN))
        drawn = torch.cat([torch.from_numpy(draw(part, height)) for part in parts])
        return Pixels(drawn, torch.full((len(drawn), 2), height))
    return Pixels.of([fit(open_image(name), height, width) for name in captioned.names])


def size_of(captioned: Captioned, longest: int) -> tuple[int, ...]:
    """Return the size of the frame that holds all images, or the most regions and their features."""
    if captioned.features is not None:
        arrays = [captioned.features[name] for name in captioned.names]
        return max(len(array) for array in arrays), arrays[0].shape[1]
    if captioned.scenes:
        return CHANNELS, SCENE, SCENE
    return CHANNELS, *frame_of([image_size(name) for name in captioned.names], longest)


def pad_features(arrays: list[np.ndarray], size: Sequence[int]) -> Tensor:
    """(N, R, D): arrays of features, with NaN for missing regions."""
    values_NRD = torch.full((len(arrays), *size), torch.nan)
    for values_RD, array in zip(values_NRD, arrays, strict=True):
        if array.shape[0] > size[0] or array.shape[1] != size[1]:
            raise UserError(
                f"features of shape {array.shape} do not fit a model of {size[0]} regions with {size[1]} "
                "features each"
            )
        values_RD[: len(array)] = torch.from_numpy(array)
    return values_NRD


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


def encode_captions(captioned: Captioned, images: ImageRows, tokenizer: Tokenizer) -> EncodedCaptions:
    """Encode captions and put them together with their images, which are already read."""
    return EncodedCaptions(
        images, torch.tensor(captioned.image_P), encode_lines(tokenizer, captioned.captions)
    )


def record_of(captioned: Captioned, images: ImageRows) -> dict[str, Any]:
    """Return the name, files, size and hash of captioned images, for the config of a run."""
    lines = zip(captioned.image_P, captioned.captions, strict=True)
    text = "\n".join(f"{image}\t{caption}" for image, caption in lines).encode()
    return {
        "name": captioned.name,
        "files": list(captioned.files),
        "pairs": len(captioned),
        "bytes": len(text),
        "sha256": hashlib.sha256(text + images.data()).hexdigest(),
    }
