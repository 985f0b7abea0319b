"""Training a run, from text to folder."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.errors import UserError
from regard.models import family_class
from regard.probabilities.measures import measure
from regard.runs.folder import Run, check_free, describe, next_free, save
from regard.text.builtin import topics
from regard.text.files import Source, read
from regard.tokens.choose import TokenOptions, train_tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    text: tuple[str, ...] = ()
    """Training text: files, folders, globs, or - for standard input. Without it, the built-in text."""
    valid: tuple[str, ...] = ()
    """Validation text."""
    test: tuple[str, ...] = ()
    """Test text, remembered for `regard evaluate`."""
    out: str | None = None
    """The run folder to write (runs/FAMILY)."""
    seed: int = 1
    """For everything that is random."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """A finished training, as `regard train --json` prints it."""

    run: Run
    steps: int
    tokens: int
    seconds: float
    loss: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.run.folder),
            "family": self.run.model.family,
            "parameters": self.run.model.sizes(),
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "loss": self.loss,
        }


def train(family: str, **options: Any) -> Trained:
    """Train a model of a family and keep it in a folder. Options are those of `regard train FAMILY --help`.

    >>> trained = regard.train("ngram", text=["my.txt"], order=3, out="runs/mine")  # doctest: +SKIP
    >>> trained.run.model.order  # doctest: +SKIP
    3
    """
    kind = family_class(family)
    text_options, token_options, config = split_options(family, options, TextOptions, TokenOptions, kind.Config)
    out = Path(text_options.out) if text_options.out else next_free(family)
    check_free(out)
    began = time.perf_counter()
    torch.manual_seed(text_options.seed)
    sources = read(_paths(text_options.text)) or [topics()]
    valid, test = read(_paths(text_options.valid)), read(_paths(text_options.test))
    tokenizer, encoded = train_tokenizer([source.text for source in sources], token_options)
    model = kind(tokenizer.size, config)
    model.fit(encoded, _no_descent)
    seconds = time.perf_counter() - began
    texts = {"train": _records(sources), "valid": _records(valid), "test": _records(test)}
    run = save(Run(model.eval(), tokenizer, describe(model, texts, seed=text_options.seed)), out)
    loss = measure(model, tokenizer, [source.text for source in valid]).loss if valid else None
    return Trained(run, 0, len(encoded), seconds, loss)


def split_options(family: str, options: dict[str, Any], *kinds: type) -> list[Any]:
    """Options by name, sorted into the dataclasses they belong to; a name that fits none is the user's mistake."""
    names = [{field.name for field in dataclasses.fields(kind)} for kind in kinds]
    unknown = set(options) - set().union(*names)
    if unknown:
        raise UserError(f"{family} has no option {sorted(unknown)[0]!r}; there are: {', '.join(sorted(set().union(*names)))}")
    return [kind(**{name: value for name, value in options.items() if name in own}) for kind, own in zip(kinds, names, strict=True)]


def _paths(paths: str | Sequence[str]) -> Sequence[str]:
    return [paths] if isinstance(paths, str) else paths


def _records(sources: list[Source]) -> list[dict[str, object]]:
    return [source.record() for source in sources]


def _no_descent(model: Any) -> None:
    raise AssertionError("gradient families come with their trainer")
