"""The contract of every language model: a model reads tokens and predicts the next token at every position.

    state = model.begin(given)            # `given`: a number of rows, or a sentence or image for each row
    prediction, state = model(tokens_BT, state, look=None)

Training, measuring, decoding and looking inside use this contract only. They do not depend on the family of a
model.

Rows. A row never holds two documents. `<s>` and padding are input ids at or above V, so no model can predict
them. Padding changes neither the state nor the position of a row. The prediction at a padded position has no
meaning; its target must be -1. Padding may stand anywhere in a row, unless the caller passes
`padded="right"`: the caller then guarantees that padding only follows the last token of a row, and that a
padded row is reset before the next call. A model then needs no packing and no padding mask.

Shape legend: B rows, T positions, V vocabulary, D features, K selected positions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.given import Given
from regard.models.model import Model
from regard.parts.look import Change, Look
from regard.tokens.contract import Encoded

Padded = Literal["anywhere", "right"]


@dataclass(frozen=True)
class State(ABC):
    """The memory of a model between calls, such as a KV cache or a hidden state.

    A state is a value and is never stored on a module. The first axis of every tensor is the row. `forward`
    may overwrite the state that it receives, because buffers grow in place. Call `copy()` first if you need
    the state again.
    """

    # Whether the empty slots of a buffer stand before the filled slots (True) or after them (False).
    fills_front: ClassVar[bool] = True

    position_B: Tensor  # the number of real tokens that each row has read, `<s>` included

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the state with `change` applied to every tensor."""
        return type(self)(**{field.name: _map(change, getattr(self, field.name)) for field in fields(self)})

    def tensors(self) -> list[Tensor]:
        """Return all tensors of the state, in a fixed order."""
        tensors = list[Tensor]()
        self.map(lambda tensor: tensors.append(tensor) or tensor)  # type: ignore[func-returns-value]
        return tensors

    def with_tensors(self, tensors: Iterable[Tensor]) -> Self:
        """Return the same structure with other tensors, in the order of `tensors()`."""
        values = iter(tensors)
        return self.map(lambda _: next(values))

    def detach(self) -> Self:
        """Return the state without its gradient history."""
        return self.map(Tensor.detach)

    def copy(self) -> Self:
        """Return a copy that no later call overwrites."""
        return self.map(Tensor.clone)

    def to(self, device: torch.device | str) -> Self:
        """Return the state on a device."""
        return self.map(lambda tensor: tensor.to(device))

    def pick(self, rows: Tensor) -> Self:
        """Return the rows with these indices, in this order. A beam search picks parents."""
        return self.map(lambda tensor: tensor.index_select(0, rows))

    def reset(self, rows_B: Tensor) -> Self:
        """Return the state with the rows that are True set to zero. A row of zeros has read nothing."""
        return self.map(lambda tensor: tensor.masked_fill(rows_B.view(-1, *[1] * (tensor.dim() - 1)), 0))

    def trimmed(self) -> Self:
        """Return the state without unused slots at the end of its buffers."""
        return self

    def next_window(self) -> Self:
        """Return the state for a new window, after the context is full. An unbounded state stays the same."""
        return self

    @staticmethod
    def join(states: Sequence["State"]) -> "State":
        """Join the rows of several states of a model. Shorter buffers are padded with empty (zero) slots."""
        trimmed = [state.trimmed() for state in states]
        return trimmed[0]._joined(trimmed)

    def _joined(self, states: Sequence["State"]) -> Self:
        columns = {field.name: [getattr(state, field.name) for state in states] for field in fields(self)}
        return type(self)(**{name: _join(values, self.fills_front) for name, values in columns.items()})


def _map(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, State):
        return value.map(change)
    if isinstance(value, tuple):
        return tuple(_map(change, item) for item in value)
    return value


def _join(values: Sequence[Any], front: bool) -> Any:
    first = values[0]
    if isinstance(first, Tensor):
        return _stack_rows(values, front)
    if isinstance(first, State):
        return first._joined(values)
    if isinstance(first, tuple):
        return tuple(_join(items, front) for items in zip(*values, strict=True))
    return first


def _stack_rows(tensors: Sequence[Tensor], front: bool) -> Tensor:
    sizes = [max(sizes) for sizes in zip(*(tensor.shape[1:] for tensor in tensors), strict=True)]
    padded = []
    for tensor in tensors:
        missing = [size - own for size, own in zip(sizes[::-1], tensor.shape[:0:-1], strict=True)]
        pads = [side for size in missing for side in ((size, 0) if front else (0, size))]
        padded.append(F.pad(tensor, pads) if any(pads) else tensor)
    return torch.cat(padded)


