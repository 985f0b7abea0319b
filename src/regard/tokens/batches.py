"""Rows of tokens and their targets, made from encoded documents, for measuring.

Shape legend: B rows, T positions, W windows, D documents, N tokens of all documents.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.tokens.contract import Encoded


@dataclass(frozen=True)
class Rows:
    """What goes into a model and what should come out. `places_BT` says which token of the text a target is, -1 for none."""

    tokens_BT: Tensor
    targets_BT: Tensor
    places_BT: Tensor


@dataclass(frozen=True)
class Batch:
    """Rows that begin together. They are read a segment at a time, with the state carried from one segment to the next."""

    given: int | Tensor  # the number of rows, or what the rows begin with
    segments: Iterator[Rows]


def shift_right(targets_BT: Tensor, start: int) -> Tensor:
    """What is read when each target is predicted: the start mark, then all targets but the last."""
    return torch.cat([torch.full_like(targets_BT[:, :1], start), targets_BT[:, :-1]], 1)


@dataclass(frozen=True)
class Windows:
    """Stretches of documents: tokens `first_W` up to `last_W` (exclusive) are read, and those from `scored_W` on are targets."""

    first_W: Tensor
    last_W: Tensor
    scored_W: Tensor
    document_W: Tensor  # where the window's document begins

    def pick(self, rows: Tensor) -> "Windows":
        return Windows(self.first_W[rows], self.last_W[rows], self.scored_W[rows], self.document_W[rows])


def whole_documents(text: Encoded) -> Windows:
    starts_D = text.starts_D
    return Windows(starts_D, text.ends_D, starts_D, starts_D)


def overlapping_windows(text: Encoded, context: int, stride: int) -> Windows:
    """Windows of `context` tokens, each `stride` further on. Every token is a target once, in the first window that reaches it."""
    starts_D, lengths_D = text.starts_D, text.ends_D - text.starts_D
    many_D = 1 + torch.ceil((lengths_D - context).clamp(min=0) / stride).long()
    document_W = starts_D.repeat_interleave(many_D)
    end_W = text.ends_D.repeat_interleave(many_D)
    place_W = torch.arange(len(document_W)) - (many_D.cumsum(0) - many_D).repeat_interleave(many_D)
    first_W = document_W + place_W * stride
    scored_W = torch.where(place_W == 0, first_W, first_W + context - stride)
    return Windows(first_W, torch.minimum(first_W + context, end_W), scored_W, document_W)


def window_batches(
    text: Encoded, windows: Windows, *, start: int, padding: int, segment: int, budget: int
) -> Iterator[Batch]:
    """Windows of similar length together, about `budget` tokens a batch, read `segment` positions at a time."""
    length_W = windows.last_W - windows.first_W
    order_W = length_W.argsort(descending=True, stable=True)
    first = 0
    while first < len(order_W):
        rows = order_W[first : first + max(1, budget // int(length_W[order_W[first]]))]
        yield Batch(len(rows), _segments(text, windows.pick(rows), start, padding, segment))
        first += len(rows)


def _segments(text: Encoded, windows: Windows, start: int, padding: int, segment: int) -> Iterator[Rows]:
    """A batch of windows, padded on the right where a window is shorter than the longest."""
    longest = int((windows.last_W - windows.first_W).max())
    for offset in range(0, longest, segment):
        place_BT = windows.first_W.unsqueeze(1) + torch.arange(offset, min(offset + segment, longest))
        real_BT = place_BT < windows.last_W.unsqueeze(1)
        place_BT = place_BT.clamp(max=len(text) - 1)
        # the token before the target is read; before the first token of a document stands the start mark
        read_BT = torch.where(
            place_BT == windows.document_W.unsqueeze(1), start, text.ids_N[place_BT - 1].long()
        )
        scored_BT = real_BT & (place_BT >= windows.scored_W.unsqueeze(1))
        yield Rows(
            torch.where(real_BT, read_BT, padding),
            torch.where(scored_BT, text.ids_N[place_BT].long(), -1),
            torch.where(scored_BT, place_BT, -1),
        )
