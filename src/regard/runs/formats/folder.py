"""regard's own format, a folder: config.json, model.safetensors, tokenizer.json. Nothing is ever unpickled.

config.json holds the hashes of the other files, so that a damaged run is recognised. config.json is written
last.
"""

import dataclasses
import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, final

from safetensors import SafetensorError
from safetensors.torch import load_file

from regard.boundary import build, parse_json, quote_fields, read_bytes, read_json
from regard.errors import UserError
from regard.machine.disk import (
    BEGUN,
    file_hash,
    is_begun,
    make_folder,
    write_atomically,
    write_json,
    write_tensors,
    written_beside,
)
from regard.models import FAMILIES, known_family
from regard.models.building import build_model, outline
from regard.models.model import Model
from regard.runs.formats.format import Format
from regard.runs.run import FORMAT, Run, RunConfig
from regard.tokens.contract import Tokenizer
from regard.tokens.saved import parse_tokenizer

CONFIG, MODEL, TOKENIZER, TRAINING = "config.json", "model.safetensors", "tokenizer.json", "training.json"
SOURCE_TOKENIZER = "source_tokenizer.json"
MARK = f"{BEGUN}mark.tmp"  # in a folder whose first files are being written


@final
class RunFolder(Format):
    name = "regard"
    about = "a run folder"
    any_family = True

    def recognises(self, path: Path) -> bool:
        return path.is_dir()

    def read(self, path: Path, family: type[Model] | None = None) -> Run:
        config = read_config(path)
        for name, expected in config.files.items():
            if not (path / name).is_file():
                raise UserError(f"{path}: half written ({name} is missing); train the run again")
            if file_hash(path / name) != expected:
                raise UserError(f"{path}: {name} was changed after it was saved; train the run again")
        model, tokenizer, source = _open(path, config, _family(path, config.family, family))
        return Run(model, tokenizer, config, path, source)

    def write(self, run: Run, out: Path) -> None:
        write_run(run, out)


def read_config(folder: Path) -> RunConfig:
    if (folder / TRAINING).is_file() and not (folder / CONFIG).is_file():
        again = f"go on with regard train FAMILY --out {folder} --resume"
        raise UserError(f"{folder}: its training was stopped before the end; {again}")
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder}: not a run ({CONFIG} is missing); give the folder that regard train wrote")
    where = f"{folder}: {CONFIG}"
    data = read_json(folder / CONFIG, f"{where} is damaged")
    try:
        form = data["format"]
    except (KeyError, TypeError):
        raise UserError(f"{where} is damaged, or no run's: it has no 'format'") from None
    if isinstance(form, int) and form in OLDER:
        try:
            data = OLDER[form](data)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise UserError(f"{where} is damaged; train the run again") from None
    elif form != FORMAT:
        raise UserError(
            f"{folder}: written in format {form!r}, this regard reads format {FORMAT}; train the run again"
        )
    config = parse_json(RunConfig, json.dumps(data).encode(), f"{where} is damaged")
    missing = {MODEL, TOKENIZER} - set(config.files)
    if missing:
        raise UserError(
            f"{where} is damaged: it has no hash of {', '.join(sorted(missing))}; train the run again"
        )
    return config


def _from_format_1(data: dict[str, Any]) -> dict[str, Any]:
    """Runs up to version 0.1.0: figures stood beside the rest, and paths were kept as they were typed."""
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    figures = {name: value for name, value in data.items() if name in ("bleu", "aer")}
    texts = {part: [_record_1(record) for record in records] for part, records in data["texts"].items()}
    kept = {name: value for name, value in data.items() if name in fields}
    return {
        **kept,
        "format": FORMAT,
        "texts": texts,
        "figures": figures,
        "notes": list(data.get("notes", [])),
    }


def _record_1(record: dict[str, Any]) -> dict[str, Any]:
    built_in = record["name"] in ("built-in", "-")
    files = record["files"] if "files" in record else [] if built_in else [record["name"]]
    known = ("name", "sha256", "bytes", "first", "pairs", "held_out")
    return {**{name: record[name] for name in known if name in record}, "files": files}


def _from_format_2(data: dict[str, Any]) -> dict[str, Any]:
    """Runs up to November 2026: the activation of a Transformer was GELU's tanh form, unless it was named."""
    model, family = data["model"], known_family(data["family"])
    options = {field.name for field in dataclasses.fields(family.Config)} if family is not None else set()
    unnamed = "activation" in options and model.get("activation") is None
    if unnamed and model.get("norm") != "post" and model.get("projections") != "none":
        model = {**model, "activation": "gelu-tanh"}
    return {**data, "format": FORMAT, "model": model}


