"""Encoded texts as whole rows, for models that read whole rows, and batches of rows with similar lengths.

Shape legend: B rows, T positions, N tokens of all texts, P texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import encode_lines
from regard.tokens.schedule import epoch_generator

POOL = 32  # texts are sorted by length within a pool of this many batches


@dataclass(frozen=True)
class EncodedRows:
    """Texts as rows: the first `length_P` tokens of each document, without its end token."""

    text: Encoded
    length_P: Tensor
    cut: int  # the number of texts whose last tokens are left out

    def __len__(self) -> int:
        return len(self.length_P)

    @property
    def tokens(self) -> int:
        """The number of tokens of all rows."""
        return int(self.length_P.sum())

    @property
    def unknown(self) -> int:
        """The number of unknown tokens in the texts."""
        return self.text.unknown

    def rows(self, places_B: Tensor, padding: int) -> Tensor:
        """(B, T): the texts at these places, padded on the right."""
        length_B1 = self.length_P[places_B].unsqueeze(1)
        offset_T = torch.arange(max(1, int(length_B1.max())))
        place_BT = (self.text.starts_D[places_B].unsqueeze(1) + offset_T).clamp(max=len(self.text) - 1)
        return torch.where(offset_T < length_B1, self.text.ids_N[place_BT].long(), padding)

    def batches(self, tokens: int) -> Iterator[Tensor]:
        """Yield batches of texts of similar length, as indices, for measuring.

        Every text is in one batch. A batch has at most `tokens` tokens, padding included, or one text.
        """
        order_P = self.length_P.argsort(descending=True, stable=True)
        first = 0
        while first < len(order_P):
            rows = max(1, tokens // max(1, int(self.length_P[order_P[first]])))
            yield order_P[first : first + rows]
            first += rows

    def shuffled(self, rows: int, seed: int, epoch: int) -> list[Tensor]:
        """Return the batches of a training epoch, as indices: a function of seed and epoch.

        Texts are shuffled, then sorted by length within pools, so that batches need little padding.
        """
        generator = epoch_generator(seed, epoch)
        order_P = torch.randperm(len(self), generator=generator)
        pools = (pool[self.length_P[pool].argsort(stable=True)] for pool in order_P.split(POOL * rows))
        batches = [batch for pool in pools for batch in pool.split(rows)]
        return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def encode_rows(tokenizer: Tokenizer, texts: Sequence[str], longest: int | None) -> EncodedRows:
    """Encode texts as rows of at most `longest` tokens."""
    text = encode_lines(tokenizer, list(texts))
    whole_P = text.lengths_D - 1
    length_P = whole_P if longest is None else whole_P.clamp(max=longest)
    return EncodedRows(text, length_P, int((whole_P > length_P).sum()))


def windows(text: Encoded, longest: int) -> list[slice]:
    """Return each document as one row or several, as slices of the text. No row crosses a document."""
    return [
        slice(place, min(place + longest, end))
        for start, end in zip(text.starts_D.tolist(), text.ends_D.tolist(), strict=True)
        for place in range(start, end, longest)
    ]


def window_rows(text: Encoded, longest: int, padding: int, tokens: int) -> Iterator[Tensor]:
    """Yield batches of the windows of a text, (B, T), the longest first, padded on the right.

    A batch has at most `tokens` tokens, padding included, or one row.
    """
    rows = sorted(windows(text, longest), key=lambda row: row.start - row.stop)
    while rows:
        count = max(1, tokens // (rows[0].stop - rows[0].start))
        ids = [text.ids_N[row].long() for row in rows[:count]]
        yield pad_sequence(ids, batch_first=True, padding_value=padding)
        rows = rows[count:]
