"""The controls of classifiers: the run's own labelled texts, with early stopping on a part of them.

Shape legend: B rows, T positions, P texts, L labels, D width.
"""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.inside.attention_rows import weight_sites
from regard.inside.controls import Controls, Reader, WithoutContext, mixing
from regard.machine.device import Machine
from regard.models.classifier import Labeller
from regard.parts.look import Look
from regard.runs.labelled import own_labelled, require_labeller
from regard.runs.run import Run
from regard.text.labelled import Labelled, hold_out, read_labelled
from regard.tokens.rows import encode_rows
from regard.training.options import LabelOptions, TrainingOptions
from regard.training.task import Batches, RowStep, Task
from regard.training.tasks.labels import LabelBatches

MEASURED = 1 << 14  # tokens, padding included, that controls are measured on
OPTIONS = ("optimiser", "learning_rate", "warmup", "weight_decay", "batch", "evaluate_every", "patience")


def training_texts(run: Run) -> Labelled:
    """Read the run's own training texts again."""
    (record,) = run.config.texts.train
    shares = [valid.hold for valid in run.config.texts.valid if valid.held_out and valid.hold]
    try:
        texts = read_labelled(record.paths(run.folder), record.columns)
        texts = hold_out(texts, shares[0])[0] if shares else texts
    except (UserError, OSError):
        raise _gone(record.name) from None
    if texts.record()["sha256"] != record.sha256:
        raise _gone(record.name)
    return texts


def _gone(name: str) -> UserError:
    return UserError(
        f"controls need the run's own labelled texts, and {name} is gone or has changed: train the run again"
    )


@final
class LabelReader(Reader[Labeller]):
    def log_probs(self, model: Labeller, tokens_BT: Tensor, look: Look | None = None) -> Tensor:
        return model(tokens_BT, look)


@final
class LabelledRows(Task[Labeller]):
    """Training on labelled texts, with any objective. Its value on other texts decides when to stop."""

    def __init__(self, controls: "LabelControls", objective: nn.Module):
        self._controls, self._objective = controls, objective

    def batches(self, model: Labeller, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        texts, labels_P = self._controls.rows, self._controls.labels_P
        unknown = self._controls.run.tokenizer.unknown
        dropped = LabelOptions().word_dropout
        return LabelBatches(texts, labels_P, model.padding, options.batch, seed, machine, unknown, dropped)

    def objective(self, model: Labeller, options: TrainingOptions) -> nn.Module:
        return self._objective

    @torch.no_grad()
    def validate(self, model: Labeller) -> float:
        tokens_BT, labels_B = self._controls.valid
        self._objective.eval()
        loss, _ = self._objective(tokens_BT=tokens_BT, labels_B=labels_B, state=None)
        self._objective.train()
        return float(loss) / len(labels_B)


@final
class WordsAlone(WithoutContext):
    """The label of single words, mixed by the weights and pooled by those of the pooling."""

    def __init__(self, base: Labeller, width: int, heads: int, uniform: bool):
        super().__init__(base, width, heads, base.label_count or 0)
        self._base, self._uniform = [base], uniform  # the base is not a part of what is trained

    def forward(self, tokens_BT: Tensor) -> Tensor:
        length = tokens_BT.shape[1]
        weighings = LabelReader().weighings(self._base[0], tokens_BT)
        made = [(weighing.site.rows, mixing(weighing, length, self._uniform)) for weighing in weighings]
        states_BTD = self.mixed(tokens_BT, [weights for rows, weights in made if rows != "whole"])
        pooling_B1T = torch.cat([weights for rows, weights in made if rows == "whole"], 1).mean(1)
        return self.readout((pooling_B1T @ states_BTD).squeeze(1)).log_softmax(1)


@final
class LabelControls(Controls[Labeller]):
    """The controls of a classifier, measured on its test or validation texts."""

    reader = LabelReader()

    def __init__(self, run: Run):
        base = require_labeller(run)
        texts = training_texts(run)
        weight_sites(base, "to control")
        super().__init__(run, base)
        try:
            train, valid = hold_out(texts)
        except UserError:
            raise UserError("the run has too few training texts to hold some out for controls") from None
        self.rows = encode_rows(run.tokenizer, train.texts, base.context)
        self.labels_P = torch.tensor(train.numbers(run.config.labels))
        self.valid = self._batch(valid)
        self.seen = not (run.config.texts.test or run.config.texts.valid)
        self.tokens_BT, self.targets_N = self.valid if self.seen else self._batch(self._own())
        if not self.learned:
            sites = ", ".join(site.name for site in weight_sites(base, "to control"))
            raise UserError(
                f"controls are for attention, and the weights of this model ({sites}) are not learned: name "
                "a run with `pool` attention, or with `encoder` transformer"
            )

    def _own(self) -> Labelled:
        """Return the test or validation texts of the run."""
        try:
            return own_labelled(self.run)
        except (UserError, OSError):
            raise _gone((self.run.config.texts.test or self.run.config.texts.valid)[0].name) from None

    def _batch(self, texts: Labelled) -> tuple[Tensor, Tensor]:
        """Return texts and their labels as one batch. Of many texts, some from everywhere are taken."""
        rows = encode_rows(self.run.tokenizer, texts.texts, self.base.context)
        step = -(-len(rows) * int(rows.length_P.max()) // MEASURED)
        places_B = torch.arange(0, len(rows), step)
        labels_P = torch.tensor(texts.numbers(self.run.config.labels))
        device = self.base.device
        return rows.rows(places_B, self.base.padding).to(device), labels_P[places_B].to(device)

    def task(self, objective: nn.Module) -> LabelledRows:
        return LabelledRows(self, objective)

    def options(self, length: Mapping[str, Any]) -> TrainingOptions:
        defaults = {**type(self.base).training_defaults, **(self.run.config.training or {})}
        own = {name: defaults[name] for name in OPTIONS if name in defaults}
        return TrainingOptions(**own, **length)

    def fresh(self) -> Labeller:
        torch.manual_seed(self.seed)
        config, names = self.base.config, self.run.config.labels
        return type(self.base)(self.base.vocabulary_size, config, len(names))  # type: ignore[call-arg]

    def likelihood(self, model: Labeller) -> RowStep:
        return RowStep(model)

    def without_context(self, width: int, uniform: bool) -> WordsAlone:
        weighings = self.reader.weighings(self.base, self.tokens_BT[:1])
        heads = sum(one.weights_BHQK.shape[1] for one in weighings if one.site.rows != "whole")
        return WordsAlone(self.base, width, max(1, heads), uniform)
