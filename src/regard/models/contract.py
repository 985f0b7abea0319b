"""The contract of every language model: read tokens and, at every position, predict the next one.

    state = model.begin(given)                               a number of rows, or what the rows begin with: a source sentence, an image
    prediction, state = model(tokens_BT, state, look=None)

Training, measuring, decoding and looking inside are written on this contract. They never ask which family a model belongs to.

Rows. A row never holds two documents. `<s>` and padding are input ids at or above V, so they can never be predicted. Padding changes
neither the state nor the position of a row, and the prediction at a padded position has no meaning: give it the target -1.
Padding may stand anywhere in a row. A caller that promises more says so: `padded="right"` means that padding only follows the last
token of a row, and that a padded row is reset before it is read on. A model then needs no packing and no padding mask.

Shape legend: B rows, T positions, V vocabulary, D features, K positions that are asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.parts.look import Look, Site
from regard.tokens.contract import Encoded

Padded = Literal["anywhere", "right"]
Learns = Literal["descent", "counting", "nothing"]
Reads = Literal["text", "pairs"]


@dataclass(frozen=True)
class State(ABC):
    """What a model must remember to go on: a value that is never kept on a module. Every tensor has its rows first.

    `forward` may overwrite the state it is given (buffers grow in place). Call `copy()` first if you need the state again.
    """

    fills_front: ClassVar[bool] = True  # empty slots stand before the filled ones, or behind them

    position_B: Tensor  # how many real tokens each row has read, `<s>` included

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The state with every tensor changed."""
        return type(self)(**{field.name: _map(change, getattr(self, field.name)) for field in fields(self)})

    def tensors(self) -> list[Tensor]:
        """All tensors of the state, in a fixed order."""
        found = list[Tensor]()
        self.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
        return found

    def with_tensors(self, tensors: Iterable[Tensor]) -> Self:
        """The same structure with other tensors, in the order of `tensors()`."""
        values = iter(tensors)
        return self.map(lambda _: next(values))

    def detach(self) -> Self:
        return self.map(Tensor.detach)

    def copy(self) -> Self:
        return self.map(Tensor.clone)

    def to(self, device: torch.device | str) -> Self:
        return self.map(lambda tensor: tensor.to(device))

    def pick(self, rows: Tensor) -> Self:
        """These rows in this order, repeats allowed: a beam goes on from its best parents."""
        return self.map(lambda tensor: tensor.index_select(0, rows))

    def reset(self, rows_B: Tensor) -> Self:
        """Let the rows that are True begin anew. In every family a state of zeros is a beginning."""
        return self.map(lambda tensor: tensor.masked_fill(rows_B.view(-1, *[1] * (tensor.dim() - 1)), 0))

    def trimmed(self) -> Self:
        """The state without spare room in its buffers."""
        return self

    def next_window(self) -> Self:
        """The state with which a row goes on once the model's context is full. A model without a bound goes on as it is."""
        return self

    @staticmethod
    def join(states: Sequence["State"]) -> "State":
        """The rows of several states of one model as one state. Shorter memories are filled up with empty (zero) slots."""
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
    value: Tensor  # (B, T), or (B, T, K) if the term is spread over K columns
    column_BK: Tensor | None = None  # the position of each column, -1 where there is none
    details: Mapping[str, Tensor] | None = None  # (B, T) each: how the term came about


@dataclass(frozen=True)
class Parts:
    """The terms whose sum is the probability of each target, or its score: the number that a softmax is taken of."""

    of: Literal["probability", "score"]
    terms: tuple[Part, ...]

    def total(self) -> Tensor:
        """(B, T): the sum of all terms."""
        values = [part.value if part.value.dim() == 2 else part.value.sum(2) for part in self.terms]
        return torch.stack(values).sum(0)

    def scaled(self, by_BT: Tensor, name: str, nll_BT: Tensor) -> tuple[Part, ...]:
        """The terms of this probability as terms of a mixture. A probability that is a softmax of scores is one term, named `name`."""
        if self.of == "score":
            return (Part(name, by_BT * (-nll_BT).exp()),)
        wide = {2: by_BT, 3: by_BT.unsqueeze(2)}
        return tuple(
            Part(part.name, part.value * wide[part.value.dim()], part.column_BK, part.details)
            for part in self.terms
        )


