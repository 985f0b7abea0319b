"""Good files of every format from outside, and what reads them (tests/test_fuzz.py, bench/fuzz.py)."""

import contextlib
import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile

import regard
from regard.errors import MachineError, UserError
from regard.inside.edit_files import read_edits
from regard.machine.disk import file_hash
from regard.training.task import Report
from regard.verbs.draw import draw

TEXT = "the cat saw the dog\na dog saw a cat\n" * 9
ALLOWED = (UserError, MachineError)  # exit codes 2 and 1, each with one line


@dataclass(frozen=True)
class Target:
    """A file of a good folder, how it is changed, and what reads the folder."""

    folder: Path
    file: str
    ways: str
    read: Callable[[Path], object]
    hashed: bool = False  # config.json holds the file's hash, which is made right again
    slow: bool = False

    @property
    def name(self) -> str:
        return f"{self.folder.name}/{self.file}:{self.ways}"

    def attempt(self, seed: int, scratch: Path) -> str:
        """Read the changed file. Return what came of it; any other exception is a failure."""
        self.copy(scratch)
        path = scratch / self.file
        path.write_bytes(hostile.change(path.read_bytes(), seed, self.ways))
        if self.hashed:
            config = json.loads((scratch / "config.json").read_text())
            config["files"][self.file] = file_hash(path)
            (scratch / "config.json").write_text(json.dumps(config))
        return outcome(lambda: self.read(scratch))

    def copy(self, scratch: Path) -> None:
        """Make a copy of the good folder."""
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(self.folder, scratch)


def outcome(read: Callable[[], object]) -> str:
    """Read something from outside. Return what came of it; any other exception is a failure."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read()
    except ALLOWED as error:
        if "\n" in str(error):
            raise ValueError("a message of more than one line") from error
        return "refused"
    return "read"


def _use(path: Path) -> None:
    """Open a run, and read and write text with it."""
    run = regard.load(path)
    (path.parent / "given").write_text("the cat saw a bird\n")
    regard.evaluate(run, path.parent / "given")
    regard.generate(run, "the", length=3)


def _stopped(out: Path, options: dict[str, Any]) -> None:
    """Make a training that was stopped after a checkpoint."""

    def stop(report: Report) -> None:
        if report.step >= 3:
            raise KeyboardInterrupt

    more = {"tokens": "char", "width": 4, "evaluate_every": 1}
    with contextlib.suppress(KeyboardInterrupt):
        regard.train("lstm", out=str(out), listener=stop, **{**options, "steps": 4}, **more)


def targets(folder: Path) -> list[Target]:
    """Make good files of each format in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text"
    text.write_text(TEXT)
    small = {"text": str(text), "steps": 2, "batch": 2, "hold": 0}
    counted = regard.train(
        "ngram", text=str(text), order=3, document="line", hold=0, out=str(folder / "ngram")
    )
    regard.train("lstm", tokens="char", width=4, out=str(folder / "lstm"), **small)
    gpt2 = {"positions": "learned", "readout_bias": False, "width": 8, "heads": 2, "context": 16}
    regard.train(
        "transformer", tokens="bpe", bpe_size=270, layers=1, out=str(folder / "transformer"), **small, **gpt2
    )
    regard.export(folder / "transformer", folder / "gpt2")
    for name in ("arpa", "edit", "draw"):
        (folder / name).mkdir()
    regard.export(counted.run, folder / "arpa" / "model.arpa")
    edit = {"run": None, "edits": [{"do": "scale", "site": "layer0.attention", "heads": [1], "by": 0.5}]}
    (folder / "edit" / "edit.json").write_text(json.dumps(edit))
    weights = {"weights": [[0.5, 0.5], [0.1, 0.9]], "tokens": ["a", "b"]}
    (folder / "draw" / "map.json").write_text(json.dumps(weights))
    model = regard.load(folder / "transformer")
    found = [
        Target(folder / "arpa", "model.arpa", ways, lambda path: _use(path / "model.arpa"))
        for ways in ("bytes", "lines")
    ]
    for name in ("ngram", "lstm", "transformer"):
        found += [Target(folder / name, "config.json", ways, _use) for ways in ("bytes", "json")]
        found += [Target(folder / name, "tokenizer.json", ways, _use, True) for ways in ("bytes", "json")]
        found.append(Target(folder / name, "model.safetensors", "bytes", _use, True))
    for file in ("config.json", "tokenizer.json"):
        found += [Target(folder / "gpt2", file, ways, _use) for ways in ("bytes", "json")]
    found.append(Target(folder / "gpt2", "model.safetensors", "bytes", _use))

    def edited(path: Path) -> None:
        regard.edited(model, read_edits(path / "edit.json", None))

    def drawn(path: Path) -> None:
        draw(path / "map.json", path / "map.svg")

    def resumed(path: Path) -> None:
        regard.train("lstm", out=str(path), resume=True, steps=4)

    def linked(path: Path) -> None:
        regard.align(
            links=path / "there.txt", reverse_links=path / "back.txt", symmetry="grow-diag-final-and"
        )

    _stopped(folder / "stopped", small)
    (folder / "links").mkdir()
    (folder / "links" / "there.txt").write_text("0-0 1-1 2p1\n\n0-1 3?3\n" * 5)
    (folder / "links" / "back.txt").write_text("0-0 1-1\n0-2\n0-1 3-3 2-2\n" * 5)
    checkpoint = next((folder / "stopped").glob("checkpoint-*")).name
    for file in ("training.json", f"{checkpoint}/progress.json"):
        found += [Target(folder / "stopped", file, ways, resumed, slow=True) for ways in ("bytes", "json")]
    found += [Target(folder / "stopped", "metrics.jsonl", "bytes", resumed, slow=True)]
    found += [Target(folder / "links", "there.txt", ways, linked) for ways in ("bytes", "lines")]
    found += [Target(folder / "edit", "edit.json", ways, edited) for ways in ("bytes", "json")]
    found += [Target(folder / "draw", "map.json", ways, drawn) for ways in ("bytes", "json")]
    return found
