"""Looking at a model while it runs: which sites are watched, and which are changed. `look=None` costs nothing.

Shape legend: B rows of a batch, T positions, K positions that can be seen.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from regard.errors import UserError

Holds = Literal["weights", "scores", "values"]
Side = Literal["read", "given"]


@dataclass(frozen=True)
class Site:
    """A place in a model that can be watched or changed."""

    name: str
    axes: str  # a letter an axis, rows first: BHTS, BTD
    holds: Holds = "values"
    rows: Side = "read"  # rows are positions of what is read, or of what the state began with
    columns: Side = "read"  # of weights and scores: the same for columns
    extra: str | None = (
        None  # of weights: one more column that is no position, such as the vocabulary beside copied words
    )
    adds: bool = False  # what stands here is added to a residual stream
    parts: tuple[str, ...] = ()  # names along the second axis of four, if they are not heads: gates, senses

    def part(self, number: int) -> str:
        """The name of one map of the site: a head, a gate, a sense."""
        if len(self.axes) < 4:
            return ""
        return self.parts[number] if self.parts else f"head {number}"

    @property
    def crosses(self) -> bool:
        """Weights from what is read to what the state began with."""
        return self.holds == "weights" and (self.rows, self.columns) == ("read", "given")

    def within(self, prefix: str) -> "Site":
        return replace(self, name=f"{prefix}{self.name}")

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.axes)})"


def declare(*sites: Site) -> dict[str, Site]:
    return {site.name: site for site in sites}


def values_at(
    name: str, axes: str = "BTD", *, rows: Side = "read", adds: bool = False, parts: tuple[str, ...] = ()
) -> Site:
    return Site(name, axes, rows=rows, adds=adds, parts=parts)


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
    """The sites of every attention: its weights, the scores they come from, its queries, keys and, if it mixes them, values."""
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
    """Where the numbers at a site stand in the text, from 0. An edit chooses among them by it."""

    row_BT: Tensor  # the position of each row; -1 is padding
    column_BK: Tensor | None = None  # of weights and scores: the position of each column
    visible_BTK: Tensor | None = None  # of weights and scores: which columns a row may see
    holds: Holds = "values"


Weights = Callable[..., Tensor]  # weights(rows=None): (B, H, Q, K), worked out when it is called
Change = Callable[[Tensor, Place], Tensor]


class Look:
    """Watch the sites whose names match the patterns; change the values at others.

    What was watched is in `maps` (weights and scores, as functions that work out the rows that are wanted) and in `values` (tensors),
    as it went on from the site, changes included.
    """

    def __init__(self, patterns: Iterable[str] = (), changes: Mapping[str, Change] | None = None):
        self._patterns = tuple(patterns)
        self._matches = re.compile("|".join(map(fnmatch.translate, self._patterns)) or "(?!)").match
        self._changes = dict(changes or {})
        self._prefix = ""
        self._position_BT: Tensor | None = None
        self.maps: dict[str, Weights] = {}
        self.values: dict[str, Tensor] = {}

    def check(self, sites: Mapping[str, Site]) -> None:
        """Raise an error unless every name is one of the model's sites."""
        for name in (*self._patterns, *self._changes):
            if not fnmatch.filter(sites, name):
                there = ", ".join(map(str, sites.values())) or "none in this family"
                raise UserError(f"no site matches {name!r}; there are: {there}")

    def with_changes(self, changes: Mapping[str, Change]) -> "Look":
        """A look that watches the same sites into the same record and makes more changes, before its own ones at the same site."""
        own = {self._prefix + site: change for site, change in changes.items()}
        both = {site: _chain(own[site], self._changes[site]) for site in own.keys() & self._changes.keys()}
        return self._variant({**self._changes, **own, **both}, self._prefix)

    def with_changes_of(self, other: "Look") -> "Look":
        """A look that watches the sites of this one and makes the changes of another."""
        return self._variant(other._changes, self._prefix)

    def within(self, prefix: str) -> "Look":
        """The look for a model inside this one, whose sites are known here by their names behind a prefix."""
        return self._variant(self._changes, self._prefix + prefix)

    def _variant(self, changes: Mapping[str, Change], prefix: str) -> "Look":
        other = Look(self._patterns, changes)
        other._prefix, other.maps, other.values = prefix, self.maps, self.values
        return other

    def begin(self, position_BT: Tensor) -> None:
        """Called by a model at the start of a call: the positions that it reads now."""
        self._position_BT = position_BT

    def watches(self, site: str) -> bool:
        return self._matches(self._prefix + site) is not None

    def changes(self, site: str) -> bool:
        return self._prefix + site in self._changes

    def at(self, site: str, tensor: Tensor, position_BT: Tensor | None = None) -> Tensor:
        """Called by a model at a site of values, (B, T, D) or (B, L, T, D). The result is what goes on from there.

        The rows stand at the positions given to `begin`, unless others are named.
        """
        if self.changes(site):
            row_BT = self._position_BT if position_BT is None else position_BT
            assert row_BT is not None, "the model has not said which positions it reads"
            tensor = self._changes[self._prefix + site](tensor, Place(row_BT))
        if self.watches(site):
            self.values[self._prefix + site] = tensor
        return tensor

    def at_weights(self, site: str, weights_BHQK: Tensor, place: Place) -> Tensor:
        """The same for weights or scores that have been worked out."""
        if self.changes(site):
            weights_BHQK = self._changes[self._prefix + site](weights_BHQK, place)
        self.watch(site, lambda rows=None: weights_BHQK if rows is None else weights_BHQK[:, :, rows])
        return weights_BHQK

    def watch(self, site: str, weights: Weights) -> None:
        """The same for weights that nobody has worked out yet: it is done when they are wanted."""
        if self.watches(site):
            self.maps[self._prefix + site] = weights


def _chain(first: Change, then: Change) -> Change:
    return lambda tensor, place: then(first(tensor, place), place)


def at_site(look: Look | None, site: str, tensor: Tensor, position_BT: Tensor | None = None) -> Tensor:
    """What goes on from a site: the tensor itself, unless a look changes it."""
    return tensor if look is None else look.at(site, tensor, position_BT)
