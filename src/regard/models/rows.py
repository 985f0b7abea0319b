"""The contract of models that read whole rows at once: classifiers, masked readers and word embeddings.

    numbers = model(tokens_BT, look=None)      # (B, ...) or (B, T, ...): see `answers`
    loss = model.loss(**inputs)                # the summed loss of a training batch

A row is a text without a start mark. The model carries no state, so a row is always read from its beginning
to its end. Padding may stand anywhere in a row: it changes neither the numbers nor the positions of the row.
The numbers at a padded position have no meaning.

Shape legend: B rows, T positions, L labels, D features.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from regard.models.model import Model
from regard.parts.look import Change, Look, TokensRead


class RowModel(Model, ABC):
    """The base class of models that read whole rows. A family implements `read` and `loss`."""

    # The numbers of a call belong to rows, such as (B, L), or to positions, such as (B, T, D).
    answers: ClassVar[Literal["rows", "positions"]]
    batch_tokens: int = 1 << 14  # the maximal number of tokens in a call when texts are measured
    loss: Callable[..., Tensor]  # (**inputs of a batch) -> the sum of the losses of its examples

    def __init__(self, vocabulary_size: int, config: Any):
        super().__init__(vocabulary_size, config)
        self._changes: tuple[Mapping[str, Change], ...] = ()
        self._by_word = False

    @abstractmethod
    def read(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        """Read rows whose padding stands on the right. `real_BT` is False at padding."""

    def forward(self, tokens_BT: Tensor, look: Look | None = None) -> Tensor:
        order_BT = (tokens_BT == self.padding).long().argsort(dim=1, stable=True)
        packed_BT = tokens_BT.gather(1, order_BT)
        real_BT = packed_BT != self.padding
        numbers = self.read(packed_BT, real_BT, self._look(packed_BT, real_BT, look))
        if self.answers == "rows":
            return numbers
        back_BT = order_BT.argsort(dim=1).view(*order_BT.shape, *[1] * (numbers.dim() - 2))
        return numbers.gather(1, back_BT.expand_as(numbers))

    def _look(self, packed_BT: Tensor, real_BT: Tensor, look: Look | None) -> Look | None:
        """Return the look with the changes of this model and the positions of this call."""
        for changes in reversed(self._changes):  # a look puts each before those that it has
            look = (look or Look()).with_changes(changes)
        if look is None:
            return None
        if self._by_word:
            look = look.reading(TokensRead(packed_BT, torch.zeros_like(packed_BT[:, 0])))
        place_T = torch.arange(packed_BT.shape[1], device=packed_BT.device)
        look.begin(torch.where(real_BT, place_T, -1))
        return look

    def watch(self, tokens_1T: Tensor, look: Look | None = None) -> None:
        self(tokens_1T, look)

    def try_once(self) -> None:
        self(torch.zeros(1, 1, dtype=torch.long, device=self.device))

    def with_changes(
        self, changes: Mapping[str, Change], places: tuple[int, ...] = (), by_word: bool = False
    ) -> Self:
        """Return a copy that shares the weights, and changes its sites after the changes of this model."""
        changed = copy.copy(self)
        changed._changes = (*self._changes, changes)
        changed._by_word = self._by_word or by_word
        changed.places = tuple(sorted({*self.places, *places}))
        return changed