@dataclass(frozen=True)
class Part:
    """One term of a probability or of a score."""

    name: str
    value: Tensor  # (B, T), or (B, T, K) if the term is a sum over K positions
    column_BK: Tensor | None = None  # the K positions; -1 for an empty column
    details: Mapping[str, Tensor] | None = None  # (B, T) each: numbers that explain the value


@dataclass(frozen=True)
class Parts:
    """The terms whose sum is the probability of each target, or its score (its logit in a softmax)."""

    of: Literal["probability", "score"]
    terms: tuple[Part, ...]

    def total(self) -> Tensor:
        """(B, T): the sum of all terms."""
        values = [part.value if part.value.dim() == 2 else part.value.sum(2) for part in self.terms]
        return torch.stack(values).sum(0)

    def scaled(self, by_BT: Tensor, name: str, nll_BT: Tensor) -> tuple[Part, ...]:
        """Return the terms of this probability, multiplied by the weight `by_BT` that it has in a mixture.

        If the terms are those of a score, the probability is returned as a single term with the name `name`.
        """
        if self.of == "score":
            return (Part(name, by_BT * (-nll_BT).exp()),)
        wide = {2: by_BT, 3: by_BT.unsqueeze(2)}
        return tuple(
            Part(part.name, part.value * wide[part.value.dim()], part.column_BK, part.details)
            for part in self.terms
        )


