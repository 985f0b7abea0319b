"""Word alignments: from attention under forced decoding, from counting (IBM Model 1), both ways put together, and measured.

A link (i, j): source word i, target word j, from 0. What a decoder looks at when it says a word is the row of the state *before* that word
was read; the row that has read it (the naive way) belongs to the next word. Both are here, because the difference is worth seeing.

Shape legend: H heads, T target positions, S source positions, I source words, J target words.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError

Links = frozenset[tuple[int, int]]
Symmetry = Literal["intersection", "union", "grow-diag", "grow-diag-final"]


def from_weights(weights_JI: Tensor, threshold: float | None = None) -> Links:
    """Each target word with the source word it looks at most; a row that looks at nothing has none."""
    best_J = weights_JI.max(1)
    return frozenset((int(i), j) for j, (weight, i) in enumerate(zip(*best_J, strict=True)) if float(weight) > (threshold or 0.0))


def to_words(weights_TS: Tensor, source: list[range], target: list[range], shifted: bool = True, sinks: Sequence[int] = ()) -> Tensor:
    """(J, I): rows of a target word's parts averaged, columns of a source word's parts added; sinks, such as the end, are hidden.

    `weights` has the row of the state that says each token. Naively a word takes the row after it, the state that has read it.
    """
    hidden_S = torch.zeros(weights_TS.shape[1], dtype=torch.bool)
    hidden_S[list(sinks)] = True
    shown_TS = weights_TS.masked_fill(hidden_S, 0.0)
    rows = [shown_TS[[min(t + (0 if shifted else 1), len(shown_TS) - 1) for t in word]].mean(0) for word in target]
    return torch.stack([torch.stack([row_S[list(word)].sum() for word in source]) for row_S in rows])


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


class ModelOne:
    """IBM Model 1: P(f | e) by expectation maximisation; word order plays no part (Brown et al. 1993). Needs no network."""

    def __init__(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], rounds: int = 10):
        self._source: dict[str, int] = defaultdict(lambda: len(self._source))
        self._target: dict[str, int] = defaultdict(lambda: len(self._target))
        nothing = self._source[""]  # a word that stands for none
        pairs, token = [], 0
        for source, target in zip(sources, targets, strict=True):
            ids = [nothing, *(self._source[word] for word in source)]
            for word in target:
                pairs += [(e, self._target[word], token) for e in ids]
                token += 1
        e_N, f_N, token_N = np.array(pairs).T
        cell_N = e_N * len(self._target) + f_N
        cells, place_N = np.unique(cell_N, return_inverse=True)
        chance = np.full(len(cells), 1 / len(self._target))
        row_C = cells // len(self._target)
        for _ in range(rounds):
            share_N = chance[place_N]
            share_N = share_N / np.bincount(token_N, share_N)[token_N]  # expectation: which source word said this one
            count_C = np.bincount(place_N, share_N)
            chance = count_C / np.bincount(row_C, count_C, minlength=len(self._source))[row_C]  # maximisation
        self._chance = dict(zip(cells.tolist(), chance.tolist(), strict=True))

    def probability(self, source: str, target: str) -> float:
        if source not in self._source or target not in self._target:
            return 0.0
        return self._chance.get(self._source[source] * len(self._target) + self._target[target], 0.0)

    def align(self, source: Sequence[str], target: Sequence[str]) -> Links:
        """Each target word with the source word that says it most likely, unless none does so more."""
        links = set()
        for j, word in enumerate(target):
            chances = [self.probability(other, word) for other in source]
            best = max(range(len(source)), key=lambda i: chances[i]) if source else 0
            if source and chances[best] > self.probability("", word):
                links.add((best, j))
        return frozenset(links)


def parse_links(text: str, name: str, index: int = 0) -> list[tuple[Links, Links]]:
    """(sure, possible) of each line: `i-j` is sure, `ipj` and `i?j` possible; an empty line is a sentence without links."""
    found = []
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1):
        sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
        for word in line.split():
            mark = next((mark for mark in "-p?" if mark in word), None)
            parts = word.split(mark) if mark else []
            if len(parts) != 2 or not all(part.isdigit() for part in parts):
                raise UserError(f"{name}: line {number}: {word!r} is not a link; write i-j (sure), ipj or i?j (possible)")
            link = (int(parts[0]) - index, int(parts[1]) - index)
            if min(link) < 0:
                raise UserError(f"{name}: line {number}: {word!r} lies below the first word; words are counted from {index} here")
            (sure if mark == "-" else possible).add(link)
        found.append((frozenset(sure), frozenset(possible)))
    return found


def written(links: Links) -> str:
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
