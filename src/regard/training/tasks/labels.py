"""Training on labelled texts: the label of each text is predicted.

Shape legend: B rows, T positions, P texts, L labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from regard.machine.device import Machine
from regard.models.building import build_model
from regard.models.classifier import Labeller
from regard.probabilities.labels import label_log_probs, measure_labels
from regard.text.labelled import Labelled, check_known, check_labels, hold_out, read_labelled
from regard.tokens.choose import train_tokenizer
from regard.tokens.contract import Encoded
from regard.tokens.rows import EncodedRows, encode_rows
from regard.tokens.schedule import epoch_generator
from regard.training.options import LabelOptions, Options, TrainingOptions
from regard.training.task import Batch, Batches, RowStep, TextTask

SAMPLES = 3  # the number of validation texts in the file of samples


@final
class Labels(TextTask[Labeller]):
    """Training, validation and test texts with their labels."""

    def __init__(self, options: Options):
        self._options: LabelOptions = options.data
        columns = self._options.column_names()
        whole = read_labelled(self._options.labelled, columns)
        check_labels(whole)
        self.notes = list[str]()
        self.vectors = self._options.vectors
        self.train, self.valid = self._split(whole, columns)
        self.names = self.train.names()
        self.test = read_labelled(self._options.test, columns) if self._options.test else None
        for other in (self.valid, self.test):
            if other is not None:
                check_known(other, self.names)
        self.tokenizer, _ = train_tokenizer(["\n".join(self.train.texts)], options.tokens)
        self._rows = encode_rows(self.tokenizer, self.train.texts, options.model.context)
        self._labels_P = torch.tensor(self.train.numbers(self.names))
        if self._rows.cut:
            self.notes.append(
                f"{self._rows.cut:,} texts have more than {options.model.context} tokens: only these are "
                "read; raise `context` to read more"
            )

    def _split(self, whole: Labelled, columns: Sequence[str]) -> tuple[Labelled, Labelled | None]:
        """Return training and validation texts."""
        share = self._options.hold
        if self._options.valid:
            return whole, read_labelled(self._options.valid, columns)
        if not share:
            return whole, None
        train, valid = hold_out(whole, share)
        held = f"{share:.0%} of the texts of each label, {len(valid):,} in all, are held out for validation"
        self.notes.append(f"{held}; `hold` 0 holds nothing out")
        alone = [name for name in train.names() if name not in set(valid.labels)]
        if alone:
            few = (
                "have too few texts to hold any out"
                if len(alone) > 1
                else "has too few texts to hold any out"
            )
            self.notes.append(f"{', '.join(alone)} {few}: no figure says how well such texts are labelled")
        return train, valid

    def texts(self) -> dict[str, list[dict[str, Any]]]:
        held = {} if self._options.valid else {"held_out": True, "hold": self._options.hold}
        return {
            "train": [self.train.record()],
            "valid": [] if self.valid is None else [self.valid.record() | held],
            "test": [] if self.test is None else [self.test.record()],
        }

    def known(self) -> dict[str, Any]:
        return {"labels": tuple(self.names)}

    def make(self, family: type[Labeller], config: Any) -> Labeller:
        return build_model(family, self.tokenizer.size, config, len(self.names))

    def encoded(self) -> Encoded:
        return self._rows.text

    def batches(self, model: Labeller, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        unknown = (self.tokenizer.unknown, self._options.word_dropout)
        rows = machine.ranks.rows(options.batch)
        return LabelBatches(self._rows, self._labels_P, model.padding, rows, seed, machine, *unknown)

    def objective(self, model: Labeller, options: TrainingOptions) -> nn.Module:
        return RowStep(model, smoothing=options.label_smoothing)

    def validate(self, model: Labeller) -> float | None:
        if self.valid is None:
            return None
        log_probs_PL, labels_P = self._validated(model, self.valid)
        return -float(log_probs_PL.gather(1, labels_P.unsqueeze(1)).mean())

    def _validated(self, model: Labeller, valid: Labelled) -> tuple[Tensor, Tensor]:
        """(P, L) the log-probabilities and (P) the labels of the validation texts."""
        rows = encode_rows(self.tokenizer, valid.texts, model.context)
        return label_log_probs(model, rows), torch.tensor(valid.numbers(self.names))

    def judge(self, model: Labeller, valid_loss: float) -> float:
        if self._options.stop_on == "loss" or self.valid is None:
            return valid_loss
        log_probs_PL, labels_P = self._validated(model, self.valid)
        return 1 - float((log_probs_PL.argmax(1) == labels_P).float().mean())

    def loss(self, model: Labeller) -> float | None:
        return self.validate(model)

    def report(self, model: Labeller) -> dict[str, float]:
        if self.valid is None:
            return {}
        rows = encode_rows(self.tokenizer, self.valid.texts, model.context)
        measure = measure_labels(model, rows, torch.tensor(self.valid.numbers(self.names)), self.names)
        return {"accuracy": measure.accuracy, "macro_f1": measure.macro_f1}

    def sample(self, model: Labeller) -> str | None:
        if self.valid is None:
            return None
        part = self.valid.part(range(min(SAMPLES, len(self.valid))))
        probs_PL = self._validated(model, part)[0].exp()
        best = probs_PL.max(1)
        chosen = [f"{self.names[place]} {p:.3f}" for p, place in zip(*map(Tensor.tolist, best), strict=True)]
        lines = zip(part.texts, chosen, part.labels, strict=True)
        return "\n".join(f"{text}\n  {choice} (is {label})" for text, choice, label in lines)


@final
@dataclass
class LabelBatches(Batches):
    """The batches of labelled texts: shuffled, sorted by length within pools."""

    rows: EncodedRows
    labels_P: Tensor
    padding: int
    size: int  # the number of rows in a batch
    seed: int
    machine: Machine
    unknown: int | None  # the token that a dropped word becomes; None: no word is dropped
    word_dropout: float
    _epoch: int = -1

    def _batches_of(self, epoch: int) -> list[Tensor]:
        if epoch != self._epoch:
            self._batches, self._epoch = self.rows.shuffled(self.size, self.seed, epoch), epoch
        return self._batches

    def steps(self, epoch: int) -> int:
        return len(self._batches_of(epoch))

    def batch(self, epoch: int, step: int) -> Batch:
        places_B = self._batches_of(epoch)[step]
        tokens_BT = self.rows.rows(places_B, self.padding)
        real_BT = tokens_BT != self.padding
        if self.word_dropout and self.unknown is not None:
            generator = epoch_generator(self.seed * 1_000_003 + epoch, step)
            dropped_BT = torch.rand(tokens_BT.shape, generator=generator) < self.word_dropout
            tokens_BT = tokens_BT.masked_fill(dropped_BT & real_BT, self.unknown)
        inputs = {"tokens_BT": tokens_BT, "labels_B": self.labels_P[places_B]}
        ranks = self.machine.ranks
        return Batch(
            {name: ranks.own(tensor).to(self.machine.device) for name, tensor in inputs.items()},
            weight=len(places_B),
            tokens=int(real_BT.sum()),
            counts=ranks.reads(len(places_B)),
        )
