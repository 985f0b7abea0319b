"""What a training reads: plain text or parallel text, with the tokenizers made of it, and how well a model does on what was held out."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, final

from regard.errors import UserError
from regard.models.contract import LanguageModel
from regard.models.ranges import at_least
from regard.models.translation import Translator
from regard.probabilities.decoding import Sampling
from regard.probabilities.measures import measure, pair_losses, token_losses
from regard.probabilities.quality import bleu
from regard.probabilities.translating import translate_lines
from regard.runs.aligning import align
from regard.runs.folder import Run
from regard.runs.optimisers import TrainingOptions
from regard.runs.using import stream
from regard.text import parallel
from regard.text.builtin import topics
from regard.text.files import Source, hold_out_files, read
from regard.text.parallel import Parallel
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import PairSchedule, encode_pairs
from regard.tokens.schedule import LaneSchedule, Schedule, WindowSchedule

VALID_TOKENS = 1 << 15  # of the validation text are looked at during training; all of it at the end
VALID_SENTENCES = 200  # are translated at every validation, where BLEU decides


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    text: tuple[str, ...] = ()
    """Training text: files, folders, globs, or - for standard input. Without it, the built-in text."""
    valid: tuple[str, ...] = ()
    """Validation text. Without it, families that need one hold out the last tenth of the training text."""
    test: tuple[str, ...] = ()
    """Test text, remembered for `regard evaluate`."""
    out: str | None = None
    """The run folder to write (runs/FAMILY)."""
    seed: int = 1
    """For everything that is random."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairOptions:
    source: str | None = None
    """Sentences, a line each; without any files, the built-in English and Spanish."""
    target: str | None = None
    """Their translations, line by line."""
    pairs: str | None = None
    """Both in one file instead: source TAB target."""
    valid_source: str | None = None
    """Validation sentences. Without them, a tenth of the source sentences is held out."""
    valid_target: str | None = None
    """Their translations."""
    shared: bool = False
    """One vocabulary for both sides (bpe)."""
    longest: int = 100
    """Pairs with more tokens on a side are left out, and counted."""
    batch_tokens: int = 1024
    """Tokens a step on the longer side, padding included."""
    stop_on: Literal["loss", "bleu"] = "loss"
    """Which validation counts as better: the lower loss, or the higher BLEU of what is translated."""
    out: str | None = None
    """The run folder to write (runs/FAMILY)."""
    seed: int = 1
    """For everything that is random."""

    def __post_init__(self) -> None:
        at_least(1, longest=self.longest, batch_tokens=self.batch_tokens)


class Material(ABC):
    tokenizer: Tokenizer
    source_tokenizer: Tokenizer | None = None
    notes: list[str]

    @abstractmethod
    def record(self) -> dict[str, list[dict[str, Any]]]:
        """What a run remembers of its texts."""

    def limits(self) -> dict[str, Any]:
        """What a run remembers of what was left out."""
        return {}

    @abstractmethod
    def encoded(self) -> Encoded:
        """What is predicted in training, as integers."""

    @abstractmethod
    def schedule(self, model: LanguageModel, options: TrainingOptions, seed: int) -> Schedule:
        """What is read at every step."""

    @abstractmethod
    def make(self, kind: type[LanguageModel], config: Any) -> LanguageModel: ...

    @abstractmethod
    def validator(self, model: LanguageModel) -> Callable[[], float] | None:
        """The loss on some of the validation text."""

    def judge(self, run: Run) -> Callable[[], float] | None:
        """What else decides which weights are better, the lower; None: the loss."""
        return None

    @abstractmethod
    def loss(self, run: Run) -> float | None:
        """On all of the validation text."""

    def report(self, run: Run) -> dict[str, float]:
        """What else is worth saying of a finished run."""
        return {}

    @abstractmethod
    def sample(self, run: Run) -> str: ...


@final
class PlainText(Material):
    def __init__(self, options: TextOptions, tokens: TokenOptions, hold: bool):
        self.train, self.valid, self.test = _texts(options, hold)
        self.notes = []
        self.tokenizer, self._encoded = train_tokenizer([source.text for source in self.train], tokens)

    def record(self) -> dict[str, list[dict[str, Any]]]:
        return {name: [source.record() for source in getattr(self, name)] for name in ("train", "valid", "test")}

    def encoded(self) -> Encoded:
        return self._encoded

    def schedule(self, model: LanguageModel, options: TrainingOptions, seed: int) -> Schedule:
        if model.context is None:
            return LaneSchedule(self._encoded, options.segment, options.batch, seed)
        return WindowSchedule(self._encoded, model.context, options.batch, seed)

    def make(self, kind: type[LanguageModel], config: Any) -> LanguageModel:
        return kind(self.tokenizer.size, config)

    def validator(self, model: LanguageModel) -> Callable[[], float] | None:
        valid = self.tokenizer.encode_texts([source.text for source in self.valid]).first(VALID_TOKENS) if self.valid else None
        return None if valid is None else lambda: float(token_losses(model, valid).mean())

    def loss(self, run: Run) -> float | None:
        return measure(run.model, run.tokenizer, [source.text for source in self.valid]).loss if self.valid else None

    def sample(self, run: Run) -> str:
        return "".join(pieces[0] for pieces in stream(run, "", 100, 1, seed=1, sampling=Sampling()))


