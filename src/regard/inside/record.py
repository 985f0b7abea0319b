"""What a model did with a text: the tokens, what was predicted at each, and what was weighed.

Shape legend: T positions, H heads, Q rows asked for, K positions that could be seen, D width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.ngram import Link
from regard.parts.look import Weights

BLOCK = 1 << 24  # the most weights that are held at a time while a map is pooled


@dataclass(frozen=True)
class Record:
    tokens: list[str]  # what was read; the start of the text is <s>
    surprisal: list[float | None]  # of each token in nats, as it was predicted at the one before
    likeliest: list[list[tuple[str, float]]]  # at each position, the likeliest next tokens and their probabilities
    rows: list[int]  # the positions whose weights were worked out
    heads: list[int] | None = None  # those of the maps below; None: all
    first: int = 0  # maps are of the positions from here on: past 0 where the text is longer than the context
    last: int = 0  # and up to here (exclusive)
    weights: dict[str, Tensor] = field(default_factory=dict)  # a site: (H, Q, K)
    values: dict[str, Tensor] = field(default_factory=dict)  # a site: (T, D), or (L, T, D) for senses and gates
    gate: list[float | None] | None = None  # where words are copied: the vocabulary's share at each position
    copied: Tensor | None = None  # (T, K): the mass copied from each position of the map
    chains: list[list[Link]] | None = None  # where n-grams were matched: each token's back-off chain
    columns: list[str] | None = None  # what maps' columns are, where it is not the text itself: a translation's source
    right: frozenset[tuple[int, int]] | None = None  # (row, column): where a word should look, where it is known
    ids: list[int] | None = None  # of what was read, or said by a translator: the tokens' numbers
    notes: list[str] = field(default_factory=list)
    seen: dict[str, Weights] = field(default_factory=dict, repr=False, compare=False)  # any row of any map, worked out when asked for

    def column_names(self) -> list[str]:
        return self.tokens[self.first : self.last] if self.columns is None else self.columns

    def head(self, number: int) -> int:
        """Which head of the model the map of this number is."""
        return number if self.heads is None else self.heads[number]

    def tile(self, site: str, rows: Sequence[int], columns: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> Tensor:
        """(H, rows, columns): a part of a map; rows and columns are positions of the text."""
        if site not in self.seen:
            raise UserError(f"no map of {site!r} was kept; there are: {', '.join(self.seen) or 'none'}")
        wanted = checked(rows, self.last, "row", self.first)
        with torch.inference_mode():
            found_HQK = self.seen[site](torch.tensor(wanted) - self.first)[0].cpu()
        if columns is not None:
            found_HQK = found_HQK[:, :, [column - self.first for column in checked(columns, self.last, "column", self.first)]]
        return found_HQK if heads is None else found_HQK[checked(heads, len(found_HQK), "head")]

    def pooled(self, site: str, size: int = 256, how: Literal["max", "mean"] = "max", heads: Sequence[int] | None = None) -> Tensor:
        """(H, at most size, at most size): a coarse map of all rows, by the largest or the mean weight of each block."""
        length = self.last - self.first
        block = math.ceil(length / size)
        parts, rows = [], max(1, BLOCK // (length * block)) * block
        for start in range(0, length, rows):
            tile_HQK = self.tile(site, range(self.first + start, self.first + min(length, start + rows)), heads=heads)
            parts.append(pool(tile_HQK, block, how))
        return torch.cat(parts, 1)

    def to_json(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "surprisal": self.surprisal,
            "likeliest": [[{"token": token, "probability": p} for token, p in position] for position in self.likeliest],
            "rows": self.rows,
            "heads": self.heads,
            "columns": self.columns,
            "right": None if self.right is None else sorted(self.right),
            "first": self.first,
            "last": self.last,
            "weights": {site: finite(tensor) for site, tensor in self.weights.items()},
            "values": {site: tensor.tolist() for site, tensor in self.values.items()},
            "gate": self.gate,
            "copied": None if self.copied is None else self.copied.tolist(),
            "chains": None if self.chains is None else [[vars(link) for link in chain] for chain in self.chains],
            "notes": self.notes,
        }

    def _repr_html_(self) -> str:
        """In a notebook: the page, in a frame of its own."""
        from html import escape

        from regard.inside.page import page

        return f'<iframe srcdoc="{escape(page(self, "regard look"))}" width="100%" height="640" style="border:0"></iframe>'


def pool(weights_HQK: Tensor, block: int, how: Literal["max", "mean"]) -> Tensor:
    """Blocks of rows and columns as one number each; the last of them may be smaller."""
    if block == 1:
        return weights_HQK
    kernel = torch.nn.functional.max_pool2d if how == "max" else torch.nn.functional.avg_pool2d
    return kernel(weights_HQK.unsqueeze(0), block, ceil_mode=True).squeeze(0)


def finite(tensor: Tensor) -> Any:
    """As lists; scores of what may not be seen, -inf, as None."""
    if tensor.dim() > 1:
        return [finite(part) for part in tensor]
    return [number if math.isfinite(number) else None for number in tensor.tolist()]


def checked(asked: Sequence[int] | None, size: int, what: str, first: int = 0) -> list[int]:
    """Numbers from 0, or from the end where they are below 0."""
    numbers = range(first, size) if asked is None else asked
    if not len(numbers):
        raise UserError(f"no {what} is named: they go from {first} to {size - 1}")
    for number in numbers:
        if not -size <= number < size or number % size < first:
            why = f" (the window of the context that ends with the last row asked for begins at {first})" if first else ""
            raise UserError(f"there is no {what} {number}: they go from {first} to {size - 1}{why}")
    return [number % size for number in numbers]
