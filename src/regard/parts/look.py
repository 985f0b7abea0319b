"""Looking at a model while it runs: which sites are watched, which are changed. `look=None` costs nothing.

Shape legend: B rows of a batch, T positions, K positions that can be seen.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.errors import UserError


@dataclass(frozen=True)
class Place:
    """Where the numbers at a site stand in the text, from 0: an edit chooses among them by it."""

    row_BT: Tensor  # the position of each row; -1 is padding
    column_BK: Tensor | None = None  # where they are weights or scores: the position of each column
    visible_BTK: Tensor | None = None  # and which columns a row may see


Weights = Callable[..., Tensor]  # weights(rows=None): (B, H, Q, K), worked out when asked for
Change = Callable[[Tensor, Place], Tensor]


class Look:
    """Watch the sites whose names match the patterns; change the values at others.

    What was watched is in `seen`, as it went on from there: tensors, and weights as a function that works out the rows asked for.
    """

    def __init__(self, patterns: Iterable[str] = (), changes: Mapping[str, Change] | None = None):
        self._patterns = tuple(patterns)
        self._matches = re.compile("|".join(map(fnmatch.translate, self._patterns)) or "(?!)").match
        self._changes = dict(changes or {})
        self._position_BT: Tensor | None = None
        self.seen: dict[str, Any] = {}

    def check(self, sites: Mapping[str, str]) -> None:
        """Every name must be one of the model's sites."""
        for name in (*self._patterns, *self._changes):
            if not fnmatch.filter(sites, name):
                there = ", ".join(f"{site} {shape}" for site, shape in sites.items()) or "none in this family"
                raise UserError(f"no site matches {name!r}; there are: {there}")

    def also(self, changes: Mapping[str, Change]) -> "Look":
        """The same look, what it sees included, with more changes; those of a model inside another come first."""
        both = {site: _first(changes[site], self._changes[site]) for site in changes.keys() & self._changes.keys()}
        other = Look(self._patterns, {**self._changes, **changes, **both})
        other.seen = self.seen
        return other

    def begin(self, position_BT: Tensor) -> None:
        """Called by a model: the positions it reads now."""
        self._position_BT = position_BT

    def changes(self, site: str) -> bool:
        return site in self._changes

    def value(self, site: str, tensor: Tensor) -> Tensor:
        """Called by a model at a site, (B, T, D) or (B, L, T, D): gives back what goes on from there."""
        if site in self._changes:
            assert self._position_BT is not None, "the model has not said where it reads"
            tensor = self._changes[site](tensor, Place(self._position_BT))
        if self.watches(site):
            self.seen[site] = tensor
        return tensor

    def weights(self, site: str, weights_BHQK: Tensor, place: Place) -> Tensor:
        """The same for weights or scores that have been worked out."""
        if site in self._changes:
            weights_BHQK = self._changes[site](weights_BHQK, place)
        self.watch(site, lambda rows=None: weights_BHQK if rows is None else weights_BHQK[:, :, rows])
        return weights_BHQK

    def watch(self, site: str, weights: Weights) -> None:
        """Weights that nobody has worked out yet: it is done when they are asked for."""
        if self.watches(site):
            self.seen[site] = weights

    def watches(self, site: str) -> bool:
        return self._matches(site) is not None


def _first(one: Change, then: Change) -> Change:
    return lambda tensor, place: then(one(tensor, place), place)


def at_site(look: Look | None, site: str, tensor: Tensor) -> Tensor:
    """What goes on from a site: the tensor itself, unless somebody looks and changes it."""
    return tensor if look is None else look.value(site, tensor)


def weight_sites(site: str, shape: str) -> dict[str, str]:
    """Weights have two sites: themselves, and the scores they come from."""
    return {site: shape, f"{site}.scores": shape}
