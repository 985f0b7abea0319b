"""Training a run, from text to folder."""

import dataclasses
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.errors import Interrupted, UserError
from regard.models import FAMILIES, family_class
from regard.models.contract import LanguageModel
from regard.probabilities.decoding import Sampling
from regard.probabilities.measures import measure
from regard.runs.checkpoint import only_writer, remove_checkpoints
from regard.runs.descent import Descent, Listener
from regard.runs.folder import CONFIG, TRAINING, Run, check_free, describe, finish, next_free, save, write_json
from regard.runs.machine import Machine, choose_machine
from regard.runs.optimisers import TrainingOptions
from regard.runs.using import stream
from regard.text.builtin import topics
from regard.text.documents import hold_out
from regard.text.files import Source, read
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.contract import Encoded

VALID_TOKENS = 1 << 15  # of the validation text are looked at during training; all of it at the end


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


@dataclasses.dataclass(frozen=True)
class Texts:
    train: list[Source]
    valid: list[Source]
    test: list[Source]

    def record(self) -> dict[str, list[dict[str, object]]]:
        return {name: [source.record() for source in getattr(self, name)] for name in ("train", "valid", "test")}


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


def option_kinds(family: type[LanguageModel]) -> list[type]:
    """The dataclasses that hold a family's options; training options with the family's own defaults."""
    kinds: list[type] = [TextOptions, TokenOptions, family.Config]
    return [*kinds, with_defaults(TrainingOptions, family.training_defaults)] if family.training_defaults is not None else kinds


def with_defaults(kind: type, defaults: dict[str, Any]) -> type:
    """A dataclass with other defaults."""
    annotations = {field.name: field.type for field in dataclasses.fields(kind) if field.name in defaults}
    return dataclasses.dataclass(frozen=True, kw_only=True)(type(kind.__name__, (kind,), {**defaults, "__annotations__": annotations}))


def train(family: str, *, listener: Listener = lambda report: None, **options: Any) -> Trained:
    """Train a model of a family and keep it in a folder. Options are those of `regard train FAMILY --help`.

    >>> trained = regard.train("ngram", text=["my.txt"], order=3, out="runs/mine")  # doctest: +SKIP
    >>> trained.run.model.order  # doctest: +SKIP
    3
    """
    kind = family_class(family)
    out = Path(options["out"]) if options.get("out") else next_free(family)
    if options.get("resume"):
        options = _resumed(out, family, options)
    else:
        check_free(out)
    if options.get("size") == "medium":
        options = {**kind.medium, **options}
    text_options, token_options, config, *rest = split_options(family, options, *option_kinds(kind))
    texts = _texts(text_options, hold=bool(rest))
    if options.get("resume"):
        _check_texts(out, texts)
    began = time.perf_counter()
    torch.manual_seed(text_options.seed)
    tokenizer, encoded = train_tokenizer([source.text for source in texts.train], token_options)
    model = kind(tokenizer.size, config)
    if not rest:
        model.fit(encoded, lambda model: None)
        run = save(Run(model.eval(), tokenizer, describe(model, texts.record(), seed=text_options.seed)), out)
        return Trained(run, 0, len(encoded), time.perf_counter() - began, _final_loss(run, texts))
    with only_writer(out):
        machine = _machine(out, rest[0])
        if not options.get("resume"):
            write_json({"family": family, "options": options, "texts": texts.record(), "bf16": machine.bf16}, out / TRAINING)
        try:
            return _descended(Run(model, tokenizer, {}), encoded, texts, rest[0], text_options.seed, out, listener, machine)
        except UserError:  # refused before the first step: nothing is left behind
            shutil.rmtree(out)
            raise


def _descended(
    new: Run, encoded: Encoded, texts: Texts, training: TrainingOptions, seed: int, out: Path, listener: Listener, machine: Machine
) -> Trained:
    model, tokenizer = new.model, new.tokenizer
    run = dataclasses.replace(new, config=describe(model, texts.record(), seed=seed, training=dataclasses.asdict(training)))
    valid = tokenizer.encode_texts([source.text for source in texts.valid]).first(VALID_TOKENS)
    descent = Descent(model, encoded, valid, training, seed, out, machine, listener, lambda: _sample(run))
    try:
        model.fit(encoded, lambda model: descent.run())
    except Interrupted as stop:
        raise Interrupted(f"{stop}; go on with: regard train {model.family} --out {out} --resume") from None
    loss = _final_loss(Run(model.eval(), tokenizer, {}), texts)  # where it was trained, then home
    model.to("cpu")
    progress = descent.progress
    run = finish(run, out, steps=progress.step, best_step=progress.best_step, seconds=progress.seconds, loss=loss)
    remove_checkpoints(out)
    return Trained(run, progress.step, progress.tokens, progress.seconds, loss)


