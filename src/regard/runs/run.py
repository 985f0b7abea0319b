"""A run: a model, the tokenizers it reads with, and what is known of how it was made."""

import dataclasses
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.errors import UserError
from regard.machine.disk import absolute, relocated
from regard.models import family_name
from regard.models.contract import LanguageModel
from regard.models.model import Model, as_kind
from regard.ranges import Count, Number, Seed, Size
from regard.text import parallel
from regard.text.builtin import BUILT_IN, built_in_text
from regard.text.files import Source, read
from regard.text.parallel import Parallel
from regard.tokens.contract import Tokenizer
from regard.tokens.pairs import EncodedPairs, encode_pairs

FORMAT = 3


@dataclass(frozen=True, kw_only=True)
class TextRecord:
    """The record of a text that a run was trained or measured on."""

    name: str
    sha256: str
    bytes: Size
    first: Size = 0  # the text begins at this character of its file: the part before it is training text
    pairs: Size | None = None
    texts: Size | None = None  # the number of labelled texts
    columns: tuple[str, ...] = ()  # of label and text, in a table of labelled texts
    held_out: bool = False
    hold: float | None = None  # the share that was held out
    files: tuple[str, ...] = ()  # as absolute paths; none for the built-in text and standard input
    folder: str | None = (
        None  # of the run when it was written, so that text moved together with the run is found
    )

    def paths(self, now: Path | None) -> list[str]:
        """Return the paths of the files, for a run that lies in the folder `now`."""
        return [relocated(path, self.folder, now) if self.folder and now else path for path in self.files]


@dataclass(frozen=True, kw_only=True)
class Texts:
    train: tuple[TextRecord, ...] = ()
    valid: tuple[TextRecord, ...] = ()
    test: tuple[TextRecord, ...] = ()

    @classmethod
    def of(cls, parts: dict[str, list[dict[str, Any]]], out: Path) -> "Texts":
        """The records of a task's texts, with paths that do not depend on where the command was typed."""
        return cls(
            **{name: tuple(_record(record, out) for record in records) for name, records in parts.items()}
        )

    def every(self) -> Iterator[TextRecord]:
        yield from (*self.train, *self.valid, *self.test)


def _record(record: dict[str, Any], out: Path) -> TextRecord:
    names = record.get("files", () if record["name"] in ("-", BUILT_IN) else (record["name"],))
    files = tuple(absolute(name) for name in names)
    return TextRecord(**{**record, "files": files, "folder": absolute(str(out))})


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The content of config.json."""

    format: int = FORMAT
    family: str
    vocabulary_size: Count
    source_size: Count | tuple[Count, ...] | None = None  # what the model's states begin with
    labels: tuple[str, ...] = ()  # the names of the labels, by number
    model: dict[str, Any]
    texts: Texts
    seed: Seed | None = None
    training: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    longest: Count | None = None  # sentence pairs with more tokens on a side were left out
    steps: Number = 0
    best_step: Number = 0
    tokens: Size = 0
    seconds: float = 0.0
    loss: float | None = None  # on all of the validation text
    figures: dict[str, float] = field(default_factory=dict)  # more figures of the finished model
    made_from: str | None = None  # the file or folder of another tool
    versions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # the hashes of the other files of the run


@dataclass(frozen=True)
class Run:
    model: Model
    tokenizer: Tokenizer
    config: RunConfig
    folder: Path | None = None
    source: Tokenizer | None = None  # the tokenizer of source sentences

    def __str__(self) -> str:
        """The folder of the run, in messages."""
        return str(self.folder or self.config.made_from or self.config.family)

    @property
    def language_model(self) -> LanguageModel:
        """The model; a UserError if it is none that predicts the next token."""
        return as_kind(self.model, LanguageModel)

    @property
    def fingerprint(self) -> str | None:
        """The hash of the weights."""
        return self.config.files.get("model.safetensors")

    def own_text(self) -> list[Source]:
        """The test or validation text that the run was given when it was trained."""
        if self.model.reads == "captions":
            require_plain_text(self)
        records = self.config.texts.test or self.config.texts.valid
        if not records:
            raise UserError("this run was trained without validation or test text; name the text with `text`")
        return [self.read_again(record) for record in records]

    def read(self, paths: str | Path | Sequence[str | Path]) -> list[Source]:
        """Read texts for the run's tokenizer: rows are its documents if they were so in its training."""
        return read(paths, rows=self.tokenizer.document == "row")

    def read_again(self, record: TextRecord) -> Source:
        if record.name == "-":
            raise UserError("this run's text came from standard input and is gone; name the text with `text`")
        (whole,) = [built_in_text()] if record.name == BUILT_IN else self.read(record.paths(self.folder)[0])
        source = whole.part(record.first, len(whole))
        if source.sha256 != record.sha256:
            raise UserError(
                f"{source.name}: has changed since the run was trained; name the text with `text`"
            )
        return source

    def held_out_pairs(self) -> Parallel:
        """The validation pairs of the run's training, read again."""
        record = self.config.texts.valid[0]
        pairs = parallel.read(record.paths(self.folder))
        if record.held_out:
            pairs = parallel.hold_out(pairs)[1]
        _, pairs = encode_pairs(pairs, *self.both_tokenizers(), self.config.longest or 1 << 30)
        if pairs.record()["sha256"] != record.sha256:
            files = "name the text with `source` and `target`"
            raise UserError(f"{record.name}: has changed since the run was trained; {files}")
        return pairs

    def encode_pairs(self, pairs: Parallel) -> tuple[EncodedPairs, Parallel]:
        """Pairs as integers; those that are too long for the model are left out."""
        longest = None if self.language_model.given is None else self.language_model.given.longest
        return encode_pairs(pairs, *self.both_tokenizers(), longest or 1 << 30)

    def both_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """(source, target)"""
        require_translator(self)
        assert self.source is not None
        return self.source, self.tokenizer


NO_TEXTS = Texts()


def describe(model: Model, texts: Texts = NO_TEXTS, **known: Any) -> RunConfig:
    """The config of a run with this model."""
    versions = {"regard": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return RunConfig(
        family=family_name(type(model)),
        vocabulary_size=model.vocabulary_size,
        source_size=model.source_size,
        model=dataclasses.asdict(model.config),
        texts=texts,
        versions=versions,
        **known,
    )


def require_plain_text(run: Run) -> Run:
    """The run, if it goes on from a text; an error if its state begins with something else."""
    if run.model.reads == "captions":
        raise UserError("this run captions images; use regard caption, or regard evaluate with `images`")
    if run.language_model.given is not None:
        raise UserError(
            "this run translates; use regard translate, or regard evaluate with `source` and `target`"
        )
    return run


def require_translator(run: Run) -> Run:
    """The run, if its state begins with a source sentence."""
    if run.language_model.reads != "pairs" or run.source is None:
        raise UserError(
            f"{run.model.family} {run.model.does} and does not translate; train a recurrent-translator or a "
            "transformer-translator"
        )
    return run
