"""The base class of all models: what a registry, a run folder, the training loop and looking inside need.

There are two kinds of models, and each has its own laws in `regard.testing`:

    LanguageModel  (models/contract.py)  predicts the next token at every position and carries a state;
    RowModel       (models/rows.py)      reads whole rows at once and carries no state: classifiers, masked
                                         readers, word embeddings.

The training data that a family reads (`reads`) chooses its task, its data options and its evaluation. Code
outside models/ does not ask which family a model is. A verb asks for the kind of model that it needs:

    model = as_kind(run.model, LanguageModel)      # a UserError names the right verb for any other model

Shape legend: T positions.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.machine.spill import Spill
from regard.models.saved_tensors import check_tensors
from regard.parts.look import Change, Look, Site
from regard.tokens.contract import Encoded

Learns = Literal["descent", "counting", "nothing"]
# The kinds of training data: running text; sentence pairs; running text whose words predict their neighbours;
# running text with hidden words; labelled texts; images with captions.
Reads = Literal["text", "pairs", "words", "blanks", "labels", "captions"]
M = TypeVar("M", bound="Model")


class Model(nn.Module, ABC):
    """The base class of all models. A family is a final subclass with a frozen dataclass `Config`.

    A family is constructed as `Family(vocabulary_size, config)`. A third argument is the number of source
    tokens (`source_size`) or the number of labels, if the family reads sentence pairs or labelled texts.
    """

    family: ClassVar[str]
    Config: ClassVar[type]
    learns: Learns = "descent"
    reads: Reads = "text"  # the kind of training data
    training_defaults: ClassVar[dict[str, Any]] = {}  # the family's own defaults of training options
    # The family's own defaults of token options. A neural model with words replaces rare words by <unk>, and
    # its figures cannot be compared with those of other tokens.
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "bpe"}
    medium: ClassVar[dict[str, Any]] = {}  # the options of model and training that `size` medium sets
    bounded: ClassVar[bool] = False  # True: the family has the option `context`, which limits its window
    compiles: ClassVar[bool] = True  # False: `compile` auto does not compile the family
    begins: ClassVar[bool] = False  # True: a row begins with the start mark
    purpose: ClassVar[str]  # of every model of this kind, for messages: "labels texts"

    context: int | None = None  # the maximal number of tokens in a window or row; None: no bound
    places: tuple[int, ...] = ()  # the positions that the edits of an edited model name

    def __init__(self, vocabulary_size: int, config: Any):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.config = config

    @property
    def does(self) -> str:
        """The purpose of this model, for messages."""
        return self.purpose

    @property
    @abstractmethod
    def verb(self) -> str:
        """The verb that uses the model, such as classify."""

    @property
    def start(self) -> int:
        return self.vocabulary_size

    @property
    def padding(self) -> int:
        return self.vocabulary_size + 1

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors().values())).device

    @property
    def carries(self) -> bool:
        """Whether a state carries memory from window to window. A document must then be read in order."""
        return False

    @property
    def repeats(self) -> bool:
        """Whether equal shapes mean equal operations in training, so that a step can be recorded on a GPU."""
        return False

    @property
    def source_size(self) -> int | tuple[int, ...] | None:
        """The number of source tokens, or None if the model reads no source."""
        return None

    @property
    def label_count(self) -> int | None:
        """The number of labels, or None if the model knows no labels."""
        return None

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU makes the model faster. Counted tables stay on the CPU."""
        return self.learns == "descent"

    def sites(self) -> dict[str, Site]:
        """Return the sites that can be watched or changed, by name."""
        return {}

    @abstractmethod
    def watch(self, tokens_1T: Tensor, look: Look | None = None) -> None:
        """Read one row from its beginning, only for what the look sees."""

    @abstractmethod
    def try_once(self) -> None:
        """Read the smallest input. An edit that does not fit the model is then refused at once."""

    @abstractmethod
    def with_changes(
        self, changes: Mapping[str, Change], places: tuple[int, ...] = (), by_word: bool = False
    ) -> "Model":
        """Return a model that shares the weights and makes the changes at its sites in every call.

        `places` are the positions that the changes name; `by_word`: some of them select rows by word.
        """

    def fit(self, text: Encoded) -> None:
        """Learn from a text by counting. The training loop trains the families that learn by descent."""
        raise TypeError(f"{self.family} does not learn by counting")

    def fit_within(self, text: Encoded, spill: Spill) -> Path:
        """Learn the same from a text within a memory budget. Return a safetensors file of the tensors.

        The file lies in the folder of the budget, and the model has mapped it.
        """
        raise UserError(f"{self.family} counts in memory: leave out `memory`")

    def parameter_count(self) -> int:
        """Return the number of learned numbers."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that a run folder saves."""
        return self.state_dict()

    def check_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise a ValueError that names a tensor if saved tensors do not fit the model, or are no numbers."""
        check_tensors(self.tensors(), tensors)

    def assign(self, tensors: Mapping[str, Tensor]) -> None:
        """Use saved tensors without a copy, so that memory-mapped tensors stay mapped."""
        self.load_state_dict(tensors, assign=True)


def as_kind(model: Model, kind: type[M]) -> M:
    """Return the model if it is of this kind. A UserError names the verb that uses the model otherwise."""
    if isinstance(model, kind):
        return model
    use = f"use regard {model.verb}, or name a run that {kind.purpose}"
    raise UserError(f"this run ({model.family}) {model.does}: {use}")
