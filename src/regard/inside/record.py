"""A record holds the tokens of a text, a model's predictions and their terms, and a map for each site.

Shape legend: T positions, H heads, Q rows that were computed, K columns, D features.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import Parts
from regard.parts.look import Site
from regard.tables import Table, TableRows

BLOCK = 1 << 24  # the most weights in memory at a time while a map is made coarse


@dataclass(frozen=True)
class Map:
    """The numbers at one site.

    Weights and scores have a column for each position that can be attended to. Values have a column for each
    feature.
    """

    site: Site
    # The names along the first axis (heads, gates, senses); a site without such an axis has one empty name.
    heads: tuple[str, ...]
    rows: tuple[int, ...]  # the positions whose numbers were computed
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    numbers: Tensor  # (H, Q, K), or (H, Q, D) of values
    first: int = 0  # the position of the first column; above 0 if the text is longer than the context
    ahead: int = 0  # 1 if a row has the name of the token after its position, which the row predicts
    # Computes other rows: (H, rows, K).
    more: Callable[[Sequence[int]], Tensor] | None = field(default=None, repr=False, compare=False)
    # Computes the largest weight of each block of all rows and columns: (H, blocks, blocks).
    largest: Callable[[int], Tensor] | None = field(default=None, repr=False, compare=False)

    @property
    def weighs(self) -> bool:
        return self.site.holds == "weights"

    def tile(
        self, rows: Sequence[int], columns: Sequence[int] | None = None, heads: Sequence[int] | None = None
    ) -> Tensor:
        """(H, rows, columns): a part of the map. Rows and columns are positions in the text.

        Rows that the map does not hold are computed now.
        """
        last = self.first + len(self.column_names) - (self.site.extra is not None)
        wanted = checked(rows, self.rows[-1] + 1 if self.more is None else last, "row", self.first)
        if self.more is None:
            known = {row: place for place, row in enumerate(self.rows)}
            missing = [row for row in wanted if row not in known]
            if missing:
                rows_there = ", ".join(map(str, self.rows))
                raise UserError(f"{self.site.name} has no row {missing[0]}; there are: {rows_there}")
            part_HQK = self.numbers[:, [known[row] for row in wanted]]
        else:
            part_HQK = self.more(wanted)
        if columns is not None:
            part_HQK = part_HQK[
                :, :, [column - self.first for column in checked(columns, last, "column", self.first)]
            ]
        return part_HQK if heads is None else part_HQK[checked(heads, len(part_HQK), "head")]

    def pooled(
        self, size: int = 256, how: Literal["max", "mean"] = "max", heads: Sequence[int] | None = None
    ) -> Tensor:
        """(H, at most size, at most size): a coarse map of all rows.

        Each number is the largest weight, or the mean weight, of a block of rows and columns.
        """
        length = len(self.column_names) - (self.site.extra is not None)
        block = math.ceil(length / size)
        if how == "max" and self.largest is not None:
            largest_HQK = self.largest(block)
            return largest_HQK if heads is None else largest_HQK[checked(heads, len(largest_HQK), "head")]
        parts, rows = [], max(1, BLOCK // (length * block)) * block
        for start in range(0, length, rows):
            stop = min(length, start + rows)
            parts.append(
                pool(self.tile(range(self.first + start, self.first + stop), heads=heads), block, how)
            )
        return torch.cat(parts, 1)

    def to_json(self) -> dict[str, Any]:
        return {
            "site": self.site.name,
            "holds": self.site.holds,
            "heads": list(self.heads),
            "rows": list(self.rows),
            "row_names": list(self.row_names),
            "column_names": list(self.column_names),
            "first": self.first,
            "numbers": finite(self.numbers),
        }


@dataclass(frozen=True)
class ShownImage:
    """The image with which the state began, and its regions."""

    pixels: np.ndarray  # (height, width, 3), bytes
    columns: int  # of the grid of regions
    # Left, top, right and bottom of each region, in pixels. A region outside the image has an area of 0.
    boxes: tuple[tuple[float, float, float, float], ...]

    def to_json(self) -> dict[str, Any]:
        height, width, _ = self.pixels.shape
        return {"width": width, "height": height, "columns": self.columns, "regions": list(self.boxes)}


@dataclass(frozen=True)
class Record(Table):
    """A model's reading of one text."""

    tokens: list[str]  # the text; its first token is <s>
    ids: list[int]
    surprisal: list[float | None]  # -log P of each token in nats, predicted at the position before the token
    # The likeliest next tokens at each position, with probabilities; with `fills`, the likeliest words of
    # each blank, and nothing at other positions.
    likeliest: list[list[tuple[str, float]]]
    given: list[str] | None = None  # the tokens of the source sentence, or the numbers of the regions
    maps: dict[str, Map] = field(default_factory=dict)  # a map for each watched site
    parts: Parts | None = None  # the terms of the predictions at the positions `parts_at`
    parts_at: list[int] = field(default_factory=list)
    parts_first: int = 0  # the position of the first column of the parts
    right: frozenset[tuple[int, int]] | None = None  # the gold links as (row, column), if they are known
    notes: list[str] = field(default_factory=list)
    pieces: tuple[bytes, ...] = ()  # the bytes of each token
    given_pieces: tuple[bytes, ...] = ()
    labels: list[tuple[str, float]] | None = None  # the likeliest labels of the text, with probabilities
    # The place of each token among all tokens, the likeliest first: 1, 2, ...; None where surprisal is None.
    ranks: list[int | None] = field(default_factory=list)
    image: ShownImage | None = None  # the image with which the state began
    fills: bool = False  # whether the model fills blanks of the text, instead of predicting the next token
    # The positions of the tokens of each word, and of each word that was given, if tokens were joined.
    groups: list[range] | None = None
    given_groups: list[range] | None = None

    def weights(self) -> dict[str, Map]:
        """The maps that hold weights."""
        return {site: site_map for site, site_map in self.maps.items() if site_map.weighs}

    def map(self, site: str) -> Map:
        if site not in self.maps:
            raise UserError(f"no map of {site!r} was kept; there are: {', '.join(self.maps) or 'none'}")
        return self.maps[site]

    def terms(self, place: int) -> list[tuple[str, float]]:
        """(name, value) of each term of the prediction after a position.

        A term that is spread over positions has an entry for each position, named by its token.
        """
        if self.parts is None or place not in self.parts_at:
            return []
        row, terms = self.parts_at.index(place), list[tuple[str, float]]()
        for part in self.parts.terms:
            if part.value.dim() == 2:
                terms.append((part.name, float(part.value[0, row])))
                continue
            assert part.column_BK is not None
            values, positions = part.value[0, row].tolist(), part.column_BK[0].tolist()
            shares = [
                (value, position)
                for value, position in zip(values, positions, strict=True)
                if value and position >= 0
            ]
            for value, position in shares:
                terms.append((f"{part.name} from {self._word_at(part.name, position)}", value))
        return terms

    def _word_at(self, name: str, position: int) -> str:
        place = position + self.parts_first
        return f"{self.tokens[place]} ({place})" if place < len(self.tokens) else str(place)

    def to_json(self) -> dict[str, Any]:
        predicted = [
            {
                "at": place,
                "token": self.tokens[place + 1],
                "of": self.parts.of,
                "terms": [list(term) for term in self.terms(place)],
            }
            for place in self.parts_at
            if self.parts is not None
        ]
        return {
            "tokens": self.tokens,
            "ids": self.ids,
            "surprisal": self.surprisal,
            "likeliest": [
                [{"token": token, "probability": p} for token, p in position] for position in self.likeliest
            ],
            **({} if self.labels is None else {"labels": dict(self.labels)}),
            "given": self.given,
            "image": None if self.image is None else self.image.to_json(),
            "right": None if self.right is None else sorted(self.right),
            "maps": {site: site_map.to_json() for site, site_map in self.maps.items()},
            "parts": predicted,
            "notes": self.notes,
        }

    def rows(self) -> TableRows:
        """A row for each token: position, surprisal in nats, and the likeliest token after it (or in it)."""
        rows = []
        for place, (token, nll) in enumerate(zip(self.tokens, self.surprisal, strict=True)):
            likeliest = self.likeliest[place][:1] if place < len(self.likeliest) else []
            word, p = likeliest[0] if likeliest else (None, None)
            rows.append(
                {"position": place, "token": token, "surprisal": nll, "likeliest": word, "probability": p}
            )
        return rows

    def _repr_html_(self) -> str:
        """In a notebook: a picture of the maps, or of the last prediction."""
        from regard.inside.output import picture

        return picture(self)


