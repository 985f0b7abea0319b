"""A prediction to explain: a model, a text, a position and a word, and the words that it may depend on.

The words are those that were read, without the start mark; for a model whose state begins with a sentence,
those of that sentence. image_subject.py has captions, whose words are the regions of the image, and
blank_subject.py has hidden words.

Shape legend: W worlds (copies of the text, each changed in its own way), T positions that are read, S source
positions, N words, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar, final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.observe import Reading
from regard.inside.residual_stream import single_token
from regard.inside.word_vectors import Change, changed_vectors
from regard.models.classifier import Labeller
from regard.models.contract import LanguageModel, State
from regard.models.model import Model
from regard.parts.look import Look, Side
from regard.probabilities.measures import check_log_probs
from regard.tokens.contract import Tokenizer


@dataclass(frozen=True)
class Subject(ABC):
    model: Model
    ids: tuple[int, ...]  # what is read up to the prediction, with the start mark first if the model has one
    given: tuple[int, ...] | None  # what the state begins with
    target: int  # the token or label whose probability is explained
    target_name: str
    names: tuple[str, ...]  # of the words
    first: int  # the position of the first word

    rows: ClassVar[Side]  # of the sites whose weights decide the prediction
    # The place of the deciding row among the rows of weights of a step: the last one, or the only one.
    deciding: int = field(default=-1, kw_only=True)

    @property
    @abstractmethod
    def row(self) -> int:
        """The position of the row of weights that decides the prediction."""

    @property
    def side(self) -> Side:
        """The side of the words: the tokens of the call (read) or the source (given)."""
        return "read" if self.given is None else "given"

    @property
    def positions(self) -> list[int]:
        return list(range(self.first, self.first + len(self.names)))

    @property
    def length(self) -> int:
        """The largest number of positions of a copy, on either side."""
        return max(len(self.ids), len(self.given or ()), len(self.names))

    @abstractmethod
    def inputs(
        self, worlds: int, words: Sequence[Sequence[int]] | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the tokens, and what the state begins with, of `worlds` copies.

        `words` are the positions that each copy keeps, equally many in each.
        """

    def _copies(
        self, chosen: Sequence[int], worlds: int, words: Sequence[Sequence[int]] | None = None
    ) -> Tensor:
        """Return copies of the chosen side's ids. `words` are the positions of words that each copy keeps."""
        if words is None:
            return torch.tensor([chosen], device=self.model.device).expand(worlds, -1)
        last = self.first + len(self.names)
        rows = [[*chosen[: self.first], *(chosen[place] for place in kept), *chosen[last:]] for kept in words]
        return torch.tensor(rows, device=self.model.device)

    def with_vectors(self, worlds: int, change: Change) -> Tensor:
        """(W, V): the prediction with other vectors of the words."""
        tokens_WT, source_WS = self.inputs(worlds)
        with changed_vectors(self.model, tokens_WT if source_WS is None else source_WS, change):
            return self.log_probs(worlds)

    @abstractmethod
    def log_probs(
        self, worlds: int = 1, look: Look | None = None, words: Sequence[Sequence[int]] | None = None
    ) -> Tensor:
        """(W, V): the prediction for the whole text."""

    @abstractmethod
    def prefix(self, worlds: int) -> Any:
        """Return what was read before the deciding row, so that each later computation is a single step."""

    @abstractmethod
    def copied(self, state: Any, worlds: int) -> Any:
        """Return copies of what one world has read."""

    @abstractmethod
    def step(self, state: Any, look: Look | None = None) -> Tensor:
        """(W, V): the prediction, from what was read before."""

    @cached_property
    def log_prob(self) -> float:
        """The log-probability of the target after the whole text."""
        with torch.no_grad():
            log_prob = self.log_probs()[0, self.target]
        check_log_probs(log_prob)
        return float(log_prob)


@dataclass(frozen=True)
class NextPrediction(Subject):
    """The next token of a language model. The row of the last position decides it."""

    model: LanguageModel

    rows = "read"

    @property
    def row(self) -> int:
        return len(self.ids) - 1

    def log_probs(
        self, worlds: int = 1, look: Look | None = None, words: Sequence[Sequence[int]] | None = None
    ) -> Tensor:
        tokens_WT, source_WS = self.inputs(worlds, words)
        prediction, _ = self.model.read_from_start(tokens_WT, source_WS, look)
        last_W1 = torch.full_like(tokens_WT[:, :1], tokens_WT.shape[1] - 1)
        return prediction.at(last_W1).log_probs()[:, 0]

    def prefix(self, worlds: int) -> State:
        tokens_WT, source_WS = self.inputs(worlds)
        with torch.no_grad():
            state = self.model.begin(worlds if source_WS is None else source_WS)
            return self.model(tokens_WT[:, :-1], state)[1] if len(self.ids) > 1 else state

    def copied(self, state: State, worlds: int) -> State:
        # Every copy has its own source row, because a change is made in each.
        return state.pick(torch.zeros(worlds, dtype=torch.long, device=self.model.device)).trimmed()

    def step(self, state: State, look: Look | None = None) -> Tensor:
        tokens_W1, _ = self.inputs(len(state.position_B))
        prediction, _ = self.model(tokens_W1[:, -1:], state.copy(), look)
        return prediction.log_probs()[:, -1]