def _machine(out: Path, training: TrainingOptions) -> Machine:
    """What the run is trained on; the precision that `auto` once chose stays, or a resumed run would not be the same."""
    if training.resume:
        return choose_machine("bf16" if json.loads((out / TRAINING).read_text())["bf16"] else "fp32")
    return choose_machine(training.precision)


def _final_loss(run: Run, texts: Texts) -> float | None:
    return measure(run.model, run.tokenizer, [source.text for source in texts.valid]).loss if texts.valid else None


def _sample(run: Run) -> str:
    return "".join(pieces[0] for pieces in stream(run, "", 100, 1, seed=1, sampling=Sampling()))


def _texts(options: TextOptions, hold: bool) -> Texts:
    sources = read(_paths(options.text)) or [topics()]
    valid, test = read(_paths(options.valid)), read(_paths(options.test))
    if valid or not hold:
        return Texts(sources, valid, test)
    first, last = hold_out("".join(source.text for source in sources))
    train, left = [], len(first)
    for source in sources:  # files stay apart: the last ones, and the end of the one with the cut, are held out
        kept, rest = source.text[:left], source.text[left:]
        left = max(0, left - len(source.text))
        if kept:
            train.append(Source(source.name, kept))
        if rest:
            valid.append(Source(source.name, rest, first=len(kept)))
    assert sum(len(source.text) for source in valid) == len(last)
    if not train or not valid:
        raise UserError("the training text is too short to hold out a tenth of it: give more, or name a --valid text")
    return Texts(train, valid, test)


def _resumed(out: Path, family: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options a run began with; one that is given again must be the same."""
    if (out / CONFIG).exists():
        raise UserError(f"{out}: this run is finished; there is nothing to resume")
    if not (out / TRAINING).is_file():
        raise UserError(f"{out}: no training to resume there; give the --out of one that was stopped")
    began = json.loads((out / TRAINING).read_text())
    if began["family"] != family:
        raise UserError(f"{out}: holds a {began['family']}, not a {family}")
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in began["options"].items()}
    for name, value in given.items():
        value = tuple(value) if isinstance(value, list) else value
        if name not in ("resume", "out") and (name not in options or options[name] != value):
            before = options.get(name, "the default")
            raise UserError(f"--{name.replace('_', '-')} was {before} when {out} began; a resumed run cannot change it")
    return {**options, "resume": True, "out": str(out)}


def _check_texts(out: Path, texts: Texts) -> None:
    began = json.loads((out / TRAINING).read_text())["texts"]
    for kind, records in texts.record().items():
        for record, before in zip(records, began[kind], strict=True):
            if record["sha256"] != before["sha256"]:
                raise UserError(f"{record['name']}: has changed since {out} began; a resumed run needs the same text")


def split_options(family: str, options: dict[str, Any], *kinds: type) -> list[Any]:
    """Options by name, sorted into the dataclasses they belong to; a name that fits none is the user's mistake."""
    names = [{field.name for field in dataclasses.fields(kind)} for kind in kinds]
    unknown = set(options) - set().union(*names)
    if unknown:
        name = sorted(unknown)[0]
        others = [other for other in FAMILIES if name in _option_names(other)]
        hint = f"it belongs to {', '.join(others)}" if others else f"there are: {', '.join(sorted(set().union(*names)))}"
        raise UserError(f"{family} has no option {name!r}; {hint}")
    return [kind(**{name: value for name, value in options.items() if name in own}) for kind, own in zip(kinds, names, strict=True)]


def _option_names(family: str) -> set[str]:
    return {field.name for kind in option_kinds(family_class(family)) for field in dataclasses.fields(kind)}


def _paths(paths: str | Sequence[str]) -> Sequence[str]:
    return [paths] if isinstance(paths, str) else paths
