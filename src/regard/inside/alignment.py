"""Word alignments: from attention under forced decoding, both ways put together, measured, read and written.

A link (i, j): source word i, target word j, from 0. What a decoder looks at when it says a word is the row of the state *before* that word
was read; the row that has read it (the naive way) belongs to the next word. Both are here, because the difference is worth seeing.

Shape legend: H heads, T target positions, S source positions, I source words, J target words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from regard.errors import UserError
from regard.inside.record import Record
from regard.inside.words import merged
from regard.text.parallel import Links, words

Symmetry = Literal["intersection", "union", "grow-diag", "grow-diag-final"]


def from_weights(weights_JI: Tensor, words: int) -> Links:
    """Each target word with the source word it looks at most; none where it looks at nothing, or most at a sink behind the words."""
    best_J = weights_JI.max(1)
    found = enumerate(zip(best_J.values.tolist(), best_J.indices.tolist(), strict=True))
    return frozenset((i, j) for j, (weight, i) in found if weight > 0 and i < words)


def to_words(weights_TS: Tensor, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], shifted: bool = True) -> Tensor:
    """(J, I): rows of a target word's parts averaged, columns of a source word's parts added; what is in no group is left out.

    `weights` has the row of the state that says each token. Naively a word takes the row after it, the state that has read it.
    """
    rows = target if shifted else [[min(t + 1, len(weights_TS) - 1) for t in word] for word in target]
    return merged(weights_TS, rows, source)


@dataclass(frozen=True)
class Agreement:
    """Alignment error rate (Och and Ney 2003): 1 - (|A & S| + |A & P|) / (|A| + |S|), with sure links S among the possible P."""

    aer: float
    precision: float
    recall: float


def agreement(found: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None) -> Agreement:
    every = sure if possible is None else [one | other for one, other in zip(sure, possible, strict=True)]
    links, certain = sum(map(len, found)), sum(map(len, sure))
    in_sure = sum(len(one & other) for one, other in zip(found, sure, strict=True))
    in_possible = sum(len(one & other) for one, other in zip(found, every, strict=True))
    if not links and not certain:
        return Agreement(aer=0.0, precision=1.0, recall=1.0)  # nothing was to be found, and nothing was
    return Agreement(
        aer=1 - (in_sure + in_possible) / max(1, links + certain),
        precision=in_possible / links if links else 0.0,
        recall=in_sure / certain if certain else 0.0,
    )


def symmetrise(forward: Links, backward: Links, how: Symmetry) -> Links:
    """Two alignments of the same pair, both as (source, target), made one (Koehn et al. 2003)."""
    if how == "intersection":
        return forward & backward
    if how == "union":
        return forward | backward
    found, every = set(forward & backward), forward | backward
    grown = True
    while grown:
        grown = False
        for i, j in sorted(found):
            for near in [(i + di, j + dj) for di in (-1, 0, 1) for dj in (-1, 0, 1) if (di, dj) != (0, 0)]:
                free = near[0] not in {a for a, _ in found} or near[1] not in {b for _, b in found}
                if near in every and near not in found and free:
                    found.add(near)
                    grown = True
    if how == "grow-diag-final":
        for one in (forward, backward):
            for i, j in sorted(one):
                if i not in {a for a, _ in found} or j not in {b for _, b in found}:
                    found.add((i, j))
    return frozenset(found)


def symmetrised(forward: Sequence[Links], backward: Sequence[Links], how: Symmetry) -> list[Links]:
    """Alignments of a text and of the same text turned round, made one."""
    return [symmetrise(one, frozenset((i, j) for j, i in other), how) for one, other in zip(forward, backward, strict=True)]


def parse_links(text: str, name: str, index: int = 0) -> list[tuple[Links, Links]]:
    """(sure, possible) of each line: `i-j` is sure, `ipj` and `i?j` possible; an empty line is a sentence without links."""
    found = []
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1):
        sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
        for word in line.split():
            mark = next((mark for mark in "-p?" if mark in word), None)
            parts = word.split(mark) if mark else []
            if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
                raise UserError(f"{name}: line {number}: {word!r} is not a link; write i-j (sure), ipj or i?j (possible)")
            link = (int(parts[0]) - index, int(parts[1]) - index)
            if min(link) < 0:
                raise UserError(f"{name}: line {number}: {word!r} lies below the first word; words are counted from {index} here")
            (sure if mark == "-" else possible).add(link)
        found.append((frozenset(sure), frozenset(possible)))
    return found


def parse_line(line: str, name: str) -> tuple[Links, Links]:
    """(sure, possible) of one sentence."""
    found = parse_links(line, name) or [(frozenset(), frozenset())]
    if len(found) > 1:
        raise UserError(f"{name} has {len(found)} lines: give the links of one sentence")
    return found[0]


def check_links(links: Links, source: str, target: str, where: str, index: int = 0) -> None:
    """No link lies outside its sentence."""
    for i, j in sorted(links):
        if i >= len(words(source)) or j >= len(words(target)):
            raise UserError(f"{where}: {i + index}-{j + index} lies outside its sentence")


def framed(record: Record, gold: str, source: str, target: str) -> Record:
    """A record of a translation by words, with the right links in it."""
    if record.columns is None:
        raise UserError("--gold is for what looks from the target at the source")
    sure, possible = parse_line(gold, "--gold")
    check_links(sure | possible, source, target, "--gold")
    return replace(record, right=frozenset((j, i) for i, j in sure))


def written(links: Links) -> str:
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
