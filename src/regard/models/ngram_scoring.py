"""The probabilities of all tokens of a text under an n-gram model, without rows.

The n-grams of each order that end at a token are found for many tokens at once. An n-gram of order k can only
be in the table if its context, the n-gram of order k-1 that ends at the token before, is there. The numbers
of the model lie in memory with hash tables, or in a file. `Ngram.forward` and `NgramPrediction.nll`, with a
search in the sorted keys, are the specification: the results are equal to the bit.

Shape legend: N tokens of a chunk, A tokens whose context of an order was counted, H tokens whose n-gram of
an order was counted, G n-grams of an order, M places of a lookup.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from regard.machine.columns import tensor_columns
from regard.tokens.contract import Encoded
from regard.tokens.lookup import Lookup

BYTES = 20  # of an n-gram in the hash tables, at most
CHUNK = 1 << 15  # tokens: the arrays stay in the processor's cache, and malloc keeps their memory


class Tables(ABC):
    """The numbers of a model, by the names of its tensors."""

    chunk: int  # tokens that are scored at a time

    @abstractmethod
    def take(self, name: str, place_M: np.ndarray) -> np.ndarray:
        """Return the numbers of a tensor at some places."""

    @abstractmethod
    def find(self, order: int, key_M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each n-gram of an order was counted, and its node, which has no meaning if not."""


@final
class TablesInMemory(Tables):
    """Arrays, and hash tables of the keys of each order from 2."""

    def __init__(self, arrays: Mapping[str, np.ndarray], lookups: Mapping[int, Lookup]):
        self._arrays, self._lookups, self.chunk = arrays, lookups, CHUNK

    def take(self, name: str, place_M: np.ndarray) -> np.ndarray:
        return self._arrays[name].take(place_M)

    def find(self, order: int, key_M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._lookups[order].find(key_M)


@final
class TablesInFile(Tables):
    """A safetensors file, which is read in order: memory holds `size` numbers of a tensor at a time."""

    def __init__(self, file: Path, size: int):
        self._tensors, self.chunk = tensor_columns(file), size

    def take(self, name: str, place_M: np.ndarray) -> np.ndarray:
        return self._tensors[name].take(torch.from_numpy(place_M), self.chunk).numpy()

    def find(self, order: int, key_M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        node_M = self._tensors[f"key_{order}"].find(torch.from_numpy(key_M), self.chunk).numpy()
        return node_M >= 0, node_M


@final
class TextScorer:
    """Looks up the n-grams of texts."""

    def __init__(self, vocabulary_size: int, order: int, tables: Tables):
        self._size, self._order, self._tables = vocabulary_size, order, tables

    def losses(self, text: Encoded) -> Iterator[Tensor]:
        """Yield -log P of the tokens of a text."""
        end_D = text.ends_D.numpy()
        for first in range(0, len(text), self._tables.chunk):
            last = min(first + self._tables.chunk, len(text))
            begin = max(0, first - self._order + 1)  # the first token's n-grams begin here
            read_N = text.ids_N[max(0, begin - 1) : last].numpy().astype(np.int64)
            inside_D = end_D[slice(*np.searchsorted(end_D, [begin, last]))]
            if begin == 0:  # the text begins with a document
                read_N, inside_D = np.append(self._size, read_N), np.append(0, inside_D)
            text.release()
            log_prob_N = self._log_probs(read_N[1:], read_N[:-1].copy(), inside_D - begin)
            yield torch.from_numpy(-log_prob_N[first - begin :].astype(np.float64))

    def _log_probs(self, word_N: np.ndarray, before_N: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return log P of tokens after the tokens before them. New documents begin at `starts`."""
        before_N[starts] = self._size  # the start mark
        log_prob_N = self._tables.take("log_prob_1", word_N)
        new_N = np.zeros(len(word_N) + 1, bool)
        new_N[starts] = new_N[-1] = True
        place_A: slice | np.ndarray = slice(None)
        node_A = before_N  # all tokens have a context of one token
        for order in range(2, self._order + 1):
            log_prob_N[place_A] += self._tables.take(f"backoff_{order - 1}", node_A)
            hit_A, node_A = self._tables.find(order, node_A * self._size + word_N[place_A])
            hits = hit_A.nonzero()[0]
            place_H = hits if isinstance(place_A, slice) else place_A.take(hits)
            node_H = node_A.take(hits).astype(np.int64)
            log_prob_N[place_H] = self._tables.take(f"log_prob_{order}", node_H)
            next_H = place_H + 1  # these n-grams are contexts, unless the document ends
            inside = (~new_N.take(next_H)).nonzero()[0]
            place_A, node_A = next_H.take(inside), node_H.take(inside)
        return log_prob_N
