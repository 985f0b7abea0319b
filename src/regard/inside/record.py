"""What a model did with a text: the tokens, its predictions, a map for each watched site, and what each prediction is made of.

Shape legend: T positions, H heads, Q rows that were worked out, K columns, D features.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import Parts
from regard.parts.look import Site

BLOCK = 1 << 24  # the most weights in memory at a time while a map is made coarse


@dataclass(frozen=True)
class Map:
    """What stood at one site. Weights and scores have a column for each word that was looked at; values have a column for each feature."""

    site: Site
    heads: tuple[
        str, ...
    ]  # the name of each map along the first axis: a head, a gate, a sense; one empty name if there is no such axis
    rows: tuple[int, ...]  # the positions that were worked out
    row_names: tuple[str, ...]  # a name for each row
    column_names: tuple[str, ...]
    numbers: Tensor  # (H, Q, K), or (H, Q, D) of values
    first: int = 0  # the position of the first column; more than 0 if the text is longer than the context
    ahead: int = 0  # 1 if a row is named by the token after its position, which it predicts
    more: Callable[[Sequence[int]], Tensor] | None = field(
        default=None, repr=False, compare=False
    )  # (H, rows, K) of other rows

    @property
    def weighs(self) -> bool:
        return self.site.holds == "weights"

    def tile(
        self, rows: Sequence[int], columns: Sequence[int] | None = None, heads: Sequence[int] | None = None
    ) -> Tensor:
        """(H, rows, columns): a part of the map. Rows and columns are positions of the text; rows are worked out when they are wanted."""
        last = self.first + len(self.column_names) - (self.site.extra is not None)
        wanted = checked(rows, self.rows[-1] + 1 if self.more is None else last, "row", self.first)
        if self.more is None:
            known = {row: place for place, row in enumerate(self.rows)}
            missing = [row for row in wanted if row not in known]
            if missing:
                raise UserError(
                    f"row {missing[0]} of {self.site.name} was not kept; there are: {', '.join(map(str, self.rows))}"
                )
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
        """(H, at most size, at most size): a coarse map of all rows, by the largest or the mean weight of each block."""
        length = len(self.column_names) - (self.site.extra is not None)
        block = math.ceil(length / size)
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
class Record:
    tokens: list[str]  # what was read; the start of the text is <s>
    ids: list[int]
    surprisal: list[float | None]  # of each token in nats, as it was predicted at the position before it
    likeliest: list[
        list[tuple[str, float]]
    ]  # at each position, the likeliest next tokens and their probabilities
    given: list[str] | None = None  # what the state began with: the tokens of a source sentence
    maps: dict[str, Map] = field(default_factory=dict)  # for each watched site
    parts: Parts | None = None  # of the tokens that follow the positions `parts_at`
    parts_at: list[int] = field(default_factory=list)
    parts_first: int = 0  # the position of the first column of the parts
    right: frozenset[tuple[int, int]] | None = (
        None  # (row, column): where a word should look, if that is known
    )
    notes: list[str] = field(default_factory=list)

    def weights(self) -> dict[str, Map]:
        """The maps that hold weights."""
        return {site: one for site, one in self.maps.items() if one.weighs}

    def map(self, site: str) -> Map:
        if site not in self.maps:
            raise UserError(f"no map of {site!r} was kept; there are: {', '.join(self.maps) or 'none'}")
        return self.maps[site]

    def terms(self, place: int) -> list[tuple[str, float]]:
        """What the prediction after a position is the sum of, the words of spread terms named."""
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
            "given": self.given,
            "right": None if self.right is None else sorted(self.right),
            "maps": {site: one.to_json() for site, one in self.maps.items()},
            "parts": predicted,
            "notes": self.notes,
        }

    def _repr_html_(self) -> str:
        """In a notebook: the page, in a frame of its own."""
        from html import escape

        from regard.inside.page import page

        return f'<iframe srcdoc="{escape(page(self, "regard look"))}" width="100%" height="640" style="border:0"></iframe>'


def pool(weights_HQK: Tensor, block: int, how: Literal["max", "mean"]) -> Tensor:
    """Blocks of rows and columns as one number each; the last blocks may be smaller."""
    if block == 1:
        return weights_HQK
    kernel = torch.nn.functional.max_pool2d if how == "max" else torch.nn.functional.avg_pool2d
    return kernel(weights_HQK.unsqueeze(0), block, ceil_mode=True).squeeze(0)


def finite(tensor: Tensor) -> Any:
    """A tensor as lists. Scores of positions that may not be seen, -inf, become None."""
    if tensor.dim() > 1:
        return [finite(part) for part in tensor]
    return [number if math.isfinite(number) else None for number in tensor.tolist()]


def checked(numbers: Sequence[int] | None, size: int, what: str, first: int = 0) -> list[int]:
    """Numbers from 0, or from the end if they are below 0; None means all."""
    wanted = range(first, size) if numbers is None else numbers
    if not len(wanted):
        raise UserError(f"no {what} is named: they go from {first} to {size - 1}")
    for number in wanted:
        if not -size <= number < size or number % size < first:
            why = (
                f" (the window of the context that ends with the last wanted row begins at {first})"
                if first
                else ""
            )
            raise UserError(f"there is no {what} {number}: they go from {first} to {size - 1}{why}")
    return [number % size for number in wanted]
