"""IBM Model 1 and the HMM align words by expected counts, without a network.

Expectation maximisation estimates which source word e_i generated each target word f_j:

    IBM Model 1   P(f_j, a_j = i | e) ~ t(f_j | e_i)                            (Brown et al. 1993)
    HMM           P(f_j, a_j = i | e, a_{j-1} = i') ~ t(f_j | e_i) p(i - i')    (Vogel et al. 1996)

Model 1 ignores word order. In the HMM the jump from the previous link has a probability, which is learned.

Shape legend: P pairs of a batch, J target words, I source words, N = I + 1 (the null word first), D jumps.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, final

import numpy as np

from regard.probabilities.links import Symmetry, symmetrised
from regard.text.parallel import Links

CountedName = Literal["model-1", "hmm"]
Sentences = Sequence[Sequence[str]]
BATCH = 1 << 20  # the maximal number of (target word, source word) cells in a batch
NULL = 0  # the number of the null word, which generates target words without a counterpart in the source
FLOOR = 1e-9  # t(f | e) of words that never occur in one sentence pair


class Order(ABC):
    """The model of word order: the prior probability of each link's position."""

    @abstractmethod
    def posterior(self, chance_PJN: np.ndarray, real_PJ: np.ndarray) -> np.ndarray:
        """(P, J, N): the posterior probability that a source word generated a target word, given t(f | e)."""

    @abstractmethod
    def learn(self) -> None:
        """Re-estimate the order's parameters from the counts since the last call (the M step)."""


@final
class AnyOrder(Order):
    """IBM Model 1: all source positions have the same prior probability."""

    def posterior(self, chance_PJN: np.ndarray, real_PJ: np.ndarray) -> np.ndarray:
        return chance_PJN / chance_PJN.sum(2, keepdims=True)

    def learn(self) -> None:
        pass


@final
class Jumps(Order):
    """The HMM: a link's probability depends on its distance from the previous link.

    The null word has the prior probability NULL_SHARE; after it, distances are measured from the last word
    that is not null (Och and Ney 2003, section 2.3). Jump probabilities are mixed with a uniform
    distribution.
    """

    NULL_SHARE, UNIFORM = 0.2, 0.1

    def __init__(self, longest: int):
        self._longest = longest
        self._chance_D = np.ones(2 * longest + 1)  # index longest + d holds the (unnormalised) p(d)
        self._count_D = np.zeros(2 * longest + 1)

    def _jumps(self, words: int) -> np.ndarray:
        """(I + 1, I): the probability of each jump. Row 0 is the start, before the first position."""
        distance = np.arange(words) - np.arange(-1, words)[:, None]
        chance = self._chance_D[self._longest + np.clip(distance, -self._longest, self._longest)]
        return (1 - self.UNIFORM) * chance / chance.sum(1, keepdims=True) + self.UNIFORM / words

    def posterior(self, chance_PJN: np.ndarray, real_PJ: np.ndarray) -> np.ndarray:
        """Run the forward-backward algorithm. A state is (the last non-null position, is this word null)."""
        pairs, length, words = chance_PJN.shape[0], chance_PJN.shape[1], chance_PJN.shape[2] - 1
        jumps = self._jumps(words)
        null_PJ1 = self.NULL_SHARE * chance_PJN[:, :, :1]
        word_PJI = (1 - self.NULL_SHARE) * chance_PJN[:, :, 1:]
        # forward[j, 0]: word j is linked to the position; forward[j, 1]: word j is null, the position is the
        # last one.
        forward = np.empty((length, 2, pairs, words + 1))
        before = np.zeros((pairs, words + 1))
        before[:, 0] = 1
        for j in range(length):
            forward[j, 0] = np.pad(before @ jumps * word_PJI[:, j], ((0, 0), (1, 0)))
            forward[j, 1] = before * null_PJ1[:, j]
            position_PN = forward[j].sum(0)
            total = position_PN.sum(1, keepdims=True)
            forward[j] /= total
            before = np.where(real_PJ[:, j, None], position_PN / total, before)
        posterior_PJN = np.empty_like(chance_PJN)
        after = np.ones((pairs, words + 1))  # the backward probability: of the rest, given each position
        for j in reversed(range(length)):
            joint = forward[j] * after
            joint /= joint.sum((0, 2), keepdims=True)
            posterior_PJN[:, j, 0], posterior_PJN[:, j, 1:] = joint[1].sum(1), joint[0, :, 1:]
            reached_PI = word_PJI[:, j] * after[:, 1:]
            before = forward[j - 1].sum(0) if j else np.eye(1, words + 1).repeat(pairs, 0)
            self._count_jumps(before, jumps, reached_PI, posterior_PJN[:, j, 1:].sum(1) * real_PJ[:, j])
            earlier = reached_PI @ jumps.T + null_PJ1[:, j] * after
            after = np.where(real_PJ[:, j, None], earlier / earlier.max(1, keepdims=True), after)
        return posterior_PJN

    def _count_jumps(
        self, before_PN: np.ndarray, jumps: np.ndarray, reached_PI: np.ndarray, mass_P: np.ndarray
    ) -> None:
        """Add the expected counts of jumps to a target word: P(i', i) ~ before(i') p(i - i') reached(i).

        `mass_P` is the posterior probability that the word is not null.
        """
        total_P = np.einsum("pm,mi,pi->p", before_PN, jumps, reached_PI)
        share_P = mass_P / np.maximum(total_P, np.finfo(float).tiny)
        count_NI = jumps * (before_PN.T @ (reached_PI * share_P[:, None]))
        distance = np.arange(count_NI.shape[1]) - np.arange(-1, count_NI.shape[1])[:, None]
        places = self._longest + np.clip(distance, -self._longest, self._longest)
        self._count_D += np.bincount(places.ravel(), count_NI.ravel(), minlength=len(self._count_D))

    def learn(self) -> None:
        self._chance_D, self._count_D = self._count_D + FLOOR, np.zeros_like(self._count_D)


