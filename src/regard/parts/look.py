"""Look: watches or changes the sites of a model during a call. A call with `look=None` has no extra cost.

Shape legend: B rows of a batch, T positions, K columns (positions to attend to).
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from regard.errors import UserError

Holds = Literal["weights", "scores", "values"]
# The tokens of the call, the source that the state began with, or a single row for the whole text.
Side = Literal["read", "given", "whole"]


@dataclass(frozen=True)
class Site:
    """A named tensor of a model that can be watched or changed."""

    name: str
    axes: str  # a letter for each axis, such as BHTS or BTD
    holds: Holds = "values"
    rows: Side = "read"  # the tokens whose positions are the rows
    columns: Side = "read"  # the tokens whose positions are the columns of weights and scores
    # The name of an extra column of weights that is no position, such as the vocabulary of a copying model.
    extra: str | None = None
    adds: bool = False  # True if the tensor is added to a residual stream
    remembers: bool = False  # True if the tensor carries memory over time: hidden states, gates, cells
    parts: tuple[str, ...] = ()  # the names along the second of four axes, if it is not heads: gates, senses

    def part(self, number: int) -> str:
        """Return the name of one head, gate or sense of the site, or "" without such an axis."""
        if len(self.axes) < 4:
            return ""
        return self.parts[number] if self.parts else f"head {number}"

    @property
    def crosses(self) -> bool:
        """Whether the site holds weights of cross-attention, from target positions to source positions."""
        return self.holds == "weights" and (self.rows, self.columns) == ("read", "given")

    def within(self, prefix: str) -> "Site":
        """Return the site under its name in a wrapper, which begins with `prefix`."""
        return replace(self, name=f"{prefix}{self.name}")

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.axes)})"


def declare(*sites: Site) -> dict[str, Site]:
    """Return the sites by name."""
    return {site.name: site for site in sites}


def values_at(
    name: str,
    axes: str = "BTD",
    *,
    rows: Side = "read",
    adds: bool = False,
    remembers: bool = False,
    parts: tuple[str, ...] = (),
) -> Site:
    """Return a site that holds values."""
    return Site(name, axes, rows=rows, adds=adds, remembers=remembers, parts=parts)


def attention_sites(
    name: str,
    axes: str = "BHTS",
    *,
    rows: Side = "read",
    columns: Side = "read",
    extra: str | None = None,
    mixes: bool = True,
    parts: tuple[str, ...] = (),
) -> dict[str, Site]:
    """Return the sites of an attention: weights, scores before the softmax, queries, keys, and values.

    An attention that only computes weights (`mixes=False`) has no values.
    """
    heads, row, column = axes[:2], axes[2], axes[3]
    sites = declare(
        Site(name, axes, "weights", rows, columns, extra, parts=parts),
        Site(f"{name}.scores", axes, "scores", rows, columns, parts=parts),
        values_at(f"{name}.query", f"{heads}{row}E", rows=rows, parts=parts),
        values_at(f"{name}.key", f"{heads}{column}E", rows=columns, parts=parts),
    )
    value = values_at(f"{name}.value", f"{heads}{column}E", rows=columns, parts=parts)
    return sites | declare(value) if mixes else sites


@dataclass(frozen=True)
class Place:
    """The positions, counted from 0, of the numbers at a site. Edits select numbers by position."""

    row_BT: Tensor  # the position of each row; -1 for padding
    column_BK: Tensor | None = None  # the position of each column; only for weights and scores
    visible_BTK: Tensor | None = None  # True where a row may see a column; only for weights and scores
    holds: Holds = "values"
    token_BT: Tensor | None = None  # the token of each row; only for edits that select words


@dataclass(frozen=True)
class TokensRead:
    """The tokens of one call, so that an edit can select rows by word."""

    token_BT: Tensor  # the real tokens of each row of the batch, moved to the left
    first_B: Tensor  # the position of the first of them

    def at(self, row_BT: Tensor) -> Tensor:
        """Return the token at each position; -1 at positions that this call does not read."""
        place_BT = row_BT.expand(len(self.token_BT), -1) - self.first_B.unsqueeze(1)
        inside_BT = (place_BT >= 0) & (place_BT < self.token_BT.shape[1])
        token_BT = self.token_BT.gather(1, place_BT.clamp(0, self.token_BT.shape[1] - 1))
        return torch.where(inside_BT, token_BT, -1)


Weights = Callable[..., Tensor]  # weights(rows=None): (B, H, Q, K), computed by the call
# largest(block): (B, H, I, J), the largest weight of each block of `block` queries and `block` keys
Largest = Callable[[int], Tensor]
Change = Callable[[Tensor, Place], Tensor]


class Look:
    """Watches the sites whose names match the patterns, and applies the changes at other sites.

    After the call, `maps` holds the watched weights and scores, as functions that compute the requested rows;
    `values` holds the watched tensors. Both include the changes. `coarse` holds functions that compute the
    largest weights of blocks, for sites whose weights were not computed by the call.
    """

    def __init__(self, patterns: Iterable[str] = (), changes: Mapping[str, Change] | None = None):
        self._patterns = tuple(patterns)
        self._matches = re.compile("|".join(map(fnmatch.translate, self._patterns)) or "(?!)").match
        self._changes = dict(changes or {})
        self._prefix = ""
        self._position_BT: Tensor | None = None
        self._read: TokensRead | None = None
        self.maps: dict[str, Weights] = {}
        self.coarse: dict[str, Largest] = {}
        self.values: dict[str, Tensor] = {}

    def check(self, sites: Mapping[str, Site]) -> None:
        """Raise an error unless every pattern and every changed site matches a site of the model."""
        for name in (*self._patterns, *self._changes):
            if not fnmatch.filter(sites, name):
                known = ", ".join(map(str, sites.values())) or "none in this family"
                raise UserError(f"no site matches {name!r}; there are: {known}")

    def with_changes(self, changes: Mapping[str, Change]) -> "Look":
        """Return a look with more changes, which writes into the same `maps`, `coarse` and `values`.

        If this look already changes one of the sites, the new change is applied first.
        """
        own = {self._prefix + site: change for site, change in changes.items()}
        both = {site: _chain(own[site], self._changes[site]) for site in own.keys() & self._changes.keys()}
        return self._variant({**self._changes, **own, **both}, self._prefix)

    def with_changes_of(self, other: "Look") -> "Look":
        """Return a look that watches the sites of this look and makes the changes of another."""
        return self._variant(other._changes, self._prefix)

    def within(self, prefix: str) -> "Look":
        """Return the look for a model inside a wrapper, whose sites have the prefix in the wrapper."""
        return self._variant(self._changes, self._prefix + prefix)

    def _variant(self, changes: Mapping[str, Change], prefix: str) -> "Look":
        other = Look(self._patterns, changes)
        other._prefix, other.maps, other.coarse, other.values = prefix, self.maps, self.coarse, self.values
        other._read = self._read
        return other

    def reading(self, read: TokensRead) -> "Look":
        """Return a look that tells its changes which token stands at each row."""
        other = self._variant(self._changes, self._prefix)
        other._read = read
        return other

    def _token(self, row_BT: Tensor) -> Tensor | None:
        return None if self._read is None else self._read.at(row_BT)

    def begin(self, position_BT: Tensor) -> None:
        """Set the positions that the model reads in this call. The model calls this method first."""
        self._position_BT = position_BT

    def watches(self, site: str) -> bool:
        """Return whether the site is watched."""
        return self._matches(self._prefix + site) is not None

    def changes(self, site: str) -> bool:
        """Return whether the site is changed."""
        return self._prefix + site in self._changes

    def at(self, site: str, tensor: Tensor, position_BT: Tensor | None = None) -> Tensor:
        """Record and change the values (B, T, D) or (B, L, T, D) of a site. The model uses the result.

        The positions of the rows are those given to `begin`, unless `position_BT` is given.
        """
        if self.changes(site):
            row_BT = self._position_BT if position_BT is None else position_BT
            assert row_BT is not None, "the model must call look.begin() first"
            tensor = self._changes[self._prefix + site](tensor, Place(row_BT, token_BT=self._token(row_BT)))
        if self.watches(site):
            self.values[self._prefix + site] = tensor
        return tensor

    def at_weights(self, site: str, weights_BHQK: Tensor, place: Place) -> Tensor:
        """Record and change the weights or scores of a site. The model uses the result."""
        if self.changes(site):
            place = replace(place, token_BT=self._token(place.row_BT))
            weights_BHQK = self._changes[self._prefix + site](weights_BHQK, place)
        self.watch(site, lambda rows=None: weights_BHQK if rows is None else weights_BHQK[:, :, rows])
        return weights_BHQK

    def arrange(self, sites: Iterable[str], change: Callable[[Tensor], Tensor]) -> None:
        """Put the watched values of sites into another order of positions."""
        for name in (self._prefix + site for site in sites):
            if name in self.values:
                self.values[name] = change(self.values[name])

    def watch(self, site: str, weights: Weights, largest: Largest | None = None) -> None:
        """Store the functions that compute the weights or scores of a site, if the site is watched."""
        if not self.watches(site):
            return
        self.maps[self._prefix + site] = weights
        if largest is not None:
            self.coarse[self._prefix + site] = largest


def _chain(first: Change, then: Change) -> Change:
    return lambda tensor, place: then(first(tensor, place), place)


def at_site(look: Look | None, site: str, tensor: Tensor, position_BT: Tensor | None = None) -> Tensor:
    """Return the tensor of a site, changed if the look says so."""
    return tensor if look is None else look.at(site, tensor, position_BT)
