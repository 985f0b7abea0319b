"""Parallel text: sentences with their translations, from two files, a table, or the built-in grammar."""

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

    files: tuple[str, ...]  # two files, one table, or none for the built-in text
    sources: list[str]
    targets: list[str]
    alignments: list[Links] | None = None  # sure links (source word, target word), if they are known
    possible: list[Links] | None = None  # links that are right but not required
    empty: int = 0  # number of pairs left out because one side is empty
    places: list[int] | None = None  # the line of each pair in the text, if some lines are left out
    lines: int = 0  # number of lines of the text

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def name(self) -> str:
        return " ".join(self.files) or BUILT_IN

    def record(self) -> dict[str, Any]:
        """The name, size and hash of the text, for the config of a run."""
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
        """The pairs at these places."""
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
        """The index of the pair at a line of the text, from 0; None if the line was left out."""
        places = range(len(self)) if self.places is None or not self.files else self.places
        return places.index(number) if number in places else None

    def swapped(self) -> "Parallel":
        """The text in the other direction: sources and targets swapped."""
        return replace(
            self,
            sources=self.targets,
            targets=self.sources,
            alignments=swap_links(self.alignments),
            possible=swap_links(self.possible),
        )


def words(line: str) -> list[str]:
    """The words that links count: split at ASCII white space, like word tokens, never at a no-break space."""
    return [word.decode() for word in line.encode().split()]


def swap_links(alignments: list[Links] | None) -> list[Links] | None:
    return None if alignments is None else [frozenset((j, i) for i, j in links) for links in alignments]


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
    """Read two files whose lines are translations of each other, or one table, or the built-in text."""
    return built_in() if not files else read_table(files[0]) if len(files) == 1 else read_files(*files)


def read_pairs(
    source: str | Path | None, target: str | Path | None, table: str | Path | None
) -> Parallel | None:
    """Read parallel text from two files or a table. The result is None if no file is named."""
    if table is not None:
        if source is not None or target is not None:
            raise UserError("give `pairs`, or `source` and `target`, not both")
        return read_table(str(table))
    if (source is None) != (target is None):
        raise UserError(
            "`source` and `target` go together: give a file of sentences and a file of their translations"
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
    """Read two files. Line i of the one is the translation of line i of the other."""
    sources, targets = (read_lines(name) for name in (source, target))
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {len(sources):,} lines and {target} has {len(targets):,}; "
            "give files in which equal lines are translations"
        )
    return _without_empty((source, target), sources, targets)


def read_table(name: str) -> Parallel:
    """Read a table: each line is a pair, its last two columns, with tabulators between them."""
    sources, targets = [], []
    for number, line in enumerate(read_lines(name), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise UserError(f"{name}: line {number} has no tabulator; write: source TAB target")
        sources.append(columns[-2])
        targets.append(columns[-1])
    return _without_empty((name,), sources, targets)


def read_lines(name: str) -> list[str]:
    lines = read_file(name).text.split("\n")
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]


def _without_empty(files: tuple[str, ...], sources: list[str], targets: list[str]) -> Parallel:
    places = [
        place
        for place, (source, target) in enumerate(zip(sources, targets, strict=True))
        if source.strip() and target.strip()
    ]
    pairs = Parallel(files, sources, targets, lines=len(sources))
    if not places:
        raise UserError(
            f"{pairs.name}: no pair has words on both sides; give sentences and their translations"
        )
    return replace(pairs.part(places), empty=len(sources) - len(places))


def hold_out(pairs: Parallel, share: float = 0.1, seed: int = 7) -> tuple[Parallel, Parallel]:
    """(training, validation) pairs, split by source sentence: equal source sentences stay on one side."""
    sentences = sorted(set(pairs.sources))
    random.Random(seed).shuffle(sentences)
    held_out = set(sentences[: max(1, int(len(sentences) * share))])
    if len(held_out) == len(sentences):
        raise UserError(
            f"{pairs.name}: one sentence cannot be split into training and validation text; give more pairs"
        )
    train = [place for place, source in enumerate(pairs.sources) if source not in held_out]
    valid = [place for place, source in enumerate(pairs.sources) if source in held_out]
    # the validation pairs count as a text of their own, with line numbers of their own
    return pairs.part(train), replace(pairs.part(valid), places=None, empty=0, lines=len(valid))
