"""The ids of the words of a text, without a Python object for each word.

A word is a path of pieces: its first 8 bytes, then 4 bytes at a time, the last piece filled up with zeros.
Each node of the path is one integer, as an n-gram is (models/ngram_counts.py):

    key of a first piece = the piece
    key of a later piece = node of the pieces before it x 2^32 + the piece

Two hash tables find the nodes. A word of at most 8 bytes, as most words are, takes one step. The few words of
more than LONGEST bytes lie in a dict.

Shape legend: W words, L words that have a further piece, G nodes.
"""

from collections.abc import Iterator, Sequence
from typing import final

import numpy as np

from regard.tokens.lookup import Lookup

FIRST, LATER, LONGEST = 8, 4, 16  # bytes of a piece, and of a path
CHUNK = (
    1 << 17
)  # bytes whose words are looked up at a time, for the same reason as in models/ngram_scoring.py
PAD = b" " * 16  # follows a text, so that eight bytes can be read everywhere
BITS_OF_BYTES = np.array([(1 << 8 * size) - 1 for size in range(FIRST + 1)], np.uint64)


@final
class WordTable:
    """The ids of a closed vocabulary."""

    def __init__(self, words: Sequence[bytes], ids: np.ndarray, unknown: int):
        """`ids` are the ids of `words`, which are different and hold no white space."""
        self._unknown = unknown
        self._long = {
            word: number for word, number in zip(words, ids.tolist(), strict=True) if len(word) > LONGEST
        }
        bytes_ = _as_array(b"".join(words))
        length_W = np.fromiter(map(len, words), np.int64, len(words))
        place_W = 1 + length_W.cumsum() - length_W
        short = (length_W <= LONGEST).nonzero()[0]
        ids, length_W, place_W = ids[short], length_W[short], place_W[short]
        key_G, node_W = _distinct(_pieces(bytes_, place_W, length_W, FIRST))
        self._first, self._first_nodes = Lookup(key_G), len(key_G)
        keys, id_G = [key_G[:0]], [_at_nodes(node_W, ids, length_W <= FIRST, unknown)]
        nodes = len(key_G)
        for read in range(FIRST, LONGEST, LATER):
            left = (length_W > read).nonzero()[0]
            piece_L = _pieces(bytes_, place_W[left] + read, length_W[left] - read, LATER)
            key_G, node_L = _distinct(_later_keys(node_W[left], piece_L))
            keys.append(key_G)
            id_G.append(_at_nodes(node_L, ids[left], length_W[left] <= read + LATER, unknown))
            node_W[left] = nodes + node_L
            nodes += len(key_G)
        self._later = Lookup(np.concatenate(keys))
        self._id_G = np.concatenate([*id_G, [unknown]]).astype(np.int32)

    def ids(self, text: bytes, line: bytes) -> np.ndarray:
        """Return the id of each word between ASCII white space. `line` is the word for a newline."""
        chunks = (chunk.replace(b"\n", b" " + line + b" ") for chunk in _chunks(text))
        return np.concatenate([np.empty(0, np.int32), *map(self._ids, chunks)])

    def _ids(self, text: bytes) -> np.ndarray:
        bytes_ = _as_array(text)
        edges = _edges(bytes_)
        place_W = edges[::2].copy()
        length_W = edges[1::2] - place_W
        hit_W, node_W = self._first.find(_pieces(bytes_, place_W, length_W, FIRST))
        id_W = self._id_G.take(node_W)
        id_W[(~hit_W).nonzero()[0]] = self._unknown
        left = (hit_W & (length_W > FIRST)).nonzero()[0]
        node_L = node_W.take(left).astype(np.int64)
        place_L, length_L = place_W.take(left), length_W.take(left)
        for read in range(FIRST, LONGEST, LATER):
            piece_L = _pieces(bytes_, place_L + read, length_L - read, LATER)
            hit_L, node_L = self._later.find(_later_keys(node_L, piece_L))
            node_L = node_L + np.int64(self._first_nodes)
            id_W[left] = np.where(hit_L, self._id_G.take(node_L), self._unknown)
            going = (hit_L & (length_L > read + LATER)).nonzero()[0]
            left, node_L = left.take(going), node_L.take(going)
            place_L, length_L = place_L.take(going), length_L.take(going)
        long = (length_W > LONGEST).nonzero()[0]
        places = zip((place_W[long] - 1).tolist(), length_W[long].tolist(), strict=True)
        id_W[long] = [self._long.get(text[place : place + length], self._unknown) for place, length in places]
        return id_W


def _chunks(text: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(text):
        space = text.find(b" ", start + CHUNK)
        end = len(text) if space < 0 else space
        yield text[start:end]
        start = end


def _as_array(text: bytes) -> np.ndarray:
    """The bytes of a text after a space and before spaces, a multiple of eight bytes."""
    return np.frombuffer(b"".join((b" ", text, PAD, b" " * ((-len(text) - 1) % 8))), np.uint8)


def _edges(bytes_: np.ndarray) -> np.ndarray:
    """Return the first place of each word and the place after it, in turn."""
    blank = (bytes_ - np.uint8(9)) < 5  # tab, newline, vertical tab, form feed, carriage return
    blank |= bytes_ == 32
    edges = np.flatnonzero(blank[1:] != blank[:-1])
    edges += 1
    return edges


def _pieces(bytes_: np.ndarray, place_W: np.ndarray, length_W: np.ndarray, size: int) -> np.ndarray:
    """Return the bytes of words from their places on, at most `size` of them, as integers."""
    eights = bytes_.view("<u8")
    aligned_W = place_W >> 3
    bits_W = ((place_W & 7) << 3).view(np.uint64)
    piece_W = eights.take(aligned_W)
    piece_W >>= bits_W
    aligned_W += 1
    next_W = eights.take(aligned_W)
    next_W <<= np.uint64(64) - bits_W  # a shift of 64 bits gives 0
    piece_W |= next_W
    piece_W &= BITS_OF_BYTES.take(np.minimum(length_W, size))
    return piece_W


def _later_keys(node_L: np.ndarray, piece_L: np.ndarray) -> np.ndarray:
    return node_L.astype(np.uint64) << np.uint64(32) | piece_L


def _distinct(key_W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys in the order of the words, and the place of each word's key among them.

    Frequent words come first in most vocabularies. Their nodes are then together in the processor's cache.
    """
    key_G, first_G, node_W = np.unique(key_W, return_index=True, return_inverse=True)
    order_G = first_G.argsort()
    rank_G = np.empty_like(order_G)
    rank_G[order_G] = np.arange(len(order_G))
    return key_G[order_G], rank_G[node_W]


def _at_nodes(node_W: np.ndarray, ids: np.ndarray, ends_W: np.ndarray, unknown: int) -> np.ndarray:
    """Return the id of the word that ends at each node, or the unknown id."""
    id_G = np.full(node_W.max(initial=-1) + 1, unknown, np.int64)
    id_G[node_W[ends_W]] = ids[ends_W]
    return id_G
