"""Parallel text: sentences side by side, from two files, from a table, or from the built-in grammar."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.errors import UserError
from regard.text.files import read_file
from regard.text.grammar import english_spanish

BUILT_IN = "built-in"


@dataclass(frozen=True)
class Parallel:
    """Sentences and their translations."""

    name: str
    sources: list[str]
    targets: list[str]
    alignments: list[frozenset[tuple[int, int]]] | None = None  # where they are known
    empty: int = 0  # pairs left out because one side says nothing
    places: list[int] | None = None  # which pair of the text each is, where some are left out

    def __len__(self) -> int:
        return len(self.sources)

    def record(self) -> dict[str, Any]:
        """What a run remembers of a text it has read."""
        data = "\n".join(f"{source}\t{target}" for source, target in zip(self.sources, self.targets, strict=True)).encode()
        return {"name": self.name, "pairs": len(self), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def part(self, places: Sequence[int]) -> "Parallel":
        aligned = None if self.alignments is None else [self.alignments[place] for place in places]
        numbers = self.places or range(len(self))
        return replace(
            self,
            places=[numbers[p] for p in places],
            sources=[self.sources[p] for p in places],
            targets=[self.targets[p] for p in places],
            alignments=aligned,
        )


def built_in() -> Parallel:
    pairs = english_spanish()
    return Parallel(BUILT_IN, [pair.source for pair in pairs], [pair.target for pair in pairs], [pair.alignment for pair in pairs])


def read_files(source: str, target: str) -> Parallel:
    """Line i of one file is the translation of line i of the other."""
    sources, targets = (_lines(name) for name in (source, target))
    if len(sources) != len(targets):
        raise UserError(f"{source} has {len(sources):,} lines and {target} {len(targets):,}: give files whose lines are translations")
    return _said(f"{source} {target}", sources, targets)


def read_table(name: str) -> Parallel:
    """A line a pair, the last two columns of it, parted by tabulators."""
    sources, targets = [], []
    for number, line in enumerate(_lines(name), 1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise UserError(f"{name}: line {number} has no tabulator; give source TAB target")
        sources.append(columns[-2])
        targets.append(columns[-1])
    return _said(name, sources, targets)


def _lines(name: str) -> list[str]:
    lines = read_file(name).text.split("\n")
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]


def _said(name: str, sources: list[str], targets: list[str]) -> Parallel:
    places = [place for place, both in enumerate(zip(sources, targets, strict=True)) if both[0].strip() and both[1].strip()]
    if not places:
        raise UserError(f"{name}: no pair has words on both sides")
    return replace(Parallel(name, sources, targets).part(places), empty=len(sources) - len(places))


def hold_out(pairs: Parallel, share: float = 0.1, seed: int = 7) -> tuple[Parallel, Parallel]:
    """(training, held out): split by source sentence, so that none of the held-out ones was seen with another translation."""
    sentences = sorted(set(pairs.sources))
    random.Random(seed).shuffle(sentences)
    held = set(sentences[: max(1, int(len(sentences) * share))])
    if len(held) == len(sentences):
        raise UserError(f"{pairs.name}: one sentence cannot be split into training and validation; give more pairs")
    return (
        pairs.part([place for place, source in enumerate(pairs.sources) if source not in held]),
        pairs.part([place for place, source in enumerate(pairs.sources) if source in held]),
    )
