"""Files of links for `regard align`: two directions put together, and one file measured against another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError, notify
from regard.probabilities.links import (
    Symmetry,
    agreement,
    check_links,
    first_words,
    format_links,
    parse_links,
    symmetrise,
    turned,
)
from regard.tables import Table, TableRows
from regard.text.files import read_file
from regard.text.parallel import Links, Parallel


@dataclass(frozen=True)
class Combined(Table):
    """The links of two files, put together."""

    links: list[Links]
    symmetry: Symmetry

    def to_json(self) -> dict[str, Any]:
        return {"symmetry": self.symmetry, "alignments": [sorted(links) for links in self.links]}

    def rows(self) -> TableRows:
        """A row for each sentence pair."""
        return [{"links": format_links(links)} for links in self.links]


@dataclass(frozen=True)
class Scored(Table):
    """The figures of one alignment file against another."""

    aer: float
    precision: float
    recall: float

    def to_json(self) -> dict[str, Any]:
        return vars(self)

    def rows(self) -> TableRows:
        """One row with every figure."""
        return [self.to_json()]


@dataclass(frozen=True)
class LinkFiles:
    """The files that `regard align` was given, and how their links are written."""

    links: str | Path | None
    reverse_links: str | Path | None
    score: str | Path | None
    gold: str | Path | None
    index: int
    gold_index: int
    turn: bool

    @property
    def named(self) -> bool:
        """Whether an option asks for files of links."""
        return self.turn or any(file is not None for file in (self.links, self.reverse_links, self.score))

    def result(self, run: object, symmetry: Symmetry | None, text: Parallel | None) -> Combined | Scored:
        """Combine `links` and `reverse_links`, or measure `score`."""
        if self.score is not None:
            if self.gold is None or run is not None or self.links or self.reverse_links:
                raise UserError("`score` is measured against `gold`, without a run and without `links`")
            names = (str(self.score), str(self.gold))
            return score_links(*names, self.index, self.gold_index, text, self.turn)
        if self.links is None or self.reverse_links is None or run is not None:
            why = "`turn` is for `score` and `reverse_links`; " if self.turn else ""
            raise UserError(f"{why}`links` and `reverse_links` go together, without a run")
        names = (str(self.links), str(self.reverse_links))
        return combine_links(*names, symmetry or "grow-diag", self.index, self.turn)


def score_links(
    links: str,
    gold: str,
    index: int = 0,
    gold_index: int = 0,
    pairs: Parallel | None = None,
    turn: bool = False,
) -> Scored:
    """Measure one alignment file against another. If sentences are given, no link may lie outside them."""
    measured_links, right = read_links(links, index, turn), read_links(gold, gold_index)
    for name, parsed, first, option in (
        (links, measured_links, index, ""),
        (gold, right, gold_index, "gold_"),
    ):
        if not first and not first_words(parsed):
            notify(f"{name}: no link has a word 0; if its words are counted from 1, give `{option}index` 1")
    if len(measured_links) != len(right):
        lengths = f"{links} has {len(measured_links)} lines and {gold} {len(right)}"
        raise UserError(f"{lengths}: give alignments of the same sentences")
    if pairs is not None and len(measured_links) != pairs.lines:
        lengths = f"{links} has {len(measured_links)} lines and the text {pairs.lines}"
        raise UserError(f"{lengths}: give alignments of the same sentences")
    for name, parsed, first in ((links, measured_links, index), (gold, right, gold_index)):
        numbered = (
            ()
            if pairs is None
            else zip(pairs.places or range(len(pairs)), pairs.sources, pairs.targets, strict=True)
        )
        for place, source, target in numbered:
            check_links(
                parsed[place][0] | parsed[place][1], source, target, f"{name}: line {place + 1}", first
            )
    every = [sure | possible for sure, possible in measured_links]
    errors = agreement(every, [sure for sure, _ in right], [possible for _, possible in right])
    return Scored(errors.aer, errors.precision, errors.recall)


def combine_links(
    forward: str, backward: str, symmetry: Symmetry, index: int = 0, turn: bool = False
) -> Combined:
    """Combine the links of two files, which have a line for each sentence pair."""
    both = [read_links(forward, index), read_links(backward, index, turn)]
    if len(both[0]) != len(both[1]):
        lengths = f"{forward} has {len(both[0])} lines and {backward} {len(both[1])}"
        raise UserError(f"{lengths}: give alignments of the same sentences")
    lines = ([sure | possible for sure, possible in parsed] for parsed in both)
    pairs = zip(*lines, strict=True)
    return Combined([symmetrise(there, back, symmetry) for there, back in pairs], symmetry)


def read_links(name: str, index: int, turn: bool = False) -> list[tuple[Links, Links]]:
    """Read a file of (sure, possible) links. `turn` swaps the sides of each link."""
    empty = Path(name).is_file() and Path(name).stat().st_size == 0  # alignments of no sentences
    parsed = parse_links("" if empty else read_file(name).text, name, index)
    return [(turned(sure), turned(possible)) for sure, possible in parsed] if turn else parsed
