"""Parallel text: sentences side by side, from two files, from a table, or from the built-in grammar."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.machine.disk import relocated
from regard.text.files import read_file
from regard.text.grammar import english_spanish

BUILT_IN = "built-in"
Links = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Parallel:
    """Sentences and their translations."""

    files: tuple[str, ...]  # two, or one table; none: the built-in text
    sources: list[str]
    targets: list[str]
    alignments: list[Links] | None = None  # where they are known: the sure links (source word, target word)
    possible: list[Links] | None = None  # links that may be found or not
    empty: int = 0  # pairs left out because one side says nothing
    places: list[int] | None = None  # which line of the text each is, where some are left out
    lines: int = 0  # of the text

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def name(self) -> str:
        return " ".join(self.files) or BUILT_IN

    def record(self) -> dict[str, Any]:
        """What a run remembers of a text it has read."""
        data = "\n".join(
            f"{source}\t{target}" for source, target in zip(self.sources, self.targets, strict=True)
        ).encode()
        return {
            "name": self.name,
            "files": list(self.files),
            "pairs": len(self),
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }

    def part(self, places: Sequence[int]) -> "Parallel":
        numbers = self.places or range(len(self))
        return replace(
            self,
            places=[numbers[p] for p in places],
            sources=[self.sources[p] for p in places],
            targets=[self.targets[p] for p in places],
            alignments=None if self.alignments is None else [self.alignments[p] for p in places],
            possible=None if self.possible is None else [self.possible[p] for p in places],
        )

    def line(self, number: int) -> int | None:
        """Which of the pairs a line of the text is, from 0; None where it was left out."""
        places = range(len(self)) if self.places is None or not self.files else self.places
        return places.index(number) if number in places else None

    def swapped(self) -> "Parallel":
        """The same the other way round."""
        return replace(
            self,
            sources=self.targets,
            targets=self.sources,
            alignments=swap_links(self.alignments),
            possible=swap_links(self.possible),
        )


def words(line: str) -> list[str]:
    """What links count: what stands between ASCII white space, as for word tokens (a no-break space does not part words)."""
    return [word.decode() for word in line.encode().split()]


def swap_links(alignments: list[Links] | None) -> list[Links] | None:
    return None if alignments is None else [frozenset((j, i) for i, j in one) for one in alignments]


def files_of(record: dict[str, Any], folder: Path | None) -> list[str]:
    """The files of a text that a run remembers; the first runs remember their names as one."""
    if folder is not None and "paths" in record:
        return [relocated(path, record["folder"], folder) for path in record["paths"]]
    return (
        record["files"]
        if "files" in record
        else []
        if record["name"] == BUILT_IN
        else record["name"].split(" ")
    )


def read(files: Sequence[str]) -> Parallel:
    """Two files whose lines are translations, one table, or, without any, the built-in text."""
    return built_in() if not files else read_table(files[0]) if len(files) == 1 else read_files(*files)


def read_pairs(
    source: str | Path | None, target: str | Path | None, table: str | Path | None
) -> Parallel | None:
    """Parallel text from two files or a table; None if no file is named."""
    if table is not None:
        if source is not None or target is not None:
            raise UserError("give `pairs`, or `source` and `target`, not both")
        return read_table(str(table))
    if (source is None) != (target is None):
        raise UserError(
            "`source` and `target` go together: a file of sentences and one of their translations"
        )
    return None if source is None or target is None else read_files(str(source), str(target))


def built_in() -> Parallel:
    pairs = english_spanish()
    return Parallel(
        (),
        [pair.source for pair in pairs],
        [pair.target for pair in pairs],
        [pair.alignment for pair in pairs],
    )


def read_files(source: str, target: str) -> Parallel:
    """Line i of one file is the translation of line i of the other."""
    sources, targets = (read_lines(name) for name in (source, target))
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {len(sources):,} lines and {target} {len(targets):,}: give files whose lines are translations"
        )
    return _said((source, target), sources, targets)


def read_table(name: str) -> Parallel:
    """A line a pair, the last two columns of it, parted by tabulators."""
    sources, targets = [], []
    for number, line in enumerate(read_lines(name), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise UserError(f"{name}: line {number} has no tabulator; give source TAB target")
        sources.append(columns[-2])
        targets.append(columns[-1])
    return _said((name,), sources, targets)


def read_lines(name: str) -> list[str]:
    lines = read_file(name).text.split("\n")
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]


def _said(files: tuple[str, ...], sources: list[str], targets: list[str]) -> Parallel:
    places = [
        place
        for place, both in enumerate(zip(sources, targets, strict=True))
        if both[0].strip() and both[1].strip()
    ]
    read = Parallel(files, sources, targets, lines=len(sources))
    if not places:
        raise UserError(f"{read.name}: no pair has words on both sides")
    return replace(read.part(places), empty=len(sources) - len(places))


def hold_out(pairs: Parallel, share: float = 0.1, seed: int = 7) -> tuple[Parallel, Parallel]:
    """(training, held out): split by source sentence, so that none of the held-out ones was seen with another translation."""
    sentences = sorted(set(pairs.sources))
    random.Random(seed).shuffle(sentences)
    held = set(sentences[: max(1, int(len(sentences) * share))])
    if len(held) == len(sentences):
        raise UserError(
            f"{pairs.name}: one sentence cannot be split into training and validation; give more pairs"
        )
    kept, left = (
        [place for place, source in enumerate(pairs.sources) if (source in held) == wanted]
        for wanted in (False, True)
    )
    return pairs.part(kept), replace(
        pairs.part(left), places=None, empty=0, lines=len(left)
    )  # what is held out is a text of its own
