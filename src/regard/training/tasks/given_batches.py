"""Batches of texts that each belong to a source sentence or an image.

Shape legend: B rows, T positions.
"""

from dataclasses import dataclass
from typing import Self, final

import torch

from regard.models.contract import LanguageModel
from regard.models.given import Given
from regard.tokens.pairs import ExampleSchedule
from regard.tokens.schedule import Corpus
from regard.training.task import Batch, Batches
from regard.training.tasks.plain_text import text_rows


@final
@dataclass(frozen=True)
class GivenBatches(Batches):
    """The batches of a schedule, with what the states begin with."""

    schedule: ExampleSchedule
    corpus: Corpus
    given: Given
    padding: int
    device: torch.device

    @classmethod
    def of(cls, schedule: ExampleSchedule, model: LanguageModel, device: torch.device) -> Self:
        assert model.given is not None
        corpus = Corpus.of(schedule.examples.target, model.start, device)
        return cls(schedule, corpus, model.given, model.padding, device)

    def steps(self, epoch: int) -> int:
        return self.schedule.steps(epoch)

    def batch(self, epoch: int, step: int) -> Batch:
        place_BT, _ = self.schedule.places(epoch, step)
        inputs = text_rows(self.corpus, place_BT, self.padding, self.device)
        given = self.given.rows(self.schedule.examples, self.schedule.chosen(epoch, step))
        tokens = int((place_BT >= 0).sum())
        return Batch(inputs | {"given": given.to(self.device)}, weight=tokens, tokens=tokens)