@dataclass(frozen=True)
class Batch:
    """Sentence pairs whose sources have the same length."""

    numbers_P: np.ndarray  # the index of each sentence pair in the text
    cell_PJN: np.ndarray  # the index of each pair of words in the table of t(f | e)
    real_PJ: np.ndarray  # False at padding


@final
class CountedAligner:
    """A model of t(f | e), and of the order of links, that is estimated on a parallel text."""

    def __init__(self, sources: Sentences, targets: Sentences, by: CountedName = "model-1", rounds: int = 10):
        self._source, self._target = _numbers(sources, first=NULL + 1), _numbers(targets, first=0)
        keys = {
            self._key(e, f)
            for source, target in zip(sources, targets, strict=True)
            for e, f in product((None, *source), target)
        }
        self._cells_C = np.array(sorted(keys), dtype=np.int64)
        # The last cell stands for all pairs of words that never occur in one sentence pair.
        self._chance_C = np.full(len(keys) + 1, 1 / max(1, len(self._target)))
        self._order: Order = AnyOrder()
        batches = list(self._batches(sources, targets))
        self._count(batches, rounds)
        if by == "hmm":  # the HMM's t(f | e) starts from Model 1's
            self._order = Jumps(max(map(len, sources), default=1))
            self._count(batches, rounds)

    def _count(self, batches: list[Batch], rounds: int) -> None:
        row_C = self._cells_C // max(1, len(self._target))
        for _ in range(rounds):
            count_C = np.zeros(len(self._chance_C))
            for batch in batches:  # the E step: expected counts
                share_PJN = (
                    self._order.posterior(self._chance_C[batch.cell_PJN], batch.real_PJ)
                    * batch.real_PJ[:, :, None]
                )
                count_C += np.bincount(batch.cell_PJN.ravel(), share_PJN.ravel(), minlength=len(count_C))
            total_C = np.bincount(row_C, count_C[:-1])[row_C]  # the M step: relative frequencies
            self._chance_C = np.append(np.maximum(count_C[:-1] / np.maximum(total_C, FLOOR), FLOOR), FLOOR)
            self._order.learn()

    def _key(self, source: str | None, target: str) -> int:
        number = NULL if source is None else self._source[source]
        return number * len(self._target) + self._target[target]

    def _batches(self, sources: Sentences, targets: Sentences) -> Iterator[Batch]:
        """Yield pairs of similar length together. A pair with an empty side has no links and is left out."""
        by_length = defaultdict(list)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if len(source) and len(target):
                by_length[len(source)].append(number)
        for words, numbers in sorted(by_length.items()):
            numbers = sorted(numbers, key=lambda number: len(targets[number]))
            size = max(1, BATCH // ((words + 1) * len(targets[numbers[-1]])))
            for start in range(0, len(numbers), size):
                yield self._batch(sources, targets, np.array(numbers[start : start + size]))

    def _batch(self, sources: Sentences, targets: Sentences, numbers_P: np.ndarray) -> Batch:
        longest = max(len(targets[number]) for number in numbers_P)
        e_PN = np.array(
            [[NULL, *(self._source.get(word, -1) for word in sources[number])] for number in numbers_P]
        )
        f_PJ = np.full((len(numbers_P), longest), -1)
        for row, number in enumerate(numbers_P):
            f_PJ[row, : len(targets[number])] = [self._target.get(word, -2) for word in targets[number]]
        key_PJN = e_PN[:, None, :] * len(self._target) + f_PJ[:, :, None]
        place_PJN = np.searchsorted(self._cells_C, key_PJN).clip(max=len(self._cells_C) - 1)
        known = (self._cells_C[place_PJN] == key_PJN) & (e_PN[:, None, :] >= 0) & (f_PJ[:, :, None] >= 0)
        return Batch(numbers_P, np.where(known, place_PJN, len(self._cells_C)), f_PJ != -1)

    def probability(self, source: str | None, target: str) -> float:
        """Return t(target | source). None as the source is the null word."""
        if (source is not None and source not in self._source) or target not in self._target:
            return FLOOR
        place = int(np.searchsorted(self._cells_C, key := self._key(source, target)))
        known = place < len(self._cells_C) and self._cells_C[place] == key
        return float(self._chance_C[place if known else -1])

    def align(self, sources: Sentences, targets: Sentences) -> list[Links]:
        """Link each target word to its likeliest source word, unless the null word is likelier."""
        links = [set[tuple[int, int]]() for _ in sources]
        for batch in self._batches(sources, targets):
            posterior_PJN = self._order.posterior(self._chance_C[batch.cell_PJN], batch.real_PJ)
            best_PJ = posterior_PJN[:, :, 1:].argmax(2)
            # The factor decides ties in favour of a source word.
            likelier_PJ = posterior_PJN[:, :, 1:].max(2) >= posterior_PJN[:, :, NULL] * (1 - 1e-9)
            for p, j in zip(*np.nonzero(batch.real_PJ & likelier_PJ), strict=True):
                links[batch.numbers_P[p]].add((int(best_PJ[p, j]), int(j)))
        return [frozenset(sentence) for sentence in links]


def count_links(
    sources: Sentences, targets: Sentences, by: CountedName = "model-1", symmetry: Symmetry | None = None
) -> list[Links]:
    """Return the links of a parallel text, by a model that is estimated on the same text.

    With `symmetry`, models of both directions are estimated, and their links are combined.
    """
    forward = CountedAligner(sources, targets, by).align(sources, targets)
    if symmetry is None:
        return forward
    backward = CountedAligner(targets, sources, by).align(targets, sources)
    return symmetrised(forward, backward, symmetry)


def _numbers(sentences: Sentences, first: int) -> dict[str, int]:
    """Number the distinct words of the sentences, from `first`."""
    return {
        word: number
        for number, word in enumerate(dict.fromkeys(word for words in sentences for word in words), first)
    }