@final
@dataclass(frozen=True)
class NextToken(NextPrediction):
    """The next token after a text, or of a translation."""

    def inputs(
        self, worlds: int, words: Sequence[Sequence[int]] | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if self.given is None:
            return self._copies(self.ids, worlds, words), None
        count = worlds if words is None else len(words)
        return self._copies(self.ids, count), self._copies(self.given, worlds, words)


@dataclass(frozen=True)
class Copies:
    """A number of copies of a text of which nothing was read yet."""

    worlds: int


class OfWholeText(Subject):
    """A prediction of a model that reads a text at once: each step reads all of it."""

    def prefix(self, worlds: int) -> Copies:
        return Copies(worlds)

    def copied(self, state: Copies, worlds: int) -> Copies:
        return Copies(worlds)

    def step(self, state: Copies, look: Look | None = None) -> Tensor:
        return self.log_probs(state.worlds, look)


@final
@dataclass(frozen=True)
class LabelOfText(OfWholeText):
    """The label of a text. The single row of the pooling decides it."""

    model: Labeller

    rows = "whole"

    @property
    def row(self) -> int:
        return 0

    def inputs(self, worlds: int, words: Sequence[Sequence[int]] | None = None) -> tuple[Tensor, None]:
        return self._copies(self.ids, worlds, words), None

    def log_probs(
        self, worlds: int = 1, look: Look | None = None, words: Sequence[Sequence[int]] | None = None
    ) -> Tensor:
        return self.model(self.inputs(worlds, words)[0], look)


def label_subject(
    model: Labeller, tokenizer: Tokenizer, labels: Sequence[str], text: str, label: str | None = None
) -> LabelOfText:
    """Return the prediction of `label` for a text, or of the likeliest label."""
    ids = tuple(tokenizer.prompt(text))
    if len(ids) < 2:
        raise UserError("attention has nothing to choose from: the text has one token; give two or more")
    if model.context is not None and len(ids) > model.context:
        raise UserError(f"the text has {len(ids)} tokens and the model sees {model.context}: shorten it")
    names = tuple(tokenizer.name(token) for token in ids)
    plain = LabelOfText(model, ids, None, 0, "", names, 0)
    with torch.no_grad():
        target = int(plain.log_probs()[0].argmax()) if label is None else label_number(labels, label)
    return replace(plain, target=target, target_name=labels[target])


def label_number(labels: Sequence[str], label: str) -> int:
    if label not in labels:
        raise UserError(f"there is no label {label!r}; the labels are: {', '.join(labels)}")
    return list(labels).index(label)


def make_subject(
    model: LanguageModel,
    tokenizer: Tokenizer,
    reading: Reading,
    word: str | None = None,
    position: int | None = None,
) -> NextToken:
    """Choose the prediction after a position: of `word`, of the next token, or of the likeliest token."""
    read, following = read_before(model, reading, position)
    given = None if reading.given is None else tuple(reading.given[0].tolist())
    # the end of a source is no word of it
    names = reading.tokens[1 : len(read)] if given is None else list(reading.given_names[:-1])
    if len(names) < 2:
        raise UserError(
            "attention has nothing to choose from: the text before the word has one token; give two or more"
        )
    plain = NextToken(model, read, given, 0, "", tuple(names), 1 if given is None else 0)
    return explaining(plain, tokenizer, word, following)


def read_before(
    model: LanguageModel, reading: Reading, position: int | None
) -> tuple[tuple[int, ...], int | None]:
    """Return what is read up to a position, and the token that follows in the text.

    Without a position: the last one, or of an ended text, the one before its last word.
    """
    ids = reading.ids[:-1] if reading.ended else reading.ids
    usual = len(ids) - 2 if reading.ended and len(ids) > 1 else len(ids) - 1
    place = usual if position is None else _place(position, len(ids))
    if model.context is not None and place >= model.context:
        raise UserError(f"the text has {place + 1} tokens and the model sees {model.context}: shorten it")
    return tuple(ids[: place + 1]), reading.ids[place + 1] if place + 1 < len(reading.ids) else None


Next = TypeVar("Next", bound=NextPrediction)


def explaining(plain: Next, tokenizer: Tokenizer, word: str | None, following: int | None) -> Next:
    """Return the prediction of `word`, of the token that follows, or of the likeliest token."""
    if word is not None:
        target = single_token(tokenizer, word)
    elif following is not None:
        target = following
    else:
        with torch.no_grad():
            target = int(plain.log_probs().argmax())
    return replace(plain, target=target, target_name=tokenizer.name(target))


def _place(position: int, length: int) -> int:
    if not -length <= position < length:
        raise UserError(f"there is no position {position}: they go from 0 to {length - 1}")
    return position % length
