"""Counting n-grams within a memory budget. The result is that of `ngram_counts.count`, in files.

A window is the n-gram of the highest order that begins at a position of the text, cut at the end of its
document. Sorted windows give the tables of all orders in one pass: the n-grams of order k are the beginnings
of k words, in the order of their keys, and a node is the number of different beginnings before.

A word of a window is a symbol: 0 after the end of the document, otherwise 1 + its id. As many symbols as fit
are packed into each 64-bit column, the first one on top, so that columns sort as the words do.

Shape legend: N tokens of the text, M positions of a piece of the text with start marks, R rows (windows of a
piece), G n-grams of one order in a piece.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from regard.machine.columns import Column
from regard.machine.sorting import Rows
from regard.tokens.contract import Encoded


@dataclass(frozen=True)
class Packing:
    """The places of the symbols of a window in its columns."""

    vocabulary_size: int
    order: int

    @property
    def bits(self) -> int:
        """Bits of a symbol: of the start mark, the largest."""
        return (self.vocabulary_size + 1).bit_length()

    @property
    def in_column(self) -> int:
        """Symbols of a column, which is never negative."""
        return 63 // self.bits

    @property
    def columns(self) -> int:
        return -(-self.order // self.in_column)

    def place(self, k: int) -> tuple[int, int]:
        """Return the column of the symbol k, counted from 0, and by how many bits it is shifted there."""
        column, within = divmod(k, self.in_column)
        return column, self.bits * (self.in_column - 1 - within)


def windows(text: Encoded, packing: Packing, size: int) -> Iterator[Rows]:
    """Yield the windows of a text, of about `size` positions at a time."""
    start, order = packing.vocabulary_size, packing.order
    for first in range(0, len(text), size):
        last = min(first + size, len(text))
        rows = last - first + len(_begins(text, first, last))
        word_M = _marked(text, first, min(last + order - 1, len(text)), start)
        word_M = torch.cat([word_M, word_M.new_full((order,), start)])  # the text ends there
        columns = torch.zeros(packing.columns, rows, dtype=torch.long)
        inside_R = torch.ones(rows, dtype=torch.bool)
        for k in range(order):
            word_R = word_M[k : k + rows]
            if k:
                inside_R &= word_R != start  # the next document begins with its start mark
            column, shift = packing.place(k)
            columns[column] |= ((word_R + 1) << shift).mul_(inside_R)
        text.release()
        yield list(columns.numpy())


def _begins(text: Encoded, first: int, last: int) -> Tensor:
    """Return the tokens, counted from `first`, at which documents begin."""
    ends = torch.searchsorted(text.ends_D, torch.tensor([first, last])).tolist()
    begins = text.ends_D[slice(*ends)] - first
    return torch.cat([begins.new_zeros(1), begins]) if first == 0 else begins


def _marked(text: Encoded, first: int, last: int, start: int) -> Tensor:
    """(M): tokens of the text, with the start mark before each document that begins there."""
    begins = _begins(text, first, last)
    word_M = torch.empty(last - first + len(begins), dtype=torch.long)
    is_mark_M = torch.zeros(len(word_M), dtype=torch.bool)
    is_mark_M[begins + torch.arange(len(begins))] = True
    word_M[is_mark_M] = start
    word_M[~is_mark_M] = text.ids_N[first:last].long()
    return word_M


@final
class SpilledCounts:
    """The n-grams of one order from 2, as `Counts`, in files. The nodes of suffixes come later."""

    def __init__(self, folder: Path, order: int, number: torch.dtype):
        self.key = Column(folder / f"key_{order}", torch.long)
        self.count = Column(folder / f"count_{order}", number)
        self._last = torch.zeros(1, dtype=torch.long)  # the count of the last n-gram, which may grow

    def append(self, key_G: Tensor, count_G: Tensor) -> None:
        """Write new n-grams. The first count is one of the last n-gram before, and has no key."""
        count_G[0] += self._last[0]
        self.count.append(count_G[:-1] if len(self.key) else count_G[1:-1])
        self.key.append(key_G)
        self._last = count_G[-1:].clone()

    def finish(self) -> None:
        if len(self.key):
            self.count.append(self._last)


def write_counts(
    sorted_rows: Iterable[Rows], packing: Packing, folder: Path, number: torch.dtype
) -> tuple[Tensor, list[SpilledCounts]]:
    """Count the words, and the n-grams of every order from 2. `number` is the type of a count."""
    size, order = packing.vocabulary_size, packing.order
    words = torch.zeros(size + 1, dtype=torch.long)
    tables = [SpilledCounts(folder, k, number) for k in range(2, order + 1)]
    last = [0] * order  # the symbols of the last row
    for rows in sorted_rows:
        changed_R = torch.zeros(len(rows[0]), dtype=torch.bool)
        node_R = torch.empty(0, dtype=torch.long)
        for k in range(order):
            column, shift = packing.place(k)
            symbol_R = (torch.from_numpy(rows[column]) >> shift) & ((1 << packing.bits) - 1)
            changed_R[0] |= symbol_R[0] != last[k]
            changed_R[1:] |= symbol_R[1:] != symbol_R[:-1]
            last[k] = int(symbol_R[-1])
            word_R = symbol_R - 1
            if k == 0:
                words += torch.bincount(word_R, minlength=size + 1)
                node_R = word_R
            else:
                node_R = _count_order(tables[k - 1], node_R, word_R, changed_R, size)
    for table in tables:
        table.finish()
    words[size] = 0  # the start mark is never predicted
    return words, tables


def _count_order(
    table: SpilledCounts, context_R: Tensor, word_R: Tensor, changed_R: Tensor, vocabulary_size: int
) -> Tensor:
    """Count the n-grams of one order in a piece. Return the node of each row's n-gram.

    The word is -1 in rows that end before, and their nodes are of no use.
    """
    inside_R = word_R >= 0
    new_R = changed_R & inside_R
    place_R = torch.cumsum(new_R, 0)  # 0: still the n-gram of the last row before
    known = len(table.key)
    key_G = (context_R * vocabulary_size + word_R)[new_R]
    table.append(key_G, torch.bincount(place_R[inside_R], minlength=len(key_G) + 1))
    return place_R.add_(known - 1)
