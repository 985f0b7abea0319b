"""A task defines the batches of a training, the loss that is minimised, and the validation.

The training loop does not depend on the kind of data in any other way.

Shape legend: B rows, T positions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from annotated_types import Ge
from torch import Tensor, nn

from regard.machine.device import Machine
from regard.models.contract import LanguageModel, State
from regard.models.model import Model
from regard.models.rows import RowModel
from regard.ranges import Number, Size
from regard.tokens.contract import Encoded, Tokenizer
from regard.training.options import TrainingOptions

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Batch:
    """The inputs of a step: the rows that this rank reads (`Ranks.own`), and the sizes of the whole batch."""

    inputs: dict[str, Tensor]  # the arguments of the objective, except the state
    weight: float  # the number of real targets of all ranks, by which the summed loss is divided
    tokens: int  # the number of tokens that all ranks read, for the measurement of speed
    mean: bool = True  # False: the step follows the gradient of the sum of the losses, not of their mean
    fresh_B: Tensor | None = None  # True for rows whose carried state is reset before the batch
    counts: bool = True  # False: the rows are those of another rank, and this rank has none


class Batches(ABC):
    """All batches of a training.

    A batch is a function of seed, epoch and step. A resumed training therefore reads the same batches as a
    training that was not stopped, and any number of ranks reads the same batches together.
    """

    @abstractmethod
    def steps(self, epoch: int) -> int:
        """Return the number of batches in an epoch."""

    @abstractmethod
    def batch(self, epoch: int, step: int) -> Batch:
        """Return a batch."""


class Task(ABC, Generic[M]):
    """The base class of tasks. `M` is the kind of model that the task trains."""

    keeps: ClassVar[Literal["best", "last"]] = "best"  # the validation whose weights the finished model has

    @abstractmethod
    def batches(self, model: M, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        """Return the batches of a training, of which this rank of the machine reads its own rows."""

    @abstractmethod
    def objective(self, model: M, options: TrainingOptions) -> nn.Module:
        """Return the module that maps inputs and state to the summed loss and the new state."""

    def validate(self, model: M) -> float | None:
        """Return the loss on a part of the validation text of bounded size, or None without such a text."""
        return None

    def judge(self, model: M, valid_loss: float) -> float:
        """Return the number by which validations are compared. The lowest is the best."""
        return valid_loss

    def sample(self, model: M) -> str | None:
        """Return an example of what the model does, for the file of samples."""
        return None


class TextTask(Task[M]):
    """A task whose trained model becomes a run."""

    tokenizer: Tokenizer
    source_tokenizer: Tokenizer | None = None
    notes: list[str]  # remarks for the user, such as the number of pairs that were left out
    vectors: str | None = None  # the run or file with the word vectors that the training begins with

    @abstractmethod
    def texts(self) -> dict[str, list[dict[str, Any]]]:
        """Return names and hashes of the training, validation and test texts, for the run's config."""

    def known(self) -> dict[str, Any]:
        """Return what only the task knows of the run: fields of its config, such as the names of labels."""
        return {}

    @abstractmethod
    def make(self, family: type[M], config: Any) -> M:
        """Make a model for the vocabulary of the task."""

    @abstractmethod
    def encoded(self) -> Encoded:
        """Return the encoded training text, or the encoded target side of sentence pairs."""

    def loss(self, model: M) -> float | None:
        """Return the loss on the whole validation text."""
        return None

    def report(self, model: M) -> dict[str, float]:
        """Return more figures of the trained model."""
        return {}


class Step(nn.Module):
    """The summed loss of a language model on a batch.

    The state is returned only if it is carried to the next batch.
    """

    def __init__(self, model: LanguageModel, smoothing: float = 0.0):
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(
        self, tokens_BT: Tensor, targets_BT: Tensor, state: State | None, given: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        if state is None:
            state = self.model.begin(len(tokens_BT) if given is None else given)
        prediction, state = self.model(tokens_BT, state, padded="right")
        loss, _ = prediction.loss(targets_BT, smoothing=self.smoothing)
        carried = self.model.context is None and given is None
        return loss, state.detach() if carried else None


class RowStep(nn.Module):
    """The summed loss of a model that reads whole rows. There is no state."""

    def __init__(self, model: RowModel, **options: Any):
        """`options` are more arguments of the model's loss."""
        super().__init__()
        self.model, self.options = model, options

    def forward(self, *, state: None = None, **inputs: Tensor) -> tuple[Tensor, None]:
        return self.model.loss(**inputs, **self.options), None


@dataclass(frozen=True)
class Report:
    """The progress of a training, which the listener receives twice a second."""

    step: int
    steps: int | None  # the number of steps in all; None if the budget is a time
    loss: float
    tokens_per_second: float
    peak_share: float  # the share of the machine's peak speed
    seconds_left: float
    valid_loss: float | None  # the best one so far
    doing: str = "training"  # or "validating"


Listener = Callable[[Report], None]


def ignore_reports(report: Report) -> None:
    """A listener that ignores every report."""


@dataclass
class Progress:
    """The progress of a training. Checkpoints store it next to the tensors."""

    step: Number = 0
    epoch: Number = 0
    place: Number = 0  # the number of batches that were read in this epoch
    tokens: Size = 0
    seconds: Annotated[float, Ge(0)] = 0.0
    summed_loss: float = 0.0  # since the last validation
    summed_steps: Number = 0
    best_loss: float | None = None
    best_step: Number = 0
    worse: Number = 0  # the number of validations since the best one
    metrics: Number = 0  # the number of validations in the log
