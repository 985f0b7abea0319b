"""Training of word embeddings: words and their neighbours, or single words.

Shape legend: N words of a batch, V vocabulary, D width.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.machine.device import Machine, to_device
from regard.models.building import build_model
from regard.models.embedding import Embedding
from regard.probabilities.neighbours import neighbour_loss
from regard.text.files import choose_document
from regard.tokens.choose import train_on_sources
from regard.tokens.contract import Encoded
from regard.tokens.neighbours import NeighbourSchedule, Words
from regard.tokens.shards import encode_sources
from regard.training.options import Options, TrainingOptions
from regard.training.task import Batch, Batches, RowStep, TextTask
from regard.training.tasks.plain_text import VALID_TOKENS, read_texts

SAMPLED, NEAREST = 8, 5  # a sample shows the nearest words of some words


@final
class Neighbours(TextTask[Embedding]):
    """Training and validation text as words with their neighbours."""

    keeps = "last"  # the learning rate falls to almost nothing, and the loss is not the goal

    def __init__(self, options: Options):
        document = choose_document(options.data.text, options.tokens.document)
        self.train, self.valid, self.test = read_texts(options.data, document)
        share = f"the last {options.data.hold:.0%} of the text"
        held_out = bool(self.valid) and not options.data.valid
        self.notes = [f"{share} is held out for validation; `hold` 0 holds nothing out"] if held_out else []
        tokens = replace(options.tokens, document=document)
        self.tokenizer, self._encoded, notes = train_on_sources(self.train, tokens, options.data.seed)
        self.notes += notes
        self._words = Words.of(self._encoded, self.tokenizer)

    def texts(self) -> dict[str, list[dict[str, Any]]]:
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: [source.record() for source in sources] for name, sources in parts.items()}

    def make(self, family: type[Embedding], config: Any) -> Embedding:
        if config.kind == "given":
            raise UserError("`kind` given is for vectors that a file holds: regard words FILE asks them")
        return build_model(family, self.tokenizer.size, config)

    def encoded(self) -> Encoded:
        return self._encoded

    def batches(self, model: Embedding, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        rows = machine.ranks.rows(options.batch)
        if model.config.kind == "one-hot":
            return SingleWords(self._words, rows * options.segment, seed, machine)
        window, subsample = model.config.window, model.config.subsample
        schedule = NeighbourSchedule(self._words, window, subsample, rows, options.segment, seed)
        return NeighbourBatches(schedule, machine)

    def objective(self, model: Embedding, options: TrainingOptions) -> nn.Module:
        return RowStep(model)

    def validate(self, model: Embedding) -> float | None:
        return self._loss(model, VALID_TOKENS)

    def loss(self, model: Embedding) -> float | None:
        return self._loss(model, None)

    def _loss(self, model: Embedding, most: int | None) -> float | None:
        if not self.valid or model.config.kind == "one-hot":  # one-hot learns the vocabulary, not the text
            return None
        encoded = encode_sources(self.tokenizer, self.valid)
        return neighbour_loss(
            model, Words.of(encoded if most is None else encoded.first(most), self.tokenizer)
        )

    @torch.no_grad()
    def sample(self, model: Embedding) -> str | None:
        """Return the nearest words of some words, from frequent to rare."""
        known = self._words.known_ids()
        ordered = known[np.argsort(-self._words.counts_V[known], kind="stable")]
        places = np.unique(np.geomspace(1, len(ordered), SAMPLED + 1)[:-1].astype(int) - 1)
        unit_VD = nn.functional.normalize(model.embedding.weight[torch.from_numpy(ordered)], dim=1)
        cosine_NV = unit_VD[places] @ unit_VD.T
        cosine_NV[range(len(places)), places] = -torch.inf
        nearest_NK = cosine_NV.topk(min(NEAREST, len(ordered) - 1)).indices.tolist()
        name = self.tokenizer.name
        return "\n".join(
            f"{name(ordered[place])}: {' '.join(name(ordered[near]) for near in own)}"
            for place, own in zip(places, nearest_NK, strict=True)
        )


@final
@dataclass(frozen=True)
class NeighbourBatches(Batches):
    """Bands of words with their neighbours."""

    schedule: NeighbourSchedule
    machine: Machine

    def steps(self, epoch: int) -> int:
        return self.schedule.steps(epoch)

    def batch(self, epoch: int, step: int) -> Batch:
        whole, ranks, device = self.schedule.batch(epoch, step), self.machine.ranks, self.machine.device
        # All rows of a batch share its negative samples.
        own = {name: ranks.own(tensor) for name, tensor in whole.items() if name != "negatives_K"}
        inputs = {name: to_device(tensor, device) for name, tensor in (whole | own).items()}
        # As in word2vec, each prediction moves the vectors by the learning rate, whatever the batch.
        tokens = self.schedule.read(epoch, step) - self.schedule.read(epoch, step - 1)
        weight, counts = self.schedule.predicting(epoch, step), ranks.reads(len(whole["ids_BC"]))
        return Batch(inputs, weight=weight, tokens=tokens, mean=False, counts=counts)


@final
class SingleWords(Batches):
    """All words of the vocabulary in random order, once in each epoch."""

    def __init__(self, words: Words, size: int, seed: int, machine: Machine):
        self._ids = words.known_ids()
        if len(self._ids) < 2:
            raise UserError("the text has fewer than two different words: give more text, or lower `cutoff`")
        self._size, self._seed, self._machine = size, seed, machine

    def steps(self, epoch: int) -> int:
        return -(-len(self._ids) // self._size)

    def batch(self, epoch: int, step: int) -> Batch:
        order = np.random.default_rng([self._seed, epoch]).permutation(self._ids)
        words_N: Tensor = torch.from_numpy(order[step * self._size : (step + 1) * self._size])
        ranks, many = self._machine.ranks, len(words_N)
        inputs = {"words_N": ranks.own(words_N).to(self._machine.device)}
        return Batch(inputs, many, many, mean=False, counts=ranks.reads(many))
