"""Regions of images: the parts of an image that words attend to, each as a vector with its position.

    grid       convolutions that halve the image until a region covers `patch` pixels
    patches    one linear map of the pixels of a square of `patch` pixels (Dosovitskiy et al. 2021)
    features   one linear map of given features, if the images are not pixels

A region sees hardly more than its own square, because a word can only point at what a region holds: with a
field wider than an object, colours are read from the next region (docs/captions.md). The vectors are
normalised before the positions are added, and positions are as large as the vectors. Otherwise attention
does not find a place (docs/captions.md has the measurement).

Shape legend: B rows, C channels, Y and X pixels, R regions, D width.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.parts.products import Linear

RegionName = Literal["grid", "patches"]
SMALLEST, MOST = 4, 100  # the default patch is the smallest power of 2 from 4 that makes at most 100 regions


@dataclass(frozen=True)
class Grid:
    """The regions of an image: rows and columns of squares with `patch` pixels on a side."""

    height: int  # of the image, in pixels
    width: int
    patch: int

    @property
    def rows(self) -> int:
        return -(-self.height // self.patch)

    @property
    def columns(self) -> int:
        return -(-self.width // self.patch)

    def boxes(self) -> list[tuple[float, float, float, float]]:
        """Return left, top, right and bottom of each region, in pixels. The last ones may be cut."""
        return [
            (
                float(x * self.patch),
                float(y * self.patch),
                float(min((x + 1) * self.patch, self.width)),
                float(min((y + 1) * self.patch, self.height)),
            )
            for y in range(self.rows)
            for x in range(self.columns)
        ]


def make_grid(size: tuple[int, ...], patch: int | None, kind: RegionName) -> Grid | None:
    """Return the grid for images of this size (C, Y, X), or None for given features (R, D)."""
    if len(size) == 2:
        if patch is not None:
            raise UserError("`patch` is for images of pixels; given features have their own regions")
        return None
    _, height, width = size
    if patch is None:
        patch = SMALLEST
        while len(Grid(height, width, patch).boxes()) > MOST:
            patch *= 2
    if kind == "grid" and patch & (patch - 1):
        raise UserError(f"`patch` must be a power of 2 with `regions` grid, not {patch}: each layer halves")
    return Grid(height, width, patch)


@final
class Regions(nn.Module):
    """Maps images (B, C, Y, X), or features (B, R, C), to regions (B, R, D)."""

    def __init__(self, size: tuple[int, ...], grid: Grid | None, kind: RegionName, width: int):
        super().__init__()
        self.grid = grid
        if grid is None:
            count, features = size
            self.look: nn.Module = Linear(features, width)
        else:
            count = len(grid.boxes())
            self.look = (
                _convolutions(size[0], grid.patch, width)
                if kind == "grid"
                else _patches(size[0], grid.patch, width)
            )
        self.norm = nn.LayerNorm(width)
        self.position_RD = nn.Parameter(torch.randn(count, width))

    def forward(self, given: Tensor) -> tuple[Tensor, Tensor]:
        """Return the regions (B, R, D), and (B, R): True for regions that hold something of the image."""
        there = ~given.isnan()
        given = torch.where(there, given, 0)
        if self.grid is None:
            vectors_BRD, there_BR = self.look(given), there.any(2)
        else:
            patch, (height, width) = self.grid.patch, given.shape[2:]
            missing = (0, self.grid.columns * patch - width, 0, self.grid.rows * patch - height)
            given = nn.functional.pad(given, missing)
            vectors_BRD = self.look(given).flatten(2).transpose(1, 2)
            # Rows and columns are missing as a whole, on the right and below, so a corner tells enough.
            there_BR = there[:, 0, ::patch, ::patch].flatten(1)
        return self.norm(vectors_BRD) + self.position_RD, there_BR


def _convolutions(channels: int, patch: int, width: int) -> nn.Sequential:
    """Return layers of stride 2. A region of 4 pixels sees 6 pixels, a region of 8 pixels sees 10.

    The field is centred on the region: the first kernel reaches one pixel over each edge, the others none.
    """
    inner, layers = max(1, width // 2), list[nn.Module]()
    for number in range(int(math.log2(patch))):
        kernel, padding = (4, 1) if number == 0 else (2, 0)
        layers += [nn.Conv2d(channels, inner, kernel, stride=2, padding=padding), nn.GELU()]
        channels = inner
    return nn.Sequential(*layers, nn.Conv2d(channels, width, 1))


def _patches(channels: int, patch: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, patch, stride=patch), nn.GELU(), nn.Conv2d(width, width, 1)
    )