@final
class ParallelText(Material):
    def __init__(self, options: PairOptions, tokens: TokenOptions, limit: int | None):
        self._options = options
        self.train, self.valid = _pairs(options)
        sides = (self.train.sources, self.train.targets)
        if options.shared and tokens.tokens != "bpe":
            raise UserError("--shared is for --tokens bpe: one encoding learned from both sides")
        texts = ["\n".join([*sides[0], *sides[1]])] * 2 if options.shared else ["\n".join(side) for side in sides]
        self.source_tokenizer, self.tokenizer = (train_tokenizer([text], tokens)[0] for text in texts)
        self._limit = limit = min(options.longest, limit) if limit is not None else options.longest
        self._encoded, self.train = encode_pairs(self.train, self.source_tokenizer, self.tokenizer, limit)
        self._valid, self.valid = encode_pairs(self.valid, self.source_tokenizer, self.tokenizer, limit, "validation pair")
        left_out = self._encoded.too_long + self._valid.too_long
        self.notes = [f"{left_out:,} pairs have more than {limit} tokens on a side and are left out"] if left_out else []
        if self.train.empty + self.valid.empty:
            self.notes.append(f"{self.train.empty + self.valid.empty:,} pairs have nothing on one side and are left out")

    def record(self) -> dict[str, list[dict[str, Any]]]:
        held_out = self._options.valid_source is None
        return {"train": [self.train.record()], "valid": [self.valid.record() | {"held_out": held_out}], "test": []}

    def limits(self) -> dict[str, Any]:
        return {"longest": self._limit}

    def encoded(self) -> Encoded:
        return self._encoded.target

    def schedule(self, model: LanguageModel, options: TrainingOptions, seed: int) -> Schedule:
        assert isinstance(model, Translator)
        return PairSchedule(self._encoded, self._options.batch_tokens, seed, model.source_padding)

    def make(self, kind: type[LanguageModel], config: Any) -> LanguageModel:
        assert self.source_tokenizer is not None
        return kind(self.tokenizer.size, config, self.source_tokenizer.size)  # type: ignore[call-arg]

    def validator(self, model: LanguageModel) -> Callable[[], float]:
        assert isinstance(model, Translator)
        return lambda: float(pair_losses(model, self._valid).mean())

    def judge(self, run: Run) -> Callable[[], float] | None:
        if self._options.stop_on == "loss":
            return None
        some = self.valid.part(range(min(VALID_SENTENCES, len(self.valid))))
        return lambda: -bleu(translate_lines(run.model, run.source, run.tokenizer, some.sources, beam=1), some.targets).score

    def loss(self, run: Run) -> float:
        assert isinstance(run.model, Translator)
        return float(pair_losses(run.model, self._valid).mean())

    def report(self, run: Run) -> dict[str, float]:
        said = translate_lines(run.model, run.source, run.tokenizer, self.valid.sources)
        found = {"bleu": bleu(said, self.valid.targets).score}
        if self.valid.alignments is not None and isinstance(run.model, Translator) and run.model.crossing:
            found["aer"] = align(run, self.valid).measured()["aer"]
        return found

    def sample(self, run: Run) -> str:
        some = self.valid.sources[:3]
        said = translate_lines(run.model, run.source, run.tokenizer, some, beam=1)
        return "\n".join(f"{source}\n  {target}" for source, target in zip(some, said, strict=True))


def _texts(options: TextOptions, hold: bool) -> tuple[list[Source], list[Source], list[Source]]:
    sources = read(_paths(options.text)) or [topics()]
    valid, test = read(_paths(options.valid)), read(_paths(options.test))
    if valid or not hold:
        return sources, valid, test
    train, valid = hold_out_files(sources)
    if not train or not valid:
        raise UserError("the training text is too short to hold out a tenth of it: give more, or name a --valid text")
    return train, valid, test


def _pairs(options: PairOptions) -> tuple[Parallel, Parallel]:
    whole = read_pairs(options.source, options.target, options.pairs) or parallel.built_in()
    if (options.valid_source is None) != (options.valid_target is None):
        raise UserError("--valid-source and --valid-target go together: a file of sentences and one of their translations")
    valid = read_pairs(options.valid_source, options.valid_target, None)
    return (whole, valid) if valid is not None else parallel.hold_out(whole)


def read_pairs(source: str | None, target: str | None, table: str | None) -> Parallel | None:
    """Parallel text from two files or a table; None where none is named."""
    if table is not None:
        if source is not None or target is not None:
            raise UserError("give --pairs, or --source and --target, not both")
        return parallel.read_table(table)
    if (source is None) != (target is None):
        raise UserError("--source and --target go together: a file of sentences and one of their translations")
    return None if source is None or target is None else parallel.read_files(source, target)


def _paths(paths: str | Sequence[str]) -> Sequence[str]:
    return [paths] if isinstance(paths, str) else paths
