"""A model with changes at some of its sites. The wrapped model itself is not modified."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from regard.models.contract import Contribution, LanguageModel, Member, Padded, Prediction, State
from regard.models.wrappers.wrapper import Wrapper
from regard.parts.look import Change, Look, TokensRead


@final
class Edited(Wrapper):
    """A wrapper that applies the changes in every call."""

    family = "edited"

    def __init__(
        self,
        model: LanguageModel,
        changes: Mapping[str, Change],
        places: tuple[int, ...] = (),
        by_word: bool = False,
    ):
        """`places` are the positions that the edits name; `by_word`: some of them select rows by word."""
        super().__init__(model)
        self.by_word = by_word
        self._changes, self.places = dict(changes), places
        self.steady = False  # an edit may read positions on the host

    def _look(self, look: Look | None, read: TokensRead | None = None) -> Look:
        changed = (look or Look()).with_changes(self._changes)
        return changed if read is None else changed.reading(read)

    def _read(self, tokens_BT: Tensor, first_B: Tensor) -> TokensRead | None:
        """Return the tokens of a call for edits that select words. Padding is moved to the right."""
        if not self.by_word:
            return None
        padding_BT = tokens_BT == self.padding
        order_BT = padding_BT.long().argsort(dim=1, stable=True)
        return TokensRead(tokens_BT.gather(1, order_BT), first_B)

    def begin(self, given: int | Tensor, look: Look | None = None) -> State:
        return self.model.begin(given, self._look(look))

    def forward(
        self, tokens_BT: Tensor, state: Any, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, State]:
        look = self._look(look, self._read(tokens_BT, state.position_B))
        return self.model(tokens_BT, state, look, padded)

    def with_room(self, state: Any, room: int) -> State:
        return self.model.with_room(state, room)

    def slide(self, recent_BT: Tensor, state: Any, look: Look | None = None) -> tuple[Prediction, State]:
        # a model with a context reads the recent tokens in a new window, one without reads the last of them
        whole = self.model.context is not None
        tokens_BT = recent_BT if whole else recent_BT[:, -1:]
        first_B = torch.zeros_like(state.position_B) if whole else state.position_B
        return self.model.slide(recent_BT, state, self._look(look, self._read(tokens_BT, first_B)))

    def contributions(
        self, tokens_1T: Tensor, place: int, token: int, look: Look | None = None
    ) -> list[Contribution]:
        read = self._read(tokens_1T, torch.zeros_like(tokens_1T[:, 0]))
        return self.model.contributions(tokens_1T, place, token, self._look(look, read))

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
        return Edited(member.model, own, self.places, self.by_word) if own else member.model
