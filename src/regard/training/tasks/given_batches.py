"""Batches of texts that each belong to a source sentence or an image.

Shape legend: B rows, T positions.
"""

from dataclasses import dataclass
from typing import Self, final

from regard.machine.device import Machine
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
    machine: Machine

    @classmethod
    def of(cls, schedule: ExampleSchedule, model: LanguageModel, machine: Machine) -> Self:
        assert model.given is not None
        corpus = Corpus.of(schedule.examples.target, model.start, machine.device)
        return cls(schedule, corpus, model.given, model.padding, machine)

    def steps(self, epoch: int) -> int:
        return self.schedule.steps(epoch)

    def batch(self, epoch: int, step: int) -> Batch:
        device, ranks = self.machine.device, self.machine.ranks
        place_BT, _ = self.schedule.places(epoch, step)
        inputs = text_rows(self.corpus, ranks.own(place_BT), self.padding, device)
        given = self.given.rows(self.schedule.examples, ranks.own(self.schedule.chosen(epoch, step)))
        tokens, counts = int((place_BT >= 0).sum()), ranks.reads(len(place_BT))
        return Batch(inputs | {"given": given.to(device)}, weight=tokens, tokens=tokens, counts=counts)
