"""Counting n-grams, with one integer sort for each order.

The n-grams of order k are numbered by their place among the sorted keys of order k. This number is the node
of an n-gram. The key of an n-gram is

    key = node of its first k-1 words x V + its last word.

Every n-gram of any order is therefore a single 64-bit integer, and the n-grams that continue a context are
adjacent. The node of a single word is its id. The start mark is word V: it is part of contexts, but is never
counted as a prediction.

Shape legend: N positions of the text with a start mark before each document, M n-grams of one order in the
text (with repeats), G different n-grams of one order, D documents.
"""

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.machine.memory import check_memory, release_freed_memory
from regard.tokens.contract import Encoded

LONG = 16  # an order above which nearly every n-gram occurs once


@dataclass(frozen=True)
class Counts:
    """The n-grams of one order."""

    key_G: Tensor  # sorted; the key of a single word is its id
    count_G: Tensor  # the number of occurrences in the text
    suffix_G: Tensor  # the node, one order below, of the n-gram without its first word; 0 for single words


def count(text: Encoded, vocabulary_size: int, order: int) -> deque[Counts]:
    """Count the n-grams of every order from 1 to `order`. No n-gram crosses the end of a document."""
    _check_order(text, order)
    word_N, place_N = _with_starts(text, vocabulary_size)
    words = torch.bincount(word_N, minlength=vocabulary_size + 1)
    words[vocabulary_size] = 0  # the start mark is never predicted
    tables = deque([Counts(torch.arange(vocabulary_size + 1), words.int(), torch.zeros_like(words))])
    node_N = word_N
    for k in range(2, order + 1):
        end_M = (place_N >= k - 1).nonzero()[:, 0].int()  # the positions at which n-grams of order k end
        key_M, sorted_M = torch.sort(node_N[end_M - 1].long().mul_(vocabulary_size).add_(word_N[end_M]))
        end_M = end_M[sorted_M]
        del sorted_M
        new_M = torch.ones(len(key_M), dtype=torch.bool)
        new_M[1:] = key_M[1:] != key_M[:-1]
        first_G = new_M.nonzero()[:, 0].int()
        count_G = torch.diff(first_G, append=first_G.new_tensor([len(key_M)]))
        tables.append(Counts(key_M[first_G], count_G, node_N[end_M[first_G]]))
        del key_M, first_G, count_G
        release_freed_memory()
        node_N = torch.full_like(word_N, -1)
        node_N[end_M] = torch.cumsum(new_M, 0, dtype=torch.int32).sub_(1)
    return tables


def _check_order(text: Encoded, order: int) -> None:
    """Refuse an order whose n-grams the memory cannot hold, with a figure."""
    # Beyond order 16 nearly all n-grams of a text are different: 16 bytes each, a key and two numbers.
    check_memory(16 * len(text) * max(0, order - LONG), f"`order` {order}")


def _with_starts(text: Encoded, start: int) -> tuple[Tensor, Tensor]:
    """Return the word at each position, and its place in its document (place 0 is the start mark)."""
    starts_D = text.starts_D
    lengths_D = text.ends_D - starts_D + 1
    marks_D = starts_D + torch.arange(len(starts_D))  # the positions of the start marks
    word_N = torch.empty(len(text) + len(starts_D), dtype=torch.int32)
    is_mark_N = torch.zeros(len(word_N), dtype=torch.bool)
    is_mark_N[marks_D] = True
    word_N[is_mark_N] = start
    word_N[~is_mark_N] = text.ids_N.int()
    place_N = torch.arange(len(word_N), dtype=torch.int32) - torch.repeat_interleave(marks_D.int(), lengths_D)
    return word_N, place_N