class Prediction(ABC):
    """The next token's distribution at every position of a call."""

    features_BTD: Tensor | None = None  # what the readout reads, if the model has a readout

    @abstractmethod
    def log_probs(self) -> Tensor:
        """(B, T, V): natural logs, normalised in every family."""

    @abstractmethod
    def at(self, positions_BK: Tensor) -> "Prediction":
        """The prediction at some positions of each row, so that reading a prompt never pays for its readout."""

    @abstractmethod
    def parts(self, targets_BT: Tensor) -> Parts:
        """What the probability (or the score) of each target is the sum of. A target below 0 counts as token 0."""

    def nll(self, targets_BT: Tensor) -> Tensor:
        """(B, T): -log P of each target, 0 where the target is -1."""
        chosen_BT = self.log_probs().gather(2, targets_BT.clamp(min=0).unsqueeze(2)).squeeze(2)
        return torch.where(targets_BT < 0, 0.0, -chosen_BT)

    def loss(
        self, targets_BT: Tensor, weights_BT: Tensor | None = None, smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """(sum, weight): the weighted sum of -log P over the real targets, and the sum of the weights; for training.

        Sums of several batches can be added before they are divided, so accumulated batches equal one batch.
        Label smoothing gives the share `smoothing` of each target to all V tokens alike (Szegedy et al. 2016, section 7).
        """
        loss_BT = self.nll(targets_BT)
        if smoothing:
            loss_BT = (1 - smoothing) * loss_BT - smoothing * self.log_probs().mean(2)
        weights_BT = real_weights(targets_BT, weights_BT).to(loss_BT.dtype)
        return (loss_BT * weights_BT).sum(), weights_BT.sum()


def real_weights(targets_BT: Tensor, weights_BT: Tensor | None) -> Tensor:
    real_BT = targets_BT >= 0
    return real_BT if weights_BT is None else weights_BT * real_BT


@dataclass(frozen=True)
class Given:
    """The sentence that a state begins with: ids below `size`, padded with the id `size`."""

    size: int
    longest: int | None = None  # the most tokens that can be read

    @property
    def padding(self) -> int:
        return self.size


class LanguageModel(nn.Module, ABC):
    """A family is a final subclass with a frozen `Config`, built as `Family(vocabulary_size, config)`.

    A family whose state begins with a sentence is built as `Family(vocabulary_size, config, source_size)`.
    """

    family: ClassVar[str]
    Config: ClassVar[type]
    learns: Learns = "descent"
    reads: Reads = "text"  # which task feeds the family
    training_defaults: ClassVar[dict[str, Any]] = {}  # the family's own defaults of training options
    medium: ClassVar[dict[str, Any]] = {}  # options under --size medium, of the model and of training
    bounded: ClassVar[bool] = False  # its option `context` bounds what it sees
    steady: bool = (
        False  # one token a row on a state with room: the same operations and shapes, whatever the tokens are
    )
    compiles: ClassVar[bool] = True  # under --compile auto, on a GPU, where no state is carried
    batch_tokens: int = 1 << 15  # how many tokens a call may read at a time while measuring
    row_tokens: int = 1 << 12  # how many of them in one row, where a state is carried on

    context: int | None = None  # the most tokens that one window holds; None: no bound
    given: Given | None = (
        None  # the sentence that a state begins with; None: a state begins with a number of rows
    )

    def __init__(self, vocabulary_size: int, config: Any):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.config = config

    @property
    def start(self) -> int:
        return self.vocabulary_size

    @property
    def padding(self) -> int:
        return self.vocabulary_size + 1

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors().values())).device

    @abstractmethod
    def begin(self, given: int | Tensor, look: Look | None = None) -> State:
        """The state before anything was read, of so many rows; or of the rows (B, S) that are given."""

    @abstractmethod
    def forward(
        self, tokens_BT: Tensor, state: Any, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, State]: ...

    def read_from_start(
        self, tokens_BT: Tensor, given: Tensor | None = None, look: Look | None = None
    ) -> tuple[Prediction, State]:
        """Read rows from their beginning: `begin`, then `forward`."""
        return self(tokens_BT, self.begin(len(tokens_BT) if given is None else given, look), look)

    def with_room(self, state: Any, room: int) -> State:
        """The state with buffers of a fixed size and room for `room` tokens in all, for models whose states grow.

        A call that reads one token a row, with padded="right", then returns a state of the same shapes. The call may write into the tensors
        that it is given. If the family is `steady`, the call asks the host nothing, so it can be captured as a graph or compiled once.
        """
        return state

    def slide(self, recent_BT: Tensor, state: Any, look: Look | None = None) -> tuple[Prediction, State]:
        """Go on after the context is full: (the prediction at the last position, the state).

        `recent_BT` are the last tokens, of which only the very last has not been read. A model with a bound reads all of them in a new
        window; a model without one reads the last token.
        """
        if self.context is None:
            return self(recent_BT[:, -1:], state, look)
        prediction, state = self(recent_BT, state.next_window(), look)
        return prediction.at(torch.full_like(recent_BT[:, :1], recent_BT.shape[1] - 1)), state

    @property
    def carries(self) -> bool:
        """Whether a state remembers anything from one window to the next, so that a document must be read in its order."""
        return self.context is None

    def members(self) -> list["Member"]:
        """The models whose probabilities are averaged. They are measured one by one, each in its own context."""
        return [Member("", self, 1.0)]

    def cache(self) -> dict[str, float] | None:
        """Size, theta and share of a neural cache, if there is one."""
        return None

    def sites(self) -> dict[str, Site]:
        """The places that can be watched or changed."""
        return {}

    def layer_sites(self) -> list[str]:
        """The sites that hold the states after each layer, in order, if the last one's could be replaced by any other's."""
        return []

    def contributions(
        self, tokens_1T: Tensor, place: int, token: int, look: Look | None = None
    ) -> list["Contribution"]:
        """What the score (or the probability) of a token after a position is the sum of."""
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
        """The least that a state can begin with."""
        return 1 if self.given is None else torch.zeros(1, 1, dtype=torch.long, device=self.device)

    def fit(self, text: Encoded) -> None:
        """Learn from a text by counting. Families that learn by gradient descent leave this to the training loop."""
        raise TypeError(f"{self.family} does not learn by counting")

    def sizes(self) -> int:
        """How many numbers were learned."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def tensors(self) -> dict[str, Tensor]:
        """What is saved."""
        return self.state_dict()

    def assign(self, tensors: Mapping[str, Tensor]) -> None:
        """Take saved tensors as they are, memory-mapped ones included."""
        self.load_state_dict(tensors, assign=True)


@dataclass(frozen=True)
class Contribution:
    """One term of the score or the probability of one token."""

    of: Literal["probability", "score"]
    name: str
    value: float
    position: int | None = None  # of the word that it comes from, if it comes from one word


@dataclass(frozen=True)
class Member:
    """One model of a mixture."""

    prefix: str  # stands before the names of its sites
    model: LanguageModel
    weight: float