# a reader for each older format
OLDER = {1: lambda data: _from_format_2(_from_format_1(data)), 2: _from_format_2}


def _family(folder: Path, name: str, named: type[Model] | None) -> type[Model]:
    """The class of a run's family. A name that only a file gives is never imported."""
    if name in FAMILIES and named not in (None, known_family(name)):
        raise UserError(f"{folder}: is a run of {name}, which is part of regard; leave out `family`")
    family = named or known_family(name)
    if family is None:
        again = name if re.fullmatch(r"[\w.]+:[\w.]+", name) else "MODULE:CLASS"
        raise UserError(
            f"{folder}: its family {name} is neither part of regard nor installed; name it: `family` {again}"
        )
    return family


def _open(folder: Path, config: RunConfig, family: type[Model]) -> tuple[Model, Tokenizer, Tokenizer | None]:
    names = [name for name in (TOKENIZER, SOURCE_TOKENIZER) if name in config.files]
    tokenizers = [_tokenizer(folder / name) for name in names]
    # The source of a captioner is an image, which has no tokenizer.
    vocabularies = [config.vocabulary_size, config.source_size][: len(names)]
    sizes = [size for size in (config.source_size, len(config.labels) or None) if size is not None]
    try:
        for name, tokenizer, size in zip(names, tokenizers, vocabularies, strict=True):
            if tokenizer.size != size:
                raise ValueError(f"{name} has {tokenizer.size:,} tokens, and the model {size:,}")
        model_config, tensors = build(family.Config, config.model), load_file(folder / MODEL)
        shapes = outline(family, config.vocabulary_size, model_config, *sizes)
        if shapes is not None:
            shapes.check_tensors(tensors)
        model = build_model(family, config.vocabulary_size, model_config, *sizes)
        model.check_tensors(tensors)
        model.assign(tensors)
    except (ValueError, KeyError, TypeError, RuntimeError, SafetensorError, UserError) as error:
        reason = quote_fields(str(error)).splitlines()[0]
        raise UserError(
            f"{folder}: {CONFIG} does not fit the files beside it ({reason}); train the run again"
        ) from None
    return model.eval(), tokenizers[0], tokenizers[1] if len(tokenizers) > 1 else None


def _tokenizer(path: Path) -> Tokenizer:
    return parse_tokenizer(read_bytes(path, str(path)), f"{path} is damaged")


def write_run(run: Run, folder: Path, tensors: Path | None = None, **outcome: Any) -> Run:
    """Make a folder a run. config.json, which has the hashes of the other files, comes last.

    `tensors` is a file on the same disk that has the tensors already. It is moved.
    """
    (folder / MARK).touch()
    with written_beside(folder / MODEL) as beside:
        if tensors is None:
            write_tensors(run.model.tensors(), beside)
        else:
            os.replace(tensors, beside)
    tokenizers = {TOKENIZER: run.tokenizer} | ({} if run.source is None else {SOURCE_TOKENIZER: run.source})
    for name, tokenizer in tokenizers.items():
        write_atomically(folder / name, json.dumps(tokenizer.to_json(), ensure_ascii=False).encode())
    hashes = {name: file_hash(folder / name) for name in (MODEL, *tokenizers)}
    config = dataclasses.replace(run.config, **outcome, files=hashes)
    write_json(dataclasses.asdict(config), folder / CONFIG)
    (folder / MARK).unlink()
    if tensors is not None:
        run.model.assign(load_file(folder / MODEL))  # the model knew the file by its former name
    return dataclasses.replace(run, config=config, folder=folder)


def check_free(out: Path, begun: Collection[str] = (MODEL, TOKENIZER, SOURCE_TOKENIZER)) -> None:
    """Refuse an output folder that is neither new nor empty: nothing is ever written over.

    A process that was killed while it wrote the files `begun` has left a mark beside them.
    """
    if (out / CONFIG).exists():
        raise UserError(f"{out}: holds another run; choose another `out` or remove that folder")
    if (out / TRAINING).exists():
        stopped = "if it was stopped, go on with `resume`; or choose another `out`"
        raise UserError(f"{out}: holds a training that is not finished; {stopped}")
    ours = begun if (out / MARK).exists() else ()
    if out.exists() and not (
        out.is_dir() and all(is_begun(entry.name) or entry.name in ours for entry in out.iterdir())
    ):
        raise UserError(f"{out}: is not an empty folder; choose another `out`")


def claim_free(family: str, parent: Path = Path("runs")) -> Path:
    """Make runs/ngram, or runs/ngram-2 and so on. Two processes never make the same folder."""
    number = 1
    while not make_folder(out := parent / (family if number == 1 else f"{family}-{number}")):
        number += 1
    return out
