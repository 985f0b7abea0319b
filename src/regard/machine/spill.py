"""A memory budget, and a folder for the numbers that it does not hold."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regard.errors import MachineError, UserError
from regard.machine.disk import BEGUN, FULL, remove_files
from regard.machine.memory import resident_memory

UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
MARGIN = 50 * 10**6  # an advised budget is a multiple of it, as the next process may take a little more
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([MGT]i?B)", re.IGNORECASE)
PREFIX = f"{BEGUN}spilled."
# The files of a folder of this kind: numbers, DuckDB's rows, parts for a cluster, and the model.
OWN = re.compile(
    r"(key|count|suffix|before|probability|part)_\d.*|rows\.db.*|duckdb_temp.*|mark|model\.safetensors"
)


@dataclass(frozen=True)
class Spill:
    """The resident memory that this process may take, in bytes, and a folder on a disk."""

    memory: int
    folder: Path
    engine: str | None = None  # the address of a cluster that sorts

    def room(self) -> int:
        """Return the bytes that are left."""
        return self.memory - resident_memory()

    def check(self, least: int, what: str) -> None:
        """Raise a UserError, with the smallest budget that works, if fewer bytes than `least` are left."""
        missing = least - self.room()
        if missing > 0:
            enough = -(-(self.memory + missing) // MARGIN) * MARGIN
            raise UserError(f"`memory` {show(self.memory)} is too small {what}: give {show(enough)} or more")


def parse_size(text: str) -> int:
    """Return the bytes of a size such as 4GB.

    >>> parse_size("1.5GB"), parse_size("512 MiB")
    (1500000000, 536870912)
    """
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise UserError(f"`memory` must be a number with a unit, such as 800MB, 4GB or 16GiB, not {text!r}")
    return int(float(found[1]) * UNITS[found[2].upper()])


def show(size: int) -> str:
    return f"{size / 1e9:g}GB" if size >= 10**9 else f"{size / 1e6:g}MB"


@contextmanager
def spill_into(out: Path, memory: int, engine: str | None = None) -> Iterator[Spill]:
    """Make a folder inside `out`, whose lock is held, and remove it at the end."""
    for left in out.glob(f"{PREFIX}*.tmp"):  # of a process that died
        _remove(left)
    folder = out / f"{PREFIX}{os.getpid()}.tmp"
    folder.mkdir()
    try:
        yield Spill(memory, folder, engine)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise MachineError(
            f"the disk is full while the text is counted in {out}: free some room, or choose an `out` on "
            "another disk"
        ) from None
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder of numbers. Files of other names stay and keep it. A link is not followed."""
    if folder.is_dir() and not folder.is_symlink():
        remove_files(folder, [path.name for path in folder.iterdir() if OWN.fullmatch(path.name)])
