"""Training of masked readers: some words of each row are hidden, and predicted from the others.

Shape legend: B rows, T positions.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import nn

from regard.machine.device import Machine
from regard.models.building import build_model
from regard.models.reader import Filler
from regard.probabilities.blanks import fill, hidden_loss
from regard.text.files import choose_document
from regard.tokens.blanks import hide
from regard.tokens.choose import train_on_sources
from regard.tokens.contract import Encoded
from regard.tokens.rows import windows
from regard.tokens.schedule import WindowSchedule, epoch_generator
from regard.tokens.shards import encode_sources
from regard.training.options import Options, TrainingOptions
from regard.training.task import Batch, Batches, RowStep, TextTask
from regard.training.tasks.plain_text import VALID_TOKENS, first_tokens, read_texts

SAMPLES = 3  # the number of validation rows in the file of samples


@final
class Blanks(TextTask[Filler]):
    """Training and validation text."""

    def __init__(self, options: Options):
        document = choose_document(options.data.text, options.tokens.document)
        self.train, self.valid, self.test = read_texts(options.data, document)
        share = f"the last {options.data.hold:.0%} of the text"
        held_out = bool(self.valid) and not options.data.valid
        self.notes = [f"{share} is held out for validation; `hold` 0 holds nothing out"] if held_out else []
        tokens = replace(options.tokens, document=document)
        self.tokenizer, self._encoded, notes = train_on_sources(self.train, tokens, options.data.seed)
        self.notes += notes
        self.vectors = options.data.vectors
        self._valid_part: Encoded | None = None

    def texts(self) -> dict[str, list[dict[str, Any]]]:
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: [source.record() for source in sources] for name, sources in parts.items()}

    def make(self, family: type[Filler], config: Any) -> Filler:
        return build_model(family, self.tokenizer.size, config)

    def encoded(self) -> Encoded:
        return self._encoded

    def batches(self, model: Filler, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        assert model.context is not None
        rows = machine.ranks.rows(options.batch)
        schedule = WindowSchedule(self._encoded, model.context, rows, seed)
        return BlankBatches(schedule, self._encoded, model, seed, machine)

    def objective(self, model: Filler, options: TrainingOptions) -> nn.Module:
        return RowStep(model, smoothing=options.label_smoothing)

    def validate(self, model: Filler) -> float | None:
        """Return the loss on words that are hidden by chance, the same ones in every validation."""
        if not self.valid:
            return None
        if self._valid_part is None:
            self._valid_part = first_tokens(self.tokenizer, self.valid, VALID_TOKENS)
        return hidden_loss(model, self._valid_part)

    def loss(self, model: Filler) -> float | None:
        if not self.valid:
            return None
        return hidden_loss(model, encode_sources(self.tokenizer, self.valid))

    def sample(self, model: Filler) -> str | None:
        """Return rows of the validation text with their middle word hidden, and the words that fill it."""
        if self._valid_part is None:
            return None
        lines = []
        for row in windows(self._valid_part, model.context or 64)[:SAMPLES]:
            ids = self._valid_part.ids_N[row].long()
            middle = len(ids) // 2
            hidden = torch.where(torch.arange(len(ids)) == middle, model.blank, ids)
            (words,) = fill(model, hidden, 3)
            before, after = (
                self.tokenizer.decode(part.tolist()) for part in (ids[:middle], ids[middle + 1 :])
            )
            found = ", ".join(f"{self.tokenizer.name(word)} {p:.2f}" for word, p in words)
            lines.append(f"{before} ___ {after}\n  {found} (is {self.tokenizer.name(int(ids[middle]))})")
        return "\n".join(lines)


@final
@dataclass(frozen=True)
class BlankBatches(Batches):
    """Rows of a text with hidden words."""

    schedule: WindowSchedule
    text: Encoded
    model: Filler
    seed: int
    machine: Machine

    def steps(self, epoch: int) -> int:
        return self.schedule.steps(epoch)

    def batch(self, epoch: int, step: int) -> Batch:
        place_BT, _ = self.schedule.places(epoch, step)
        real_BT = place_BT >= 0
        ids_BT = self.text.ids_N[place_BT.clamp(min=0)].long()
        self.text.release()
        ids_BT = torch.where(real_BT, ids_BT, self.model.padding)
        generator = epoch_generator(self.seed * 1_000_003 + epoch, step)
        tokens_BT, targets_BT = hide(ids_BT, real_BT, self.model.blank, self.model.vocabulary_size, generator)
        ranks, rows = self.machine.ranks, {"tokens_BT": tokens_BT, "targets_BT": targets_BT}
        return Batch(
            {name: ranks.own(tensor).to(self.machine.device) for name, tensor in rows.items()},
            weight=int((targets_BT >= 0).sum()),
            tokens=int(real_BT.sum()),
            counts=ranks.reads(len(tokens_BT)),
        )
