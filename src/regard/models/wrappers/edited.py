"""A model with changes at some of its sites. The wrapped model itself is not modified."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

from torch import Tensor

from regard.models.contract import Contribution, LanguageModel, Member, Padded, Prediction, State
from regard.models.wrappers.wrapper import Wrapper
from regard.parts.look import Change, Look


@final
class Edited(Wrapper):
    """A wrapper that applies the changes in every call."""

    family = "edited"

    def __init__(self, model: LanguageModel, changes: Mapping[str, Change], places: tuple[int, ...] = ()):
        """`places` are the positions that the edits name."""
        super().__init__(model)
        self._changes, self.places = dict(changes), places
        self.steady = False  # an edit may read positions on the host

    def _look(self, look: Look | None) -> Look:
        return (look or Look()).with_changes(self._changes)

    def begin(self, given: int | Tensor, look: Look | None = None) -> State:
        return self.model.begin(given, self._look(look))

    def forward(
        self, tokens_BT: Tensor, state: Any, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, State]:
        return self.model(tokens_BT, state, self._look(look), padded)

    def with_room(self, state: Any, room: int) -> State:
        return self.model.with_room(state, room)

    def slide(self, recent_BT: Tensor, state: Any, look: Look | None = None) -> tuple[Prediction, State]:
        return self.model.slide(recent_BT, state, self._look(look))

    def contributions(
        self, tokens_1T: Tensor, place: int, token: int, look: Look | None = None
    ) -> list[Contribution]:
        return self.model.contributions(tokens_1T, place, token, self._look(look))

    def members(self) -> list[Member]:
        """Return the members of a mixture, each with the changes at its own sites."""
        inner = self.model.members()
        if len(inner) == 1:
            return [Member("", self, 1.0)]
        return [replace(member, model=self._edit(member)) for member in inner]

    def _edit(self, member: Member) -> LanguageModel:
        prefix = member.prefix
        own = {
            site.removeprefix(prefix): change
            for site, change in self._changes.items()
            if site.startswith(prefix)
        }
        return Edited(member.model, own, self.places) if own else member.model
