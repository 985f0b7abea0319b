"""Attention weights of a call, with the columns that each row may see.

Shape legend: B rows, H heads, Q queries, K keys.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from regard.errors import UserError
from regard.models.model import Model
from regard.parts.edits import visible
from regard.parts.look import Look, Place, Site


@dataclass(frozen=True)
class Weighing:
    """The weights of one site in one call."""

    site: Site
    weights_BHQK: Tensor
    visible_BHQK: Tensor
    place: Place


class Recorder:
    """Records the weights of sites, with the positions and the visible columns. Recording changes nothing."""

    def __init__(self, sites: Iterable[Site]):
        self._sites = {site.name: site for site in sites}
        self.weighings: dict[str, Weighing] = {}

    def look(self) -> Look:
        return Look(changes={name: self._keep(site) for name, site in self._sites.items()})

    def _keep(self, site: Site):
        def keep(weights_BHQK: Tensor, place: Place) -> Tensor:
            seen_BHQK = visible(weights_BHQK, place)
            self.weighings[site.name] = Weighing(site, weights_BHQK.detach(), seen_BHQK, place)
            return weights_BHQK

        return keep


def weight_sites(model: Model, purpose: str) -> list[Site]:
    """Return the sites that hold attention weights.

    For a family without attention weights, raise an error that names its gates, cells and hidden states.
    """
    sites = model.sites()
    weights = [site for site in sites.values() if site.holds == "weights"]
    if weights:
        return weights
    states = [name for name, site in sites.items() if site.remembers]
    instead = (
        f"it has {', '.join(states)} (regard look)"
        if states
        else "regard look shows what its predictions are made of"
    )
    raise UserError(f"{model.family} has no attention {purpose}; {instead}")
