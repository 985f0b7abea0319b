"""The probabilities of all tokens of a text under an n-gram model, by hash tables and without rows.

The n-grams of each order that end at a token are found for thousands of tokens at once. An n-gram of order k
can only be in the table if its context, the n-gram of order k-1 that ends at the token before, is there.
`Ngram.forward` and `NgramPrediction.nll`, with a search in the sorted keys, are the specification: the
results are equal to the bit.

Shape legend: N tokens of a chunk, A tokens whose context of an order was counted, H tokens whose n-gram of
an order was counted, G n-grams of an order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from regard.tokens.contract import Encoded
from regard.tokens.lookup import Lookup

BYTES = 20  # of an n-gram in the hash tables, at most
CHUNK = (
    1 << 15
)  # tokens that are scored at a time: the arrays stay in the cache, and malloc keeps their memory


@dataclass(frozen=True)
class Order:
    """The n-grams of one order, as they lie in the model."""

    log_prob_G: np.ndarray
    backoff_G: np.ndarray | None  # None in the highest order


@final
class TextScorer:
    """Hash tables of the n-grams of a model, made from its sorted keys."""

    def __init__(self, vocabulary_size: int, keys: Sequence[np.ndarray]):
        """`keys` are the keys of the orders from 2."""
        self._size = vocabulary_size
        self._lookups = [Lookup(key_G) for key_G in keys]

    @property
    def bytes(self) -> int:
        """The size of the hash tables."""
        return sum(lookup.bytes for lookup in self._lookups)

    def losses(self, text: Encoded, orders: Sequence[Order]) -> Iterator[Tensor]:
        """Yield -log P of the tokens of a text. `orders` are those from 1."""
        end_D = text.ends_D.numpy()
        for first in range(0, len(text), CHUNK):
            last = min(first + CHUNK, len(text))
            begin = max(0, first - len(orders) + 1)  # the first token's n-grams begin here
            read_N = text.ids_N[max(0, begin - 1) : last].numpy().astype(np.int64)
            inside_D = end_D[slice(*np.searchsorted(end_D, [begin, last]))]
            if begin == 0:  # the text begins with a document
                read_N, inside_D = np.append(self._size, read_N), np.append(0, inside_D)
            log_prob_N = self._log_probs(read_N[1:], read_N[:-1].copy(), inside_D - begin, orders)
            text.release()
            yield torch.from_numpy(-log_prob_N[first - begin :].astype(np.float64))

    def _log_probs(
        self, word_N: np.ndarray, before_N: np.ndarray, starts: np.ndarray, orders: Sequence[Order]
    ) -> np.ndarray:
        """Return log P of tokens after the tokens before them. New documents begin at `starts`."""
        before_N[starts] = self._size  # the start mark
        log_prob_N = orders[0].log_prob_G.take(word_N)
        new_N = np.zeros(len(word_N) + 1, bool)
        new_N[starts] = new_N[-1] = True
        place_A: slice | np.ndarray = slice(None)
        node_A = before_N  # all tokens have a context of one token
        for lookup, below, order in zip(self._lookups, orders, orders[1:], strict=False):
            assert below.backoff_G is not None
            log_prob_N[place_A] += below.backoff_G.take(node_A)
            hit_A, node_A = lookup.find(node_A * self._size + word_N[place_A])
            hits = hit_A.nonzero()[0]
            place_H = hits if isinstance(place_A, slice) else place_A.take(hits)
            node_H = node_A.take(hits).astype(np.int64)
            log_prob_N[place_H] = order.log_prob_G.take(node_H)
            next_H = place_H + 1  # these n-grams are contexts, unless the document ends
            inside = (~new_N.take(next_H)).nonzero()[0]
            place_A, node_A = next_H.take(inside), node_H.take(inside)
        return log_prob_N
