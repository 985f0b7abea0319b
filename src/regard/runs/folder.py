"""A run is a folder: config.json, model.safetensors, tokenizer.json. Nothing is ever unpickled.

It is written beside its place and renamed into it, so a kill at any moment leaves the last good one. config.json holds the hashes of
the other files, so a damaged run is told from a whole one.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from regard import __version__
from regard.errors import MachineError, UserError
from regard.machine.disk import LOCK, write_json
from regard.models import FAMILIES, TRANSLATORS, arpa, family_class, gpt2
from regard.models.contract import LanguageModel
from regard.models.translation import Translator
from regard.tokens.choose import tokenizer_from_json
from regard.tokens.contract import Tokenizer

FORMAT = 1
CONFIG, MODEL, TOKENIZER, TRAINING = "config.json", "model.safetensors", "tokenizer.json", "training.json"
SOURCE_TOKENIZER = "source_tokenizer.json"


@dataclass(frozen=True)
class Run:
    """A model, the tokenizer it reads with, and what is known of how it came to be."""

    model: LanguageModel
    tokenizer: Tokenizer
    config: dict[str, Any]
    folder: Path | None = None
    source: Tokenizer | None = None  # what a translator's source is read with


def describe(model: LanguageModel, texts: dict[str, list[dict[str, Any]]], **more: Any) -> dict[str, Any]:
    """What config.json says of a run, but for the hashes of its files."""
    return {
        "format": FORMAT,
        "family": model.family,
        "vocabulary_size": model.vocabulary_size,
        **({"source_size": model.source_size} if isinstance(model, Translator) else {}),
        "model": dataclasses.asdict(model.config),
        "texts": texts,
        "versions": {"regard": __version__, "torch": torch.__version__, "python": platform.python_version()},
        **more,
    }


def check_free(out: Path) -> None:
    """An output folder must be new or empty: nothing is ever written over."""
    if (out / CONFIG).exists():
        raise UserError(f"{out}: holds another run; choose another --out or remove that folder")
    if (out / TRAINING).exists():
        raise UserError(f"{out}: holds a training that is not finished; if it was stopped, go on with --resume; or choose another --out")
    if out.exists() and (not out.is_dir() or any(entry.name != LOCK for entry in out.iterdir())):
        raise UserError(f"{out}: is not an empty folder; choose another --out")


def next_free(family: str, parent: Path = Path("runs")) -> Path:
    """runs/ngram, runs/ngram-2, and so on."""
    number = 1
    while (out := parent / (family if number == 1 else f"{family}-{number}")).exists():
        number += 1
    return out


def save(run: Run, out: Path) -> Run:
    """Write a new run folder, all at once."""
    check_free(out)
    with renamed_into(out) as folder:
        finish(run, folder)
    return dataclasses.replace(run, folder=out)


def finish(run: Run, folder: Path, **outcome: Any) -> Run:
    """Make a folder a run. config.json, which says what the others hold, comes last and is renamed into place."""
    write_tensors(run.model.tensors(), folder / MODEL)
    (folder / TOKENIZER).write_text(json.dumps(run.tokenizer.to_json(), ensure_ascii=False), "utf-8")
    names = [MODEL, TOKENIZER]
    if run.source is not None:
        (folder / SOURCE_TOKENIZER).write_text(json.dumps(run.source.to_json(), ensure_ascii=False), "utf-8")
        names.append(SOURCE_TOKENIZER)
    hashes = {name: file_hash(folder / name) for name in names}
    config = {**run.config, **outcome, "files": hashes}
    write_json(config, folder / CONFIG)
    return dataclasses.replace(run, config=config, folder=folder)


def write_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise MachineError(f"{path.name} could not be written ({error}): free some room or write elsewhere with --out") from None


@contextmanager
def renamed_into(out: Path) -> Iterator[Path]:
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = out.parent / f".{out.name}.{os.getpid()}.tmp"
    folder.mkdir()
    try:
        yield folder
        try:
            os.rename(folder, out)  # an empty folder is replaced; a filled one refuses
        except OSError:
            check_free(out)
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_run(run: Run | str | Path) -> Run:
    """A run, or the one at a path."""
    return run if isinstance(run, Run) else load(run)


def load(path: str | Path) -> Run:
    """Open a run folder, an ARPA file as an n-gram run, or a GPT-2 checkpoint as a transformer run.

    A run's weights are memory-mapped, not copied.

    >>> run = regard.load("runs/ngram")  # doctest: +SKIP
    """
    folder = Path(path)
    if not folder.exists():
        raise UserError(f"{folder}: no such run; regard train makes one")
    if arpa.is_arpa(folder) and folder.is_file():
        return _of_another_tool(*arpa.read(folder), None, arpa=folder.name)
    if gpt2.is_checkpoint(folder):
        return _of_another_tool(*gpt2.read(folder), folder, checkpoint=folder.name, files={MODEL: file_hash(folder / MODEL)})
    if (folder / TRAINING).is_file() and not (folder / CONFIG).is_file():
        raise UserError(f"{folder}: its training was stopped before the end; go on with regard train FAMILY --out {folder} --resume")
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder}: not a run ({CONFIG} is missing); give the folder that regard train wrote")
    try:
        config = json.loads((folder / CONFIG).read_text("utf-8"))
        form, hashes = config["format"], {name: config["files"][name] for name in (MODEL, TOKENIZER)} | config["files"]
        known = config["family"] in FAMILIES | TRANSLATORS
        for record in itertools.chain(*(config["texts"][part] for part in ("train", "valid", "test"))):
            _ = record["name"], record["sha256"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{folder}: {CONFIG} is damaged; train the run again") from None
    if form != FORMAT:
        raise UserError(f"{folder}: written in format {form}, this regard reads format {FORMAT}; train the run again")
    if not known:
        raise UserError(f"{folder}: of the family {config['family']!r}, which this regard does not have")
    for name, expected in hashes.items():
        if not (folder / name).is_file():
            raise UserError(f"{folder}: half written ({name} is missing); train the run again")
        if file_hash(folder / name) != expected:
            raise UserError(f"{folder}: {name} was changed after it was saved; train the run again")
    model, tokenizer, source = _open(folder, config)
    return Run(model, tokenizer, config, folder, source)


def _of_another_tool(model: LanguageModel, tokenizer: Tokenizer, folder: Path | None, **more: Any) -> Run:
    return Run(model.eval(), tokenizer, describe(model, {"train": [], "valid": [], "test": []}, **more), folder)


def _open(folder: Path, config: dict[str, Any]) -> tuple[LanguageModel, Tokenizer, Tokenizer | None]:
    try:
        names = [name for name in (TOKENIZER, SOURCE_TOKENIZER) if name in config["files"]]
        tokenizer, *source = (tokenizer_from_json(json.loads((folder / name).read_text("utf-8"))) for name in names)
        family = family_class(config["family"])
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in config["model"].items()}
        sizes = [config["source_size"]] if source else []
        model = family(config["vocabulary_size"], family.Config(**options), *sizes)
        model.assign(load_file(folder / MODEL))
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError, UserError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{folder}: {CONFIG} does not fit the files beside it ({reason}); train the run again") from None
    return model.eval(), tokenizer, source[0] if source else None


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
