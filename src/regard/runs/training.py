"""Training a run, from text to folder."""

import dataclasses
import json
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from regard.errors import Interrupted, UserError
from regard.models import FAMILIES, TRANSLATORS, family_class
from regard.models.contract import LanguageModel
from regard.models.translation import Translator
from regard.runs.checkpoint import only_writer, remove_checkpoints
from regard.runs.descent import Descent, Listener
from regard.runs.folder import CONFIG, TRAINING, Run, check_free, describe, finish, next_free, save, write_json
from regard.runs.machine import Machine, choose_machine
from regard.runs.material import Material, PairOptions, ParallelText, PlainText, TextOptions
from regard.runs.optimisers import TrainingOptions
from regard.tokens.choose import TokenOptions


@dataclasses.dataclass(frozen=True)
class Trained:
    """A finished training, as `regard train --json` prints it."""

    run: Run
    steps: int
    tokens: int
    seconds: float
    loss: float | None
    more: dict[str, float] = dataclasses.field(default_factory=dict)  # of translators: BLEU, and the alignment error where it is known

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.run.folder),
            "family": self.run.model.family,
            "parameters": self.run.model.sizes(),
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "loss": self.loss,
            **self.more,
        }


def option_kinds(family: type[LanguageModel]) -> list[type]:
    """The dataclasses that hold a family's options; training options with the family's own defaults."""
    if issubclass(family, Translator):
        lines = with_defaults(TokenOptions, {"tokens": "word", "document": "line"})
        return [PairOptions, lines, family.Config, with_defaults(TrainingOptions, family.training_defaults or {})]
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
    if issubclass(kind, Translator) and {"batch", "segment"} & set(options):
        raise UserError(f"{family} reads pairs: give --batch-tokens instead of --batch and --segment")
    text_options, token_options, config, *rest = split_options(family, options, *option_kinds(kind))
    began = time.perf_counter()
    material = _material(kind, text_options, token_options, config, hold=bool(rest))
    if options.get("resume"):
        _check_texts(out, material)
    torch.manual_seed(text_options.seed)
    model = material.make(kind, config)
    if not rest:
        encoded = material.encoded()
        model.fit(encoded, lambda model: None)
        run = save(Run(model.eval(), material.tokenizer, describe(model, material.record(), seed=text_options.seed)), out)
        return Trained(run, 0, len(encoded), time.perf_counter() - began, material.loss(run))
    with only_writer(out):
        machine = _machine(out, rest[0])
        if not options.get("resume"):
            write_json({"family": family, "options": options, "texts": material.record(), "bf16": machine.bf16}, out / TRAINING)
        try:
            return _descended(model, material, rest[0], text_options.seed, out, listener, machine)
        except UserError:  # refused before the first step: nothing is left behind
            shutil.rmtree(out)
            raise


def _descended(
    model: LanguageModel, material: Material, training: TrainingOptions, seed: int, out: Path, listener: Listener, machine: Machine
) -> Trained:
    config = describe(model, material.record(), seed=seed, training=dataclasses.asdict(training), notes=material.notes, **material.limits())
    run = Run(model, material.tokenizer, config, source=material.source_tokenizer)
    descent = Descent(
        model, material.encoded(), material.schedule(model, training, seed), training, out, machine, listener,
        material.validator(model), material.judge(run), lambda: material.sample(run),
    )  # fmt: skip
    try:
        model.fit(material.encoded(), lambda model: descent.run())
    except Interrupted as stop:
        raise Interrupted(f"{stop}; go on with: regard train {model.family} --out {out} --resume") from None
    model.eval()
    loss = material.loss(run)  # where it was trained, then home
    more = material.report(run)
    model.to("cpu")
    progress = descent.progress
    run = finish(run, out, steps=progress.step, best_step=progress.best_step, seconds=progress.seconds, loss=loss, **more)
    remove_checkpoints(out)
    return Trained(run, progress.step, progress.tokens, progress.seconds, loss, more)


def _material(kind: type[LanguageModel], text: Any, tokens: TokenOptions, config: Any, hold: bool) -> Material:
    if issubclass(kind, Translator):
        return ParallelText(text, tokens, getattr(config, "context", None))
    return PlainText(text, tokens, hold)


def _machine(out: Path, training: TrainingOptions) -> Machine:
    """What the run is trained on; the precision that `auto` once chose stays, or a resumed run would not be the same."""
    if training.resume:
        return choose_machine("bf16" if json.loads((out / TRAINING).read_text())["bf16"] else "fp32")
    return choose_machine(training.precision)


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


def _check_texts(out: Path, material: Material) -> None:
    began = json.loads((out / TRAINING).read_text())["texts"]
    for kind, records in material.record().items():
        for record, before in zip(records, began[kind], strict=True):
            if record["sha256"] != before["sha256"]:
                raise UserError(f"{record['name']}: has changed since {out} began; a resumed run needs the same text")


def split_options(family: str, options: dict[str, Any], *kinds: type) -> list[Any]:
    """Options by name, sorted into the dataclasses they belong to; a name that fits none is the user's mistake."""
    names = [{field.name for field in dataclasses.fields(kind)} for kind in kinds]
    unknown = set(options) - set().union(*names)
    if unknown:
        name = sorted(unknown)[0]
        others = [other for other in FAMILIES | TRANSLATORS if name in _option_names(other)]
        hint = f"it belongs to {', '.join(others)}" if others else f"there are: {', '.join(sorted(set().union(*names)))}"
        raise UserError(f"{family} has no option {name!r}; {hint}")
    return [kind(**{name: value for name, value in options.items() if name in own}) for kind, own in zip(kinds, names, strict=True)]


def _option_names(family: str) -> set[str]:
    return {field.name for kind in option_kinds(family_class(family)) for field in dataclasses.fields(kind)}
