"""The runs that the lab offers: those that were named, and all runs below a folder.

The list is made once, from the small files of each run, before torch is imported. A page chooses runs by
their id in the list, never by a path.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from regard.errors import UserError
from regard.models import KINDS
from regard.page.protocol import Reads, RunInfo

CONFIG, MODEL = "config.json", "model.safetensors"
ARPA = (".arpa", ".arpa.gz")
DEPTH, MOST = 4, 200  # folders below the named one; runs in the list
LARGEST = 1e9  # a loss; no other number of a file is shown


@dataclass(frozen=True)
class Entry:
    info: RunInfo
    path: Path


@final
class Catalogue:
    """The list of runs. The lab adds the run that it trains itself."""

    def __init__(self, paths: Sequence[str], folder: Path):
        """List the named paths; without any, the runs below the folder."""
        self._entries = dict[str, Entry]()
        for path in map(Path, paths):
            if not path.exists():
                raise UserError(f"{path}: no such run; regard train makes one")
            if path.is_file() or _is_run(path):
                self.add(path)
            elif not self._add_below(path):
                raise UserError(f"{path}: holds no run; regard train makes one")
        if not paths:
            self._add_below(folder)

    def _add_below(self, folder: Path) -> bool:
        found = list(_below(folder))
        for path in found:
            self.add(path, str(path.relative_to(folder)))
        return bool(found)

    def add(self, path: Path, name: str | None = None) -> str:
        """Add a run and return its id."""
        known = {entry.path.resolve(): number for number, entry in self._entries.items()}
        if path.resolve() in known:
            return known[path.resolve()]
        number = f"r{len(self._entries)}"
        self._entries[number] = Entry(_describe(number, path, name or str(path)), path)
        return number

    def infos(self) -> list[RunInfo]:
        return [entry.info for entry in self._entries.values()]

    def path(self, number: str) -> Path:
        if number not in self._entries:
            raise UserError("this run is not in the list: reload the page")
        return self._entries[number].path


def _below(folder: Path) -> Iterator[Path]:
    """Yield all runs below a folder. Links that leave the folder are passed by."""
    root, seen = folder.resolve(), 0
    waiting = [(folder, 0)]
    while waiting and seen < MOST:
        place, depth = waiting.pop(0)
        try:
            entries = sorted(place.iterdir())
        except OSError:
            continue
        if _is_run(place):
            seen += 1
            yield place
            continue
        for entry in entries:
            if entry.name.startswith(".") or not entry.resolve().is_relative_to(root):
                continue
            if entry.is_dir() and depth < DEPTH:
                waiting.append((entry, depth + 1))
            elif entry.name.endswith(ARPA):
                seen += 1
                yield entry


def _is_run(path: Path) -> bool:
    return path.is_dir() and (path / MODEL).is_file() and (path / CONFIG).is_file()


def _config(path: Path) -> dict[str, Any]:
    try:
        data = json.loads((path / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _describe(number: str, path: Path, name: str) -> RunInfo:
    if path.name.endswith(ARPA):
        return RunInfo(number, name, str(path), "ngram", "word", "text", None)
    config = _config(path)
    if "model_type" in config:
        return RunInfo(number, name, str(path), str(config["model_type"]), "bpe", "text", None)
    loss = config.get("loss")
    return RunInfo(
        number,
        name,
        str(path),
        str(config.get("family", "unknown")),
        _tokens(path),
        _reads(config),
        float(loss) if isinstance(loss, int | float) and abs(loss) < LARGEST else None,
    )


def _reads(config: dict[str, Any]) -> Reads:
    """Return what the model reads, from what its config.json holds."""
    if config.get("labels"):
        return "labels"
    if config.get("family") in KINDS["masked readers"]:
        return "blanks"
    source = config.get("source_size")
    return "captions" if isinstance(source, list) else "pairs" if source else "text"


def _tokens(path: Path) -> str:
    """Return the kind of tokens, from the head of the tokenizer's file."""
    try:
        with (path / "tokenizer.json").open(encoding="utf-8") as file:
            head = file.read(200)
    except (OSError, ValueError):
        return ""
    return next((kind for kind in ("word", "char", "byte", "bpe") if f'"{kind}"' in head), "")
