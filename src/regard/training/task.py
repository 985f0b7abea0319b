"""A task: what a training reads, what it minimises, and how its progress is judged. The loop knows nothing else of the data.

Shape legend: B rows, T positions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.contract import LanguageModel, State
from regard.tokens.contract import Encoded, Tokenizer
from regard.training.options import TrainingOptions


@dataclass(frozen=True)
class Batch:
    """What one step reads."""

    inputs: dict[str, Tensor]  # the arguments of the objective, but for the state
    weight: float  # what the sum of losses is divided by: the number of real targets
    tokens: int  # tokens read, for the speed
    fresh_B: Tensor | None = None  # rows that begin anew, if a state is carried from batch to batch


class Batches(ABC):
    """All batches of a training. A batch is a function of seed, epoch and step, so a resumed run reads what it would have read."""

    @abstractmethod
    def steps(self, epoch: int) -> int: ...

    @abstractmethod
    def batch(self, epoch: int, step: int) -> Batch: ...


class Task(ABC):
    """What the loop needs to train a model."""

    @abstractmethod
    def batches(
        self, model: LanguageModel, options: TrainingOptions, seed: int, device: torch.device
    ) -> Batches: ...

    def objective(self, model: LanguageModel, options: TrainingOptions) -> nn.Module:
        """What is compiled and distributed: (inputs, state) -> (sum of losses, state)."""
        return Step(model, options.label_smoothing)

    def validate(self, model: LanguageModel) -> float | None:
        """The loss on a bounded part of the validation text; None if there is no validation text."""
        return None

    def judge(self, model: LanguageModel, valid_loss: float) -> float:
        """The number that decides which validation is best; lower is better."""
        return valid_loss

    def sample(self, model: LanguageModel) -> str | None:
        """Something that the model says, for the samples file."""
        return None


class TextTask(Task):
    """A task whose trained model becomes a run: its texts, its tokenizers, and the figures of the finished model."""

    tokenizer: Tokenizer
    source_tokenizer: Tokenizer | None = None
    notes: list[str]

    @abstractmethod
    def texts(self) -> dict[str, list[dict[str, Any]]]:
        """Names and hashes of the training, validation and test texts, for the run's config."""

    def limits(self) -> dict[str, Any]:
        """Limits that decided which examples were left out, for the run's config."""
        return {}

    @abstractmethod
    def make(self, family: type[LanguageModel], config: Any) -> LanguageModel:
        """A new model for this task's vocabulary."""

    @abstractmethod
    def encoded(self) -> Encoded:
        """The training text as integers; of sentence pairs, the target side."""

    def loss(self, model: LanguageModel) -> float | None:
        """The loss on all of the validation text."""
        return None

    def report(self, model: LanguageModel) -> dict[str, float]:
        """More figures of a finished model."""
        return {}


class Step(nn.Module):
    """The loss of a language model on a batch. A state is returned only if the model carries it to the next batch."""

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


@dataclass(frozen=True)
class Report:
    """What is going on, a few times a second."""

    step: int
    steps: int | None
    loss: float
    tokens_per_second: float
    peak_share: float
    seconds_left: float
    valid_loss: float | None
    doing: str = "training"


Listener = Callable[[Report], None]


def ignore_reports(report: Report) -> None:
    """A listener that ignores every report."""


@dataclass
class Progress:
    """How far a training has come; a checkpoint keeps it beside the tensors."""

    step: int = 0
    epoch: int = 0
    place: int = 0  # steps into the epoch
    tokens: int = 0
    seconds: float = 0.0
    summed_loss: float = 0.0  # since the last validation
    summed_steps: int = 0
    best_loss: float | None = None
    best_step: int = 0
    worse: int = 0  # validations since the best one
    metrics: int = 0  # validations that were logged
