"""Word alignments as sets of links: from weights, combined over two directions, compared, parsed and written.

A link (i, j) joins source word i and target word j. Words are counted from 0.

Shape legend: H heads, T target positions, S source positions, I source words, J target words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from regard.errors import UserError
from regard.text.parallel import Links, words
from regard.tokens.word_groups import group_weights

NUMBER = re.compile(r"[0-9]{1,9}")  # of a word
Symmetry = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]


def links_from_weights(weights_JI: Tensor, words: int) -> Links:
    """Link each target word to the source word with its highest weight.

    A target word has no link if its weights are 0, or if its highest weight lies on a column after the source
    words.
    """
    best_J = weights_JI.max(1)
    pairs = enumerate(zip(best_J.values.tolist(), best_J.indices.tolist(), strict=True))
    return frozenset((i, j) for j, (weight, i) in pairs if weight > 0 and i < words)


def weights_by_word(
    weights_TS: Tensor, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], shifted: bool = True
) -> Tensor:
    """(J, I): averages the rows of a target word's tokens, and adds the columns of a source word's tokens.

    Row t of `weights_TS` belongs to the state that predicts token t. Without `shifted`, a word takes the next
    row instead, which belongs to the state that has read the word. Tokens outside all words are left out.
    """
    rows = target if shifted else [[min(t + 1, len(weights_TS) - 1) for t in word] for word in target]
    return group_weights(weights_TS, rows, source)


@dataclass(frozen=True)
class Agreement:
    """The error rate, precision and recall of links A, given sure links S and possible links P (S in P).

    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision = |A & P| / |A|, recall = |A & S| / |S|
    (Och and Ney 2003).
    """

    aer: float
    precision: float
    recall: float


def agreement(
    links: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> Agreement:
    """Compare links with the sure and the possible links of the same sentences."""
    allowed = sure if possible is None else [s | p for s, p in zip(sure, possible, strict=True)]
    links_count, sure_count = sum(map(len, links)), sum(map(len, sure))
    in_sure = sum(len(a & s) for a, s in zip(links, sure, strict=True))
    in_possible = sum(len(a & p) for a, p in zip(links, allowed, strict=True))
    if (
        not links_count and not sure_count
    ):  # sentences without links, and none were predicted: a perfect result
        return Agreement(aer=0.0, precision=1.0, recall=1.0)
    return Agreement(
        aer=1 - (in_sure + in_possible) / max(1, links_count + sure_count),
        precision=in_possible / links_count if links_count else 0.0,
        recall=in_sure / sure_count if sure_count else 0.0,
    )


NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))  # (target, source)


def target_first(link: tuple[int, int]) -> tuple[int, int]:
    return link[1], link[0]


def symmetrise(forward: Links, backward: Links, how: Symmetry) -> Links:
    """Combine two alignments of one sentence pair, as Moses' symal and fast_align's atools do.

    Both alignments hold (source, target) links. grow-diag begins with the intersection. It adds links of the
    union that touch an accepted link (diagonally too) and have an unlinked word on at least one side. `final`
    then adds links of either direction with an unlinked word on at least one side; `final-and` requires
    unlinked words on both sides. The order is that of Koehn et al. (2005): target words first, and a link
    that was added is grown from in the same round.
    """
    if how == "intersection":
        return forward & backward
    if how == "union":
        return forward | backward
    accepted, union = set(forward & backward), forward | backward
    sources, targets = {i for i, _ in accepted}, {j for _, j in accepted}

    def add(link: tuple[int, int]) -> None:
        accepted.add(link)
        sources.add(link[0])
        targets.add(link[1])

    ordered = sorted(union, key=target_first)
    grown = True
    while grown:
        grown = False
        for i, j in ordered:
            for dj, di in NEIGHBOURS if (i, j) in accepted else ():
                link = (i + di, j + dj)
                unlinked = link[0] not in sources or link[1] not in targets
                if link in union and link not in accepted and unlinked:
                    add(link)
                    grown = True
    if how != "grow-diag":
        both_sides = how == "grow-diag-final-and"
        for direction in (forward, backward):
            for i, j in sorted(direction, key=target_first):
                unlinked_sides = [i not in sources, j not in targets]
                if all(unlinked_sides) if both_sides else any(unlinked_sides):
                    add((i, j))
    return frozenset(accepted)


def symmetrised(forward: Sequence[Links], backward: Sequence[Links], how: Symmetry) -> list[Links]:
    """Combine the alignments of a text with those of the opposite direction.

    The links of the opposite direction are (target, source).
    """
    return [symmetrise(links, turned(back), how) for links, back in zip(forward, backward, strict=True)]


def turned(links: Links) -> Links:
    """Swap the sides of every link."""
    return frozenset((j, i) for i, j in links)


def parse_links(text: str, name: str, index: int = 0) -> list[tuple[Links, Links]]:
    """Parse a line for each sentence into (sure, possible) links.

    `i-j` is a sure link, `ipj` and `i?j` are possible links. An empty line is a sentence without links.
    `index` is the number of the first word in the text, 0 or 1.
    """
    parsed = []
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1):
        sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
        for word in line.split():
            mark = next((mark for mark in "-p?" if mark in word), None)
            parts = word.split(mark) if mark else []
            if len(parts) != 2 or not all(map(NUMBER.fullmatch, parts)):
                raise UserError(
                    f"{name}: line {number}: {word!r} is not a link; write i-j (sure), ipj or i?j (possible)"
                )
            link = (int(parts[0]) - index, int(parts[1]) - index)
            if min(link) < 0:
                raise UserError(
                    f"{name}: line {number}: {word!r} is before the first word; "
                    f"words are counted from {index}"
                )
            (sure if mark == "-" else possible).add(link)
        parsed.append((frozenset(sure), frozenset(possible)))
    return parsed


def first_words(parsed: Sequence[tuple[Links, Links]]) -> bool:
    """Whether a link joins the first word of a side. If none does, the words were counted from 1."""
    links = [link for sure, possible in parsed for link in sure | possible]
    return not links or any(0 in link for link in links)


def parse_line(line: str, name: str) -> tuple[Links, Links]:
    """Parse the links of one sentence into (sure, possible) links."""
    parsed = parse_links(line, name) or [(frozenset(), frozenset())]
    if len(parsed) > 1:
        raise UserError(f"{name} has {len(parsed)} lines: give the links of one sentence")
    return parsed[0]


def check_links(links: Links, source: str, target: str, where: str, index: int = 0) -> None:
    """Raise an error if a link lies outside its sentence."""
    for i, j in sorted(links):
        if i >= len(words(source)) or j >= len(words(target)):
            raise UserError(f"{where}: {i + index}-{j + index} lies outside its sentence")


def format_links(links: Links) -> str:
    """Write links as text, such as `0-0 1-2`."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
