"""Word alignments: links from weights, both directions put together, error rates, and links in text form.

A link (i, j) joins source word i and target word j, from 0.

Shape legend: H heads, T target positions, S source positions, I source words, J target words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from regard.errors import UserError
from regard.text.parallel import Links, words
from regard.tokens.word_groups import group_weights

Symmetry = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]


def from_weights(weights_JI: Tensor, words: int) -> Links:
    """Each target word with the source word of its highest weight. Words without weight, or with most of it behind the words, have none."""
    best_J = weights_JI.max(1)
    pairs = enumerate(zip(best_J.values.tolist(), best_J.indices.tolist(), strict=True))
    return frozenset((i, j) for j, (weight, i) in pairs if weight > 0 and i < words)


def to_words(
    weights_TS: Tensor, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], shifted: bool = True
) -> Tensor:
    """(J, I): the rows of a target word's tokens averaged, the columns of a source word's tokens added; other tokens are left out.

    Row t of `weights_TS` is the state that predicts token t. Without `shifted`, a word takes the next row: the state that has read it.
    """
    rows = target if shifted else [[min(t + 1, len(weights_TS) - 1) for t in word] for word in target]
    return group_weights(weights_TS, rows, source)


@dataclass(frozen=True)
class Agreement:
    """Alignment error rate (Och and Ney 2003): 1 - (|A & S| + |A & P|) / (|A| + |S|), with sure links S among the possible P."""

    aer: float
    precision: float
    recall: float


def agreement(
    links: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> Agreement:
    """How well links agree with the sure and the possible links of the same sentences."""
    every = sure if possible is None else [one | other for one, other in zip(sure, possible, strict=True)]
    made, certain = sum(map(len, links)), sum(map(len, sure))
    in_sure = sum(len(one & other) for one, other in zip(links, sure, strict=True))
    in_possible = sum(len(one & other) for one, other in zip(links, every, strict=True))
    if not made and not certain:
        return Agreement(
            aer=0.0, precision=1.0, recall=1.0
        )  # there was nothing to link, and nothing was linked
    return Agreement(
        aer=1 - (in_sure + in_possible) / max(1, made + certain),
        precision=in_possible / made if made else 0.0,
        recall=in_sure / certain if certain else 0.0,
    )


def symmetrise(forward: Links, backward: Links, how: Symmetry) -> Links:
    """Two alignments of one pair, both as (source, target), put together as in Moses' symal (Koehn et al. 2003 and 2005).

    grow-diag begins with the intersection and adds links of the union that touch a chosen link and have a free word on either side.
    `final` then adds links of either direction with a free word on either side; `final-and` with free words on both sides.
    """
    if how == "intersection":
        return forward & backward
    if how == "union":
        return forward | backward
    chosen, every = set(forward & backward), forward | backward
    sources, targets = {i for i, _ in chosen}, {j for _, j in chosen}

    def add(link: tuple[int, int]) -> None:
        chosen.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grown = True
    while grown:
        grown = False
        for i, j in sorted(chosen):
            for near in [(i + di, j + dj) for di in (-1, 0, 1) for dj in (-1, 0, 1) if (di, dj) != (0, 0)]:
                free = near[0] not in sources or near[1] not in targets
                if near in every and near not in chosen and free:
                    add(near)
                    grown = True
    if how != "grow-diag":
        both = how == "grow-diag-final-and"
        for direction in (forward, backward):
            for i, j in sorted(direction):
                sides = [i not in sources, j not in targets]
                if all(sides) if both else any(sides):
                    add((i, j))
    return frozenset(chosen)


def symmetrised(forward: Sequence[Links], backward: Sequence[Links], how: Symmetry) -> list[Links]:
    """The alignments of a text put together with those of the same text turned round."""
    pairs = zip(forward, backward, strict=True)
    return [symmetrise(one, frozenset((i, j) for j, i in other), how) for one, other in pairs]


def parse_links(text: str, name: str, index: int = 0) -> list[tuple[Links, Links]]:
    """(sure, possible) of each line: `i-j` is sure, `ipj` and `i?j` are possible; an empty line is a sentence without links."""
    parsed = []
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1):
        sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
        for word in line.split():
            mark = next((mark for mark in "-p?" if mark in word), None)
            parts = word.split(mark) if mark else []
            if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
                raise UserError(
                    f"{name}: line {number}: {word!r} is not a link; write i-j (sure), ipj or i?j (possible)"
                )
            link = (int(parts[0]) - index, int(parts[1]) - index)
            if min(link) < 0:
                raise UserError(
                    f"{name}: line {number}: {word!r} lies below the first word; words are counted from {index} here"
                )
            (sure if mark == "-" else possible).add(link)
        parsed.append((frozenset(sure), frozenset(possible)))
    return parsed


def parse_line(line: str, name: str) -> tuple[Links, Links]:
    """(sure, possible) of one sentence."""
    parsed = parse_links(line, name) or [(frozenset(), frozenset())]
    if len(parsed) > 1:
        raise UserError(f"{name} has {len(parsed)} lines: give the links of one sentence")
    return parsed[0]


def check_links(links: Links, source: str, target: str, where: str, index: int = 0) -> None:
    """Raise an error if a link lies outside its sentence."""
    for i, j in sorted(links):
        if i >= len(words(source)) or j >= len(words(target)):
            raise UserError(f"{where}: {i + index}-{j + index} lies outside its sentence")


def written(links: Links) -> str:
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
