"""The word of a blank to explain: the words that it may depend on stand before it and after it.

Shape legend: W worlds (copies of the text, each changed in its own way), T positions, D width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.observe import Reading
from regard.inside.residual_stream import single_token
from regard.inside.subject import OfWholeText
from regard.models.reader import Filler
from regard.parts.look import Look
from regard.tokens.contract import Tokenizer


@final
@dataclass(frozen=True)
class WordOfBlank(OfWholeText):
    """The word of a blank. The blank's row of weights decides it. The end of the text is no word."""

    model: Filler

    rows = "read"

    @property
    def row(self) -> int:
        return self.deciding

    @property
    def positions(self) -> list[int]:
        return [place for place in range(len(self.ids) - 1) if place != self.deciding]

    def inputs(self, worlds: int, words: Sequence[Sequence[int]] | None = None) -> tuple[Tensor, None]:
        if words is None:
            return self._copies(self.ids, worlds), None
        places = [sorted([*kept, self.deciding, len(self.ids) - 1]) for kept in words]
        rows = [[self.ids[place] for place in kept] for kept in places]
        return torch.tensor(rows, device=self.model.device), None

    def log_probs(
        self, worlds: int = 1, look: Look | None = None, words: Sequence[Sequence[int]] | None = None
    ) -> Tensor:
        tokens_WT, _ = self.inputs(worlds, words)
        features_WTD = self.model(tokens_WT, look)
        before = [self.deciding] * worlds
        if words is not None:
            before = [sum(place < self.deciding for place in kept) for kept in words]
        features_WD = features_WTD[range(len(before)), before]
        return self.model.words(features_WD).log_probs()[0]


def blank_subject(
    model: Filler, tokenizer: Tokenizer, reading: Reading, word: str | None, position: int | None
) -> WordOfBlank:
    """Choose the word of a blank: `word`, or the likeliest. Without a position: of the first blank."""
    ids = tuple(reading.ids)
    blanks = [place for place, token in enumerate(ids) if token == model.blank]
    chosen = blanks[0] if position is None else position % len(ids)
    if chosen not in blanks:
        there = ", ".join(map(str, blanks))
        raise UserError(f"there is no blank at position {position}; the blanks stand at: {there}")
    names = tuple(name for place, name in enumerate(reading.tokens[:-1]) if place != chosen)
    if len(names) < 2:
        raise UserError("attention has nothing to choose from: give two words or more beside the blank")
    plain = WordOfBlank(model, ids, None, 0, "", names, 0, deciding=chosen)
    if word is not None:
        target = single_token(tokenizer, word)
    else:
        with torch.no_grad():
            target = int(plain.log_probs()[0].argmax())
    return replace(plain, target=target, target_name=tokenizer.name(target))