def pool(weights_HQK: Tensor, block: int, how: Literal["max", "mean"]) -> Tensor:
    """Reduce each block of rows and columns to one number; the last blocks may be smaller."""
    if block == 1:
        return weights_HQK
    kernel = torch.nn.functional.max_pool2d if how == "max" else torch.nn.functional.avg_pool2d
    return kernel(weights_HQK.unsqueeze(0), block, ceil_mode=True).squeeze(0)


def finite(tensor: Tensor) -> Any:
    """Convert a tensor to lists. Scores of masked positions, -inf, become None."""
    if tensor.dim() > 1:
        return [finite(part) for part in tensor]
    return [number if math.isfinite(number) else None for number in tensor.tolist()]


def checked(numbers: Sequence[int] | None, size: int, kind: str, first: int = 0) -> list[int]:
    """Convert numbers below 0, which count from the end, and refuse numbers out of range. None means all."""
    wanted = range(first, size) if numbers is None else numbers
    if not len(wanted):
        raise UserError(f"no {kind} is named: they go from {first} to {size - 1}")
    for number in wanted:
        if not -size <= number < size or number % size < first:
            why = f" (the context that ends with the last wanted row begins at {first})" if first else ""
            raise UserError(f"there is no {kind} {number}: they go from {first} to {size - 1}{why}")
    return [number % size for number in wanted]
