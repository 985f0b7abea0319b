"""Writes a text of any size whose words and n-grams keep growing, as those of real text do.

Words are sampled from a model of order 3: the successors of each pair of words of the built-in text, or of
another text (a longer one has more successors, and so more different n-grams of higher orders). One word
in FRESH is replaced by a word of an endless vocabulary, whose ranks follow a Zipf law. After n words, the
number of different new words has the order of n ** (1 / EXPONENT). The same seed gives the same text.

    python bench/growing_text.py --megabytes 2000 --out /tmp/growing.txt
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.text.builtin import built_in_text

FRESH = 40  # one word in so many comes from the endless vocabulary
EXPONENT = 1.35
SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]
CHAINS, STEPS = 256, 2048  # texts that are sampled at once, and the words of each


class Model:
    """The successors of pairs of words. The text is a ring, so that each pair has a successor."""

    def __init__(self, text: str):
        words = text.replace("\n", " \n ").split(" ")
        words = [word for word in words if word]
        self.words = sorted(set(words))
        number = {word: place for place, word in enumerate(self.words)}
        first = np.array([number[word] for word in words])
        pair = first * len(self.words) + np.roll(first, -1)
        order = np.argsort(pair, kind="stable")
        distinct, self.offset, self.count = np.unique(pair[order], return_index=True, return_counts=True)
        self.word = np.roll(first, -2)[order]  # the third word of each occurrence of a pair
        self.next = np.searchsorted(distinct, np.roll(pair, -1)[order])

    def sample(self, random: np.random.Generator) -> np.ndarray:
        """(CHAINS, STEPS): numbers of words."""
        state = random.integers(0, len(self.offset), CHAINS)
        drawn = np.empty((CHAINS, STEPS), dtype=np.int64)
        for step in range(STEPS):
            entry = self.offset[state] + (random.random(CHAINS) * self.count[state]).astype(np.int64)
            drawn[:, step], state = self.word[entry], self.next[entry]
        return drawn


def new_word(rank: int) -> str:
    """The word of a rank: frequent words are short."""
    spelled = ""
    while rank or not spelled:
        rank, syllable = divmod(rank, len(SYLLABLES))
        spelled += SYLLABLES[syllable]
    return spelled + "q"  # no word of the built-in text ends like this


def blocks(seed: int, like: Path | None = None) -> Iterator[str]:
    """Yield blocks of text without end, some three megabytes each."""
    model, number = Model(built_in_text().text if like is None else like.read_text()), 0
    names = np.array(model.words, dtype=object)
    while True:
        random = np.random.default_rng([seed, number])
        drawn = names[model.sample(random)]
        fresh = (random.random(drawn.shape) < 1 / FRESH) & (drawn != "\n")
        ranks = random.zipf(EXPONENT, int(fresh.sum())).clip(max=2**40)
        drawn[fresh] = [new_word(rank) for rank in ranks.tolist()]
        yield "".join(" ".join(chain) + "\n" for chain in drawn.tolist()).replace(" \n ", "\n")
        number += 1


def write(path: Path, size: int, seed: int = 1, like: Path | None = None) -> None:
    """Write a text of `size` bytes, rounded down to a whole character."""
    with path.open("wb") as file:
        for block in blocks(seed, like):
            data = block.encode()[: size - file.tell()]
            file.write(data.decode(errors="ignore").encode())
            if len(data) < len(block.encode()) or file.tell() >= size:
                return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--like", type=Path, help="the text whose pairs of words are sampled")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    write(chosen.out, int(chosen.megabytes * 1e6), chosen.seed, chosen.like)
