"""The one contract: a language model reads tokens and, at every position, predicts the next one.

    prediction, state = model(tokens_BT, state=None, look=None)

Training, decoding and measuring are written on this page and never ask which family they have.

Rows. A row never holds two documents. `<s>` and padding are input ids at or above V, so they can never be predicted; padding may stand
anywhere in a row and changes neither state nor position. What is predicted at a padded position means nothing: give it target -1.
While training (`model.training`) rows are padded on the right only, and a padded row is never continued: so nothing has to be moved.

Shape legend: B rows, T positions, V vocabulary, D features, K positions asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from regard.tokens.contract import Encoded


@dataclass(frozen=True)
class State(ABC):
    """What must be remembered to go on: a value, never kept on a module. Batch first in every tensor.

    A state that is passed to a model is used up; `copy()` keeps it.
    """

    position_B: Tensor  # how many real tokens each row has read, `<s>` included

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(**{field.name: _map(change, getattr(self, field.name)) for field in fields(self)})

    def detach(self) -> Self:
        return self.map(Tensor.detach)

    def copy(self) -> Self:
        return self.map(Tensor.clone)

    def pick(self, rows: Tensor) -> Self:
        """The rows asked for, in that order, repeats allowed: how a beam goes on from its best parents."""
        return self.map(lambda tensor: tensor.index_select(0, rows))

    def to(self, device: torch.device | str) -> Self:
        return self.map(lambda tensor: tensor.to(device))

    def begin(self, rows_B: Tensor) -> Self:
        """The rows that are True begin anew: in every family a state of zeros is a beginning."""
        return self.map(lambda tensor: tensor.masked_fill(rows_B.view(-1, *[1] * (tensor.dim() - 1)), 0))


def _map(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, State):
        return value.map(change)
    if isinstance(value, tuple):
        return tuple(_map(change, item) for item in value)
    return value


class Prediction(ABC):
    """The next token's distribution at every position of a call."""

    features_BTD: Tensor | None = None  # what the readout reads, where there is such a thing

    @abstractmethod
    def log_probs(self) -> Tensor:
        """(B, T, V): natural logs, normalised in every family."""

    @abstractmethod
    def at(self, positions_BK: Tensor) -> "Prediction":
        """The prediction at some positions of each row only, so that reading a prompt never pays for its readout."""

    def nll(self, targets_BT: Tensor) -> Tensor:
        """(B, T): -log P of each target, 0 where the target is -1."""
        chosen_BT = self.log_probs().gather(2, targets_BT.clamp(min=0).unsqueeze(2)).squeeze(2)
        return torch.where(targets_BT < 0, 0.0, -chosen_BT)

    def loss(self, targets_BT: Tensor, weights_BT: Tensor | None = None, smoothing: float = 0.0) -> Tensor:
        """The average over the real targets (weighted where weights are given), for training.

        Label smoothing gives the share `smoothing` of each target to all V tokens alike (Szegedy et al. 2016, section 7).
        """
        loss_BT = self.nll(targets_BT)
        if smoothing:
            loss_BT = (1 - smoothing) * loss_BT - smoothing * self.log_probs().mean(2)
        weights_BT = real_weights(targets_BT, weights_BT).to(loss_BT.dtype)
        return (loss_BT * weights_BT).sum() / weights_BT.sum().clamp(min=torch.finfo(loss_BT.dtype).tiny)


def real_weights(targets_BT: Tensor, weights_BT: Tensor | None) -> Tensor:
    real_BT = targets_BT >= 0
    return real_BT if weights_BT is None else weights_BT * real_BT


class LanguageModel(nn.Module, ABC):
    """A family is a final subclass with a frozen `Config`, built as `Family(vocabulary_size, config)`."""

    family: ClassVar[str]
    Config: ClassVar[type]
    context: int | None = None  # the most tokens a state can hold; None: no bound
    cache: dict[str, float] | None = None  # size, theta and share, where it is a neural cache on another model
    training_defaults: ClassVar[dict[str, Any] | None] = {}  # the family's own defaults of training options; None: it counts
    compiles: ClassVar[bool] = True  # under --compile auto, on a GPU, where no state is carried
    medium: ClassVar[dict[str, Any]] = {}  # its options under --size medium, of the model and of training
    batch_tokens: int = 1 << 15  # how many tokens a call may read at a time while measuring
    row_tokens: int = 1 << 12  # how many of them in one row, where a state is carried on

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
    def forward(self, tokens_BT: Tensor, state: Any = None, look: Any = None) -> tuple[Prediction, State]: ...

    def sites(self) -> dict[str, str]:
        """The places that can be watched or changed, and their shapes."""
        return {}

    def fit(self, text: Encoded, descend: Callable[["LanguageModel"], object]) -> None:
        """Learn from a text. Gradient descent, handed in by the trainer, unless a family counts."""
        descend(self)

    def sizes(self) -> int:
        """How many numbers were learned."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def tensors(self) -> dict[str, Tensor]:
        """What is saved."""
        return self.state_dict()

    def assign(self, tensors: Mapping[str, Tensor]) -> None:
        """Take saved tensors as they are, memory-mapped ones included."""
        self.load_state_dict(tensors, assign=True)
