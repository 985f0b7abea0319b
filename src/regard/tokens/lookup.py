"""The places of integers in a table that does not change, by hashes: faster than a search in a sorted table.

Shape legend: G keys of the table, S slots of a level, N keys that are looked up, L keys that are not decided
yet, or have no slot yet, R keys that no level holds.
"""

from typing import final

import numpy as np

# Odd numbers: digits of the golden ratio and of the square roots of 2 and 3.
FACTORS = (0x9E3779B97F4A7C15, 0x6A09E667F3BCC909, 0xBB67AE8584CAA73B)
FREE = -1
AT_A_TIME = 1 << 20  # keys that are put into slots at a time


@final
class Lookup:
    """Hash tables in levels.

    A slot holds the place of one key. The home of a key is the highest bits of its product with an odd
    number (Knuth, The Art of Computer Programming, volume 3, section 6.4). Of several keys with one home, one
    stays, and the others go to the next level, which is smaller and has another odd number. The few keys
    without a slot in the last level are sorted.

    So thousands of keys are found in a few steps, where a search slot by slot takes many steps for the last
    of them. A level has 2 to 4 slots a key, and a slot 4 bytes: together 10 to 20 bytes a key. The keys stay
    where they are, for example in a mapped file.
    """

    def __init__(self, key_G: np.ndarray):
        """`key_G` are different 64-bit integers, in any order."""
        self._key_G = key_G.view(np.int64)
        self._levels = list[_Level]()
        place_L: np.ndarray = np.arange(len(key_G), dtype=np.int32 if len(key_G) < 1 << 31 else np.int64)
        for factor in FACTORS:
            level = _Level(factor, self._key_G, place_L)
            self._levels.append(level)
            place_L = level.without_slot(self._key_G, place_L)
        self._rest_R = place_L[self._key_G.take(place_L).argsort()]  # their places
        self._rest_key_R = self._key_G.take(self._rest_R)

    @property
    def bytes(self) -> int:
        """The size of the slots."""
        return sum(level.place_S.nbytes for level in self._levels)

    def find(self, key_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each key is in the table, and its place. The place has no meaning if it is not."""
        key_N = key_N.view(np.int64)
        if not len(self._key_G):
            return np.zeros(len(key_N), bool), np.zeros(len(key_N), np.int32)
        hit_N, place_N, left = self._in_level(self._levels[0], key_N)
        key_L = key_N.take(left)
        for level in self._levels[1:]:
            hit_L, place_L, going = self._in_level(level, key_L)
            hit_N[left], place_N[left] = hit_L, place_L
            left, key_L = left.take(going), key_L.take(going)
        if len(self._rest_R):
            rank_L = np.minimum(np.searchsorted(self._rest_key_R, key_L), len(self._rest_R) - 1)
            hit_N[left] = self._rest_key_R.take(rank_L) == key_L
            place_N[left] = self._rest_R.take(rank_L)
        return hit_N, place_N

    def _in_level(self, level: "_Level", key_L: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return whether a level holds each key, its place, and the indices of keys to ask further for."""
        place_L = level.place_S.take(level.home(key_L))
        # A free slot reads the last key, which is another one: all keys with this home have gone no further.
        hit_L = self._key_G.take(place_L) == key_L
        return hit_L, place_L, (hit_L < (place_L != FREE)).nonzero()[0]


@final
class _Level:
    def __init__(self, factor: int, key_G: np.ndarray, place_L: np.ndarray):
        bits = max(1, (2 * len(place_L) - 1).bit_length())
        self._factor, self._shift = np.uint64(factor), np.uint64(64 - bits)
        self.place_S = np.full(1 << bits, FREE, place_L.dtype)
        for part in _parts(place_L):
            self.place_S[self.home(key_G.take(part))] = part  # one of those with the same home stays

    def without_slot(self, key_G: np.ndarray, place_L: np.ndarray) -> np.ndarray:
        """Return those of the places that have no slot."""
        lost = [part[self.place_S.take(self.home(key_G.take(part))) != part] for part in _parts(place_L)]
        return np.concatenate([place_L[:0], *lost])

    def home(self, key_L: np.ndarray) -> np.ndarray:
        product_L = key_L.view(np.uint64) * self._factor
        product_L >>= self._shift
        return product_L.view(np.int64)


def _parts(place_L: np.ndarray) -> list[np.ndarray]:
    return [place_L[first : first + AT_A_TIME] for first in range(0, len(place_L), AT_A_TIME)]
