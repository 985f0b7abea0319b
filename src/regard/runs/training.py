"""Training a run, from text to folder."""

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.errors import Interrupted, UserError
from regard.machine.disk import absolute, only_writer, relocated, write_json
from regard.models import family_class
from regard.models.contract import LanguageModel
from regard.models.ranges import check_seed
from regard.models.translation import Translator
from regard.runs.checkpoint import remove_checkpoints
from regard.runs.descent import Descent, Listener
from regard.runs.folder import CONFIG, TRAINING, Run, check_free, describe, finish, next_free, save
from regard.runs.machine import Machine, choose_machine
from regard.runs.material import Material, ParallelText, PlainText
from regard.runs.optimisers import TrainingOptions
from regard.runs.options import option_kinds, split_options
from regard.text.builtin import BUILT_IN
from regard.tokens.choose import TokenOptions

PATHS = ("text", "valid", "test", "source", "target", "pairs", "valid_source", "valid_target", "vocabulary")  # options that name files


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
    if "context" in kind.Config.__dataclass_fields__ and "segment" in options:
        raise UserError(f"{family} reads whole contexts: give --context instead of --segment")
    text_options, token_options, config, *rest = split_options(family, options, *option_kinds(kind))
    began = time.perf_counter()
    material = _material(kind, text_options, token_options, config, hold=bool(rest))
    if options.get("resume"):
        _check_texts(out, material)
    torch.manual_seed(check_seed(text_options.seed))
    model = material.make(kind, config)
    if not rest:
        encoded = material.encoded()
        model.fit(encoded, lambda model: None)
        spent = {"tokens": len(encoded), "seconds": time.perf_counter() - began}
        config = describe(model, located(material.record(), out), seed=text_options.seed, **spent)
        run = save(Run(model.eval(), material.tokenizer, config), out)
        return Trained(run, 0, len(encoded), config["seconds"], material.loss(run))
    with only_writer(out):
        machine = _machine(out, rest[0])
        if not options.get("resume"):
            check_free(out)  # another process may have written there while the text was read
            kept = {"family": family, "options": _with_paths(options, absolute), "folder": absolute(str(out))}
            write_json({**kept, **_read_by(material), "bf16": machine.bf16}, out / TRAINING)
        try:
            return _descended(model, material, rest[0], text_options.seed, out, listener, machine)
        except UserError:  # refused before the first step: nothing new is left behind
            if not options.get("resume"):
                shutil.rmtree(out)
            raise


def _descended(
    model: LanguageModel, material: Material, training: TrainingOptions, seed: int, out: Path, listener: Listener, machine: Machine
) -> Trained:
    texts = located(material.record(), out)
    config = describe(model, texts, seed=seed, training=dataclasses.asdict(training), notes=material.notes, **material.limits())
    run = Run(model, material.tokenizer, config, source=material.source_tokenizer)
    descent = Descent(
        model, material.encoded(), material.schedule(model, training, seed), training, out, machine, listener,
        material.validator(model), material.judge(run), lambda: material.sample(run),
    )  # fmt: skip
    try:
        model.fit(material.encoded(), lambda model: descent.run())
        model.eval()
        loss = material.loss(run)  # where it was trained, then home
        more = material.report(run)
    except KeyboardInterrupt as stop:
        raise Interrupted(f"{stop or 'stopped'}; go on with: regard train {model.family} --out {out} --resume") from None
    model.to("cpu")
    progress = descent.progress
    reached = {"steps": progress.step, "best_step": progress.best_step, "tokens": progress.tokens, "seconds": progress.seconds}
    run = finish(run, out, **reached, loss=loss, **more)
    remove_checkpoints(out)
    return Trained(run, progress.step, progress.tokens, progress.seconds, loss, more)


def located(texts: dict[str, list[dict[str, Any]]], out: Path) -> dict[str, list[dict[str, Any]]]:
    """What a run remembers of its texts, with paths that do not depend on where the command was typed."""

    def paths(record: dict[str, Any]) -> list[str]:
        return [absolute(name) for name in record.get("files", [] if record["name"] in ("-", BUILT_IN) else [record["name"]])]

    folder = absolute(str(out))
    return {kind: [{**record, "paths": paths(record), "folder": folder} for record in records] for kind, records in texts.items()}


def _material(kind: type[LanguageModel], text: Any, tokens: TokenOptions, config: Any, hold: bool) -> Material:
    if issubclass(kind, Translator):
        return ParallelText(text, tokens, getattr(config, "context", None))
    return PlainText(text, tokens, hold)


def _machine(out: Path, training: TrainingOptions) -> Machine:
    """What the run is trained on; the precision that `auto` once chose stays, or a resumed run would not be the same."""
    if training.resume:
        return choose_machine("bf16" if _began(out)["bf16"] else "fp32")
    return choose_machine(training.precision)


def _resumed(out: Path, family: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options a run began with; one that is given again must be the same."""
    if (out / CONFIG).exists():
        raise UserError(f"{out}: this run is finished; there is nothing to resume")
    if not (out / TRAINING).is_file():
        raise UserError(f"{out}: no training to resume there; give the --out of one that was stopped")
    began = _began(out)
    if began["family"] != family:
        raise UserError(f"{out}: holds a {began['family']}, not a {family}")
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in began["options"].items()}
    if began["folder"] is not None:
        options = _with_paths(options, lambda path: relocated(path, began["folder"], out))
        given = _with_paths(given, absolute)
    for name, value in given.items():
        value = tuple(value) if isinstance(value, list) else value
        if name not in ("resume", "out") and (name not in options or options[name] != value):
            before = options.get(name, "the default")
            raise UserError(f"--{name.replace('_', '-')} was {before} when {out} began; a resumed run cannot change it")
    return {**options, "resume": True, "out": str(out)}


def _with_paths(options: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Options with every path in them changed."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, str) else tuple(map(change, value)) if value is not None else None

    return {name: changed(value) if name in PATHS else value for name, value in options.items()}


def _began(out: Path) -> dict[str, Any]:
    """What training.json says of how a training began."""
    try:
        began = json.loads((out / TRAINING).read_text("utf-8"))
        return {name: began[name] for name in ("family", "options", "texts", "tokens", "bf16")} | {"folder": began.get("folder")}
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{out}: {TRAINING} is damaged; remove that folder and train again") from None


def _read_by(material: Material) -> dict[str, Any]:
    """What a resumed training must find again."""
    kinds = [tokenizer.to_json() for tokenizer in (material.tokenizer, material.source_tokenizer) if tokenizer is not None]
    return {"texts": material.record(), "tokens": hashlib.sha256(json.dumps(kinds).encode()).hexdigest()}


def _check_texts(out: Path, material: Material) -> None:
    began, now = _began(out), _read_by(material)
    for kind, records in now["texts"].items():
        names = [[Path(record["name"]).name for record in some] for some in (records, began["texts"][kind])]
        if names[0] != names[1]:
            raise UserError(f"{out} began with other files ({', '.join(names[1])}); a resumed run needs the same text")
        for record, before in zip(records, began["texts"][kind], strict=True):
            if record["sha256"] != before["sha256"]:
                raise UserError(f"{record['name']}: has changed since {out} began; a resumed run needs the same text")
    if now["tokens"] != began["tokens"]:
        raise UserError(f"the vocabulary has changed since {out} began; a resumed run needs the same")
