"""Training on plain text: every token of a document is predicted from the tokens before it.

Shape legend: B rows, T positions, N tokens of the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.machine.device import Machine, to_device
from regard.models.building import build_model
from regard.models.contract import LanguageModel
from regard.probabilities.decoder import ENDED, Writing, generate
from regard.probabilities.measures import measure, token_losses
from regard.text.builtin import built_in_text
from regard.text.documents import Document
from regard.text.files import Source, choose_document, hold_out_files, read
from regard.tokens.choose import train_on_sources
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.schedule import Corpus, LaneSchedule, Schedule, WindowSchedule, check_context
from regard.training.options import Options, TextOptions, TrainingOptions
from regard.training.task import Batch, Batches, Step, TextTask

VALID_TOKENS = 1 << 15  # the maximal number of tokens of a validation; the final measurement reads all tokens
VALID_CHARACTERS = 1 << 22  # of a large validation text that the last measurement of a training reads
SAMPLE_TOKENS = 100  # the length of a sample


@final
class PlainText(TextTask[LanguageModel]):
    """Training, validation and test text."""

    def __init__(self, options: Options):
        document = choose_document(options.data.text, options.tokens.document)
        self.train, self.valid, self.test = read_texts(options.data, document)
        share = f"the last {options.data.hold:.0%} of the text"
        self.notes = (
            [f"{share} is held out for validation; `hold` 0 holds nothing out"]
            if self.valid and not options.data.valid
            else []
        )
        tokens = replace(options.tokens, document=document)
        self.tokenizer, self._encoded, notes = train_on_sources(self.train, tokens, options.data.seed)
        self.notes += notes
        self._valid_part: Encoded | None = None

    def texts(self) -> dict[str, list[dict[str, Any]]]:
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: [source.record() for source in sources] for name, sources in parts.items()}

    def make(self, family: type[LanguageModel], config: Any) -> LanguageModel:
        if family.bounded:
            check_context(self._encoded, config.context)  # before a model of that size is made
        return build_model(family, self.tokenizer.size, config)

    def encoded(self) -> Encoded:
        return self._encoded

    def batches(self, model: LanguageModel, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        rows = machine.ranks.rows(options.batch)
        if model.context is None:
            schedule: Schedule = LaneSchedule(self._encoded, options.segment, rows, seed)
        else:
            schedule = WindowSchedule(self._encoded, model.context, rows, seed)
        corpus = Corpus.of(self._encoded, model.start, machine.device)
        return TextBatches(schedule, corpus, model.padding, machine)

    def objective(self, model: LanguageModel, options: TrainingOptions) -> Step:
        return Step(model, options.label_smoothing)

    def validate(self, model: LanguageModel) -> float | None:
        if not self.valid:
            return None
        if self._valid_part is None:
            self._valid_part = first_tokens(self.tokenizer, self.valid, VALID_TOKENS)
        return float(token_losses(model, self._valid_part).mean())

    def loss(self, model: LanguageModel) -> float | None:
        if not self.valid:
            return None
        valid = self.valid
        if not all(source.in_memory for source in valid):
            valid = beginning(valid, VALID_CHARACTERS)
            part = f"the first {VALID_CHARACTERS >> 20} million characters of the validation text"
            self.notes.append(f"the loss is measured on {part}; regard evaluate measures all of it")
        result = measure(model, self.tokenizer, valid)
        if result.unknown_tokens:
            self.notes.append(result.not_comparable())
        return result.loss

    def sample(self, model: LanguageModel) -> str | None:
        decode = self.tokenizer.decoder(self.tokenizer.start)
        prompt, state = [[self.tokenizer.start]], model.begin(1)
        written = generate(model, state, prompt, Writing(length=SAMPLE_TOKENS, end=self.tokenizer.stop))
        tokens = (step.tokens[0] for step in written)
        return "".join(decode(token) for token in tokens if token != ENDED)


@final
@dataclass(frozen=True)
class TextBatches(Batches):
    """The batches of a text on the device."""

    schedule: Schedule
    corpus: Corpus
    padding: int
    machine: Machine

    def steps(self, epoch: int) -> int:
        return self.schedule.steps(epoch)

    def batch(self, epoch: int, step: int) -> Batch:
        place_BT, fresh_B = self.schedule.places(epoch, step)
        ranks, tokens = self.machine.ranks, int((place_BT >= 0).sum())
        inputs = text_rows(self.corpus, ranks.own(place_BT), self.padding, self.machine.device)
        counts = ranks.reads(len(place_BT))
        return Batch(inputs, weight=tokens, tokens=tokens, fresh_B=ranks.own(fresh_B), counts=counts)


def text_rows(corpus: Corpus, place_BT: Tensor, padding: int, device: torch.device) -> dict[str, Tensor]:
    """Return the tokens and targets at these places of the text, as inputs of the objective."""
    tokens_BT, targets_BT = (to_device(ids_BT, device) for ids_BT in corpus.rows(place_BT, padding))
    return {"tokens_BT": tokens_BT, "targets_BT": targets_BT}


def first_tokens(tokenizer: Tokenizer, sources: Sequence[Source], tokens: int) -> Encoded:
    """Encode the first `tokens` tokens of the texts.

    To save time, the texts are cut before they are encoded. Tokens have fewer than 64 characters on average.
    """
    first = beginning(sources, 64 * tokens)
    return tokenizer.encode_texts([source.text for source in first]).first(tokens)


def beginning(sources: Sequence[Source], characters: int) -> list[Source]:
    """Return the first characters of the texts, in memory."""
    parts = list[Source]()
    for source in sources:
        part = source.part(0, min(characters, len(source)))
        parts.append(Source(part.name, part.text, part.first))
        characters -= len(part)
        if characters <= 0:
            break
    return parts


def read_texts(options: TextOptions, document: Document) -> tuple[list[Source], list[Source], list[Source]]:
    """Read the training, validation and test texts.

    Without the last two, the end of the training text is held out for validation.
    """
    rows = document == "row"
    sources = read(options.text, rows) or [built_in_text()]
    valid, test = read(options.valid, rows), read(options.test, rows)
    if valid or test or not options.hold:
        return sources, valid, test
    train, valid = hold_out_files(sources, options.hold)
    if not train or not valid:
        raise UserError(
            "the training text is too short to hold out a part of it: give more text, give `valid` text, or "
            "give `hold` 0"
        )
    return train, valid, test
