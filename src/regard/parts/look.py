"""Looking at a model while it runs: which sites are watched, which are changed. `look=None` costs nothing."""

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from regard.errors import UserError

Weights = Callable[..., Tensor]  # weights(rows=None): worked out when asked for


class Look:
    """Watch the sites whose names match the patterns; replace the values at others.

    What was watched is in `seen`: tensors as they passed, and attention as a function that works out the weights of the rows asked for.
    """

    def __init__(self, patterns: Iterable[str] = (), edits: Mapping[str, Callable[[Tensor], Tensor]] | None = None):
        self._patterns = tuple(patterns)
        self._edits = dict(edits or {})
        self.seen: dict[str, Any] = {}

    def check(self, sites: Mapping[str, str]) -> None:
        """Every name must be one of the model's sites."""
        for name in (*self._patterns, *self._edits):
            if not fnmatch.filter(sites, name):
                raise UserError(f"no site matches {name!r}; there are: {', '.join(f'{site} {shape}' for site, shape in sites.items())}")

    def value(self, site: str, tensor: Tensor) -> Tensor:
        """Called by a model at a site: gives back what goes on from there."""
        if self._watched(site):
            self.seen[site] = tensor
        return self._edits[site](tensor) if site in self._edits else tensor

    def weights(self, site: str, weights: Weights) -> Tensor | None:
        """Called by attention: None leaves the fused kernel as it is; an edited site gives its new weights."""
        if self._watched(site):
            self.seen[site] = weights
        return self._edits[site](weights()) if site in self._edits else None

    def _watched(self, site: str) -> bool:
        return any(fnmatch.fnmatchcase(site, pattern) for pattern in self._patterns)


def at_site(look: Look | None, site: str, tensor: Tensor) -> Tensor:
    """What goes on from a site: the tensor itself, unless somebody looks and changes it."""
    return tensor if look is None else look.value(site, tensor)
