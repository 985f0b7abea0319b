"""Counting n-grams: one integer sort an order.

An n-gram of order k is known by its node: its place among the sorted keys of order k, where

    key = node of its first k-1 words x V + its last word.

So every n-gram is one 64-bit integer, whatever its order, and the n-grams that continue a context lie side by side. The node of a
single word is its id; the start mark is word V, a context that is never counted.

Shape legend: N positions of the text with a start mark before each document, G n-grams of one order.
"""

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.machine.memory import release_freed_memory
from regard.tokens.contract import Encoded


@dataclass(frozen=True)
class Counts:
    """The n-grams of one order."""

    key_G: Tensor  # sorted; for single words, the id
    count_G: Tensor  # how often each stands in the text
    suffix_G: (
        Tensor  # node of the n-gram without its first word, one order below; 0, the empty one, for words
    )


def count(text: Encoded, vocabulary_size: int, order: int) -> deque[Counts]:
    """Counts of every order from 1 to `order`, no n-gram crossing a document's end."""
    word_N, place_N = _with_starts(text, vocabulary_size)
    words = torch.bincount(word_N, minlength=vocabulary_size + 1)
    words[vocabulary_size] = 0  # the start mark is given, never predicted
    tables = deque([Counts(torch.arange(vocabulary_size + 1), words.int(), torch.zeros_like(words))])
    node_N = word_N
    for k in range(2, order + 1):
        end_M = (place_N >= k - 1).nonzero()[:, 0].int()  # where an n-gram of order k ends
        key_M, sorted_M = torch.sort(node_N[end_M - 1].long().mul_(vocabulary_size).add_(word_N[end_M]))
        end_M = end_M[sorted_M]
        del sorted_M
        new_M = torch.ones(len(key_M), dtype=torch.bool)
        new_M[1:] = key_M[1:] != key_M[:-1]
        first_G = new_M.nonzero()[:, 0].int()
        many_G = torch.diff(first_G, append=first_G.new_tensor([len(key_M)]))
        tables.append(Counts(key_M[first_G], many_G, node_N[end_M[first_G]]))
        del key_M, first_G, many_G
        release_freed_memory()
        node_N = torch.full_like(word_N, -1)
        node_N[end_M] = torch.cumsum(new_M, 0, dtype=torch.int32).sub_(1)
    return tables


def _with_starts(text: Encoded, start: int) -> tuple[Tensor, Tensor]:
    """Each position's word and its place in its document (0 is the start mark)."""
    starts_D = text.starts_D
    lengths_D = text.ends_D - starts_D + 1
    marks_D = starts_D + torch.arange(len(starts_D))  # where the start marks stand
    word_N = torch.empty(len(text) + len(starts_D), dtype=torch.int32)
    is_mark_N = torch.zeros(len(word_N), dtype=torch.bool)
    is_mark_N[marks_D] = True
    word_N[is_mark_N] = start
    word_N[~is_mark_N] = text.ids_N
    place_N = torch.arange(len(word_N), dtype=torch.int32) - torch.repeat_interleave(marks_D.int(), lengths_D)
    return word_N, place_N
