"""The controls of language models: rows of the run's training text, each after a start mark.

Shape legend: B rows, T positions, V vocabulary.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.inside.attention_rows import weight_sites
from regard.inside.controls import Controls, Reader, WithoutContext, mixing
from regard.machine.device import Machine
from regard.models.contract import LanguageModel, State
from regard.parts.look import Look
from regard.runs.run import Run, TextRecord
from regard.text.builtin import BUILT_IN, built_in_text
from regard.text.files import read_file
from regard.tokens.schedule import Corpus, WindowSchedule
from regard.training.options import TrainingOptions
from regard.training.task import Batches, Task
from regard.training.tasks.plain_text import TextBatches

LENGTH, ROWS = 64, 16  # tokens of a row, rows of a batch and of the measure
HELD = 0.1  # of the training text: measured on, not trained on
OPTIONS = ("optimiser", "learning_rate", "warmup", "weight_decay")


def training_text(run: Run) -> list[str]:
    """Read the run's own training text again."""
    records = run.config.texts.train
    if not records:
        raise UserError("this run does not say what it was trained on: controls need its own training text")
    return [_again(run, record) for record in records]


def _again(run: Run, record: TextRecord) -> str:
    gone = (
        f"controls need the run's own training text, and {record.name} is gone or has changed: "
        "train the run again"
    )
    if record.name == "-":
        raise UserError(gone)
    try:
        whole = built_in_text() if record.name == BUILT_IN else read_file(record.paths(run.folder)[0])
    except (UserError, OSError):
        raise UserError(gone) from None
    part = whole.text[record.first :].encode()[: record.bytes]
    if hashlib.sha256(part).hexdigest() != record.sha256:
        raise UserError(gone)
    return part.decode()


@final
class TextReader(Reader[LanguageModel]):
    def log_probs(self, model: LanguageModel, tokens_BT: Tensor, look: Look | None = None) -> Tensor:
        """(B, T, V): the log-probabilities of the next token. Rows are padded on the right."""
        return model(tokens_BT, model.begin(len(tokens_BT)), look, "right")[0].log_probs()


@final
class Windows(Task[LanguageModel]):
    """Training on rows that begin anew, with any objective."""

    def __init__(self, corpus: Any, length: int, objective: nn.Module):
        self._text, self._length, self._objective = corpus, length, objective

    def batches(self, model: LanguageModel, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        schedule = WindowSchedule(self._text, self._length, ROWS, seed)
        return TextBatches(
            schedule, Corpus.of(self._text, model.start, machine.device), model.padding, machine
        )

    def objective(self, model: LanguageModel, options: TrainingOptions) -> nn.Module:
        return self._objective


@final
class Likelihood(nn.Module):
    """The usual loss of a model, on rows that begin anew."""

    def __init__(self, model: LanguageModel):
        super().__init__()
        self.model = model

    def forward(
        self, tokens_BT: Tensor, targets_BT: Tensor, state: State | None
    ) -> tuple[Tensor, State | None]:
        prediction, _ = self.model(tokens_BT, self.model.begin(len(tokens_BT)), padded="right")
        return prediction.loss(targets_BT)[0], None


@final
class WordsAlone(WithoutContext):
    """The next token after single words that the weights mix."""

    def __init__(self, base: LanguageModel, width: int, heads: int, uniform: bool):
        super().__init__(base, width, heads, base.vocabulary_size)
        self._base, self._uniform = [base], uniform  # the base is not a part of what is trained

    def forward(self, tokens_BT: Tensor) -> Tensor:
        weighings = TextReader().weighings(self._base[0], tokens_BT)
        maps = [mixing(weighing, tokens_BT.shape[1], self._uniform) for weighing in weighings]
        return self.readout(self.mixed(tokens_BT, maps)).log_softmax(2)


@final
class TextControls(Controls[LanguageModel]):
    """The controls of a language model."""

    reader = TextReader()
    seen = True

    def __init__(self, run: Run):
        base = run.language_model
        if base.given is not None or base.learns != "descent":
            raise UserError(f"controls are for language models that learn by descent, not for {base.family}")
        weight_sites(base, "to control")
        encoded = run.tokenizer.encode_texts(training_text(run))
        self.length = min(base.context or LENGTH, LENGTH)
        held = max(ROWS * (self.length + 1), int(HELD * len(encoded)))
        if len(encoded) < 2 * held:
            raise UserError("the run's training text is too short to hold a part out for controls")
        super().__init__(run, base)
        self.text = encoded.first(len(encoded) - held)
        rows_BT = self._held_rows(encoded.ids_N[len(encoded) - held :].long())
        start_B1 = torch.full((ROWS, 1), base.start)
        self.tokens_BT = torch.cat([start_B1, rows_BT[:, :-1]], 1).to(base.device)
        self.targets_N = rows_BT.to(base.device)

    def _held_rows(self, ids_N: Tensor) -> Tensor:
        """Return rows from the whole held-out part."""
        step = len(ids_N) // ROWS
        return torch.stack([ids_N[row * step : row * step + self.length] for row in range(ROWS)])

    def task(self, objective: nn.Module) -> Windows:
        return Windows(self.text, self.length, objective)

    def options(self, length: Mapping[str, Any]) -> TrainingOptions:
        defaults = {**type(self.base).training_defaults, **(self.run.config.training or {})}
        own = {name: defaults[name] for name in OPTIONS if name in defaults}
        return TrainingOptions(**own, **length, evaluate_every=1 << 30)

    def fresh(self) -> LanguageModel:
        torch.manual_seed(self.seed)
        return type(self.base)(self.base.vocabulary_size, self.base.config)

    def likelihood(self, model: LanguageModel) -> Likelihood:
        return Likelihood(model)

    def without_context(self, width: int, uniform: bool) -> WordsAlone:
        weighings = self.reader.weighings(self.base, self.tokens_BT[:1])
        heads = sum(weighing.weights_BHQK.shape[1] for weighing in weighings)
        return WordsAlone(self.base, width, heads, uniform)
