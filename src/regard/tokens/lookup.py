"""The places of integers in a table that does not change, by a hash: faster than a search in a sorted table.

Shape legend: G keys of the table, S slots, N keys that are looked up, L keys that are not decided yet.
"""

from typing import final

import numpy as np

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
FREE = -1
AT_A_TIME = 1 << 20  # keys that are put into slots at a time


@final
class Lookup:
    """A hash table with linear probing (Knuth, The Art of Computer Programming, volume 3, section 6.4).

    A slot holds the place of a key, and a key lies in the first free slot from its home on. The home of a
    key is the highest bits of its product with an odd number. Between a quarter and a half of the slots are
    filled. A table of fewer than 2^31 keys has 4 bytes a slot, thus 8 to 16 bytes a key; the keys stay where
    they are, for example in a mapped file.
    """

    def __init__(self, key_G: np.ndarray):
        """`key_G` are different 64-bit integers, in any order."""
        self._key_G = key_G.view(np.int64)
        bits = max(1, (2 * len(key_G) - 1).bit_length())
        self._shift, self._last = np.uint64(64 - bits), (1 << bits) - 1
        dtype: type[np.signedinteger] = np.int32 if len(key_G) < 1 << 31 else np.int64
        self._place_S: np.ndarray = np.full(1 << bits, FREE, dtype)
        for first in range(0, len(key_G), AT_A_TIME):
            self._insert(np.arange(first, min(first + AT_A_TIME, len(key_G)), dtype=dtype))

    @property
    def bytes(self) -> int:
        """The size of the slots."""
        return self._place_S.nbytes

    def _insert(self, place_L: np.ndarray) -> None:
        slot_L = self._home(self._key_G[place_L[0] : place_L[-1] + 1])
        while len(place_L):
            free = np.flatnonzero(self._place_S.take(slot_L) == FREE)
            self._place_S[slot_L.take(free)] = place_L.take(free)  # one of those with the same slot stays
            lost = np.flatnonzero(self._place_S.take(slot_L) != place_L)
            place_L, slot_L = place_L.take(lost), self._next(slot_L.take(lost))

    def find(self, key_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each key is in the table, and its place. The place has no meaning if it is not."""
        if not len(self._key_G):
            return np.zeros(len(key_N), bool), np.zeros(len(key_N), self._place_S.dtype)
        key_N = key_N.view(np.int64)
        slot_N = self._home(key_N)
        place_N = self._place_S.take(slot_N)
        # The place -1 of a free slot reads the last key, which cannot be the one that is looked up: a key of
        # the table is found before a free slot.
        hit_N = self._key_G.take(place_N) == key_N
        left = np.flatnonzero(hit_N < (place_N != FREE))  # another key lies in the slot
        slot_L, key_L = slot_N.take(left), key_N.take(left)
        while len(left):
            slot_L = self._next(slot_L)
            place_L = self._place_S.take(slot_L)
            hit_L = self._key_G.take(place_L) == key_L
            found = np.flatnonzero(hit_L)
            hit_N[left.take(found)] = True
            place_N[left.take(found)] = place_L.take(found)
            going = np.flatnonzero(hit_L < (place_L != FREE))
            left, slot_L, key_L = left.take(going), slot_L.take(going), key_L.take(going)
        return hit_N, place_N

    def _home(self, key_N: np.ndarray) -> np.ndarray:
        product_N = key_N.view(np.uint64) * ODD
        product_N >>= self._shift
        return product_N.view(np.int64)

    def _next(self, slot_L: np.ndarray) -> np.ndarray:
        return (slot_L + 1) & self._last