class Prediction(ABC):
    """The distribution of the next token at every position of a call."""

    features_BTD: Tensor | None = None  # the inputs of the readout, if the model has a readout

    @abstractmethod
    def log_probs(self) -> Tensor:
        """(B, T, V): natural logs, normalised in every family."""

    @abstractmethod
    def at(self, positions_BK: Tensor) -> "Prediction":
        """Return the prediction at selected positions of each row, so that a prompt needs no readout."""

    @abstractmethod
    def parts(self, targets_BT: Tensor) -> Parts:
        """Return the terms of each target's probability (or score). A target below 0 counts as token 0."""

    def nll(self, targets_BT: Tensor) -> Tensor:
        """(B, T): -log P of each target, 0 where the target is -1."""
        chosen_BT = self.log_probs().gather(2, targets_BT.clamp(min=0).unsqueeze(2)).squeeze(2)
        return torch.where(targets_BT < 0, 0.0, -chosen_BT)

    def loss(
        self, targets_BT: Tensor, weights_BT: Tensor | None = None, smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Return the weighted sum of -log P over the real targets, and the sum of the weights, for training.

        The sums of several batches can be added before the division, so that accumulated batches equal one
        batch. Label smoothing distributes the share `smoothing` of each target equally over all V tokens
        (Szegedy et al. 2016, section 7).
        """
        loss_BT = self.nll(targets_BT)
        if smoothing:
            loss_BT = (1 - smoothing) * loss_BT - smoothing * self.log_probs().mean(2)
        weights_BT = real_weights(targets_BT, weights_BT).to(loss_BT.dtype)
        return (loss_BT * weights_BT).sum(), weights_BT.sum()


def real_weights(targets_BT: Tensor, weights_BT: Tensor | None) -> Tensor:
    """(B, T): the weight of each target, 0 for targets below 0."""
    real_BT = targets_BT >= 0
    return real_BT if weights_BT is None else weights_BT * real_BT


class LanguageModel(Model, ABC):
    """The base class of all language models.

    A family is constructed as `Family(vocabulary_size, config)`, or as
    `Family(vocabulary_size, config, size)` if its state begins with source sentences or images of this size.
    """

    purpose = "predicts text"
    begins = True
    # True: a call with one token in each row, on a state from with_room(), performs the same operations on
    # the same shapes whatever the tokens are. The decoder can then capture or compile the call.
    steady: bool = False
    batch_tokens: int = 1 << 15  # the maximal number of tokens in a call when a text is measured
    row_tokens: int = 1 << 12  # the maximal number of tokens in a row of such a call, if a state is carried

    given: Given | None = None  # what a state begins with: sentences, images; None: a number of rows

    @property
    def does(self) -> str:
        return self.purpose if self.given is None else self.given.does

    @property
    def verb(self) -> str:
        return "generate" if self.given is None else self.given.verb

    @property
    def source_size(self) -> int | tuple[int, ...] | None:
        return None if self.given is None else self.given.size

    @abstractmethod
    def begin(self, given: int | Tensor, look: Look | None = None) -> State:
        """Return the state before the first token, for `given` rows, or for the given sources or images."""

    @abstractmethod
    def forward(
        self, tokens_BT: Tensor, state: Any, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, State]: ...

    def read_from_start(
        self, tokens_BT: Tensor, given: Tensor | None = None, look: Look | None = None
    ) -> tuple[Prediction, State]:
        """Read rows from their beginning. The method calls `begin`, then `forward`."""
        return self(tokens_BT, self.begin(len(tokens_BT) if given is None else given, look), look)

    def with_room(self, state: Any, room: int) -> State:
        """Return the state with buffers of a fixed size, for `room` tokens in all.

        A call with one token in each row and padded="right" then returns a state of the same shapes, and may
        write into the tensors of the state that it receives. If the family is `steady`, the call reads no
        tensor on the host, so that it can be captured as a graph or compiled once. States that do not grow
        stay the same.
        """
        return state

    def slide(self, recent_BT: Tensor, state: Any, look: Look | None = None) -> tuple[Prediction, State]:
        """Read the last token of each row after the context is full. Return its prediction and the new state.

        `recent_BT` are the last tokens of each row; all but the last one have been read before. A bounded
        model reads all of them again in a new window. An unbounded model reads only the last token.
        """
        if self.context is None:
            return self(recent_BT[:, -1:], state, look)
        prediction, state = self(recent_BT, state.next_window(), look)
        return prediction.at(torch.full_like(recent_BT[:, :1], recent_BT.shape[1] - 1)), state

    def losses_of_text(self, text: Encoded) -> Iterator[Tensor] | None:
        """Yield -log P of the tokens of a text in order, without rows. None if rows are the better way."""
        return None

    @property
    def carries(self) -> bool:
        return self.context is None

    @property
    def repeats(self) -> bool:
        return self.steady and self.given is None

    @property
    def on_gpu(self) -> bool:
        return all(member.model.learns == "descent" for member in self.members())

    def members(self) -> list["Member"]:
        """Return the models whose probabilities are averaged. Each is measured in its own context."""
        return [Member("", self, 1.0)]

    def cache(self) -> dict[str, float] | None:
        """Return size, theta and share of the neural cache, or None without a cache."""
        return None

    def layer_sites(self) -> list[str]:
        """Return the names of the sites that hold the states after each layer, in order.

        The readout must be able to read each of these states. The list is empty if it cannot.
        """
        return []

    def contributions(
        self, tokens_1T: Tensor, place: int, token: int, look: Look | None = None
    ) -> list["Contribution"]:
        """Return the terms of the score (or probability) of `token` after the token at `place`."""
        prediction, _ = self.read_from_start(tokens_1T, look=look)
        at_11, target_11 = (torch.tensor([[number]], device=tokens_1T.device) for number in (place, token))
        parts = prediction.at(at_11).parts(target_11)
        terms = list[Contribution]()
        for part in parts.terms:
            if part.value.dim() == 2:
                terms.append(Contribution(parts.of, part.name, float(part.value)))
            elif part.column_BK is not None:
                columns = zip(part.column_BK[0].tolist(), part.value[0, 0].tolist(), strict=True)
                terms += [
                    Contribution(parts.of, part.name, value, position)
                    for position, value in columns
                    if position >= 0
                ]
        return terms

    def example(self) -> int | Tensor:
        """Return the smallest argument of `begin`: one row, or one source or image."""
        return 1 if self.given is None else self.given.smallest(self.device)

    def watch(self, tokens_1T: Tensor, look: Look | None = None) -> None:
        self.read_from_start(tokens_1T, look=look)

    def try_once(self) -> None:
        self(torch.tensor([[self.start]], device=self.device), self.begin(self.example()))

    def with_changes(
        self, changes: Mapping[str, Change], places: tuple[int, ...] = (), by_word: bool = False
    ) -> "LanguageModel":
        from regard.models.wrappers.edited import Edited

        return Edited(self, changes, places, by_word)


@dataclass(frozen=True)
class Contribution:
    """One term of the score or probability of one token."""

    of: Literal["probability", "score"]
    name: str
    value: float
    position: int | None = None  # the position of the word that the term comes from, if it is a single word


@dataclass(frozen=True)
class Member:
    """One model of a mixture."""

    prefix: str  # begins the names of the model's sites in the mixture
    model: LanguageModel
    weight: float
