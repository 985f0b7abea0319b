"""Batches of windows of encoded documents, for measuring.

Shape legend: B rows, T positions, W windows, D documents, N tokens of all documents.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.tokens.contract import Encoded

SLICE = 1 << 20  # tokens whose windows are made at a time


@dataclass(frozen=True)
class Rows:
    """The inputs and targets of a call."""

    tokens_BT: Tensor
    targets_BT: Tensor  # -1 for no target
    places_BT: Tensor  # the index of each target in the text, -1 for no target


@dataclass(frozen=True)
class Batch:
    """Rows that are read segment by segment. The state is carried from segment to segment."""

    given: int | Tensor  # the number of rows, or their source sentences
    segments: Iterator[Rows]


def shift_right(targets_BT: Tensor, start: int) -> Tensor:
    """Return the token that is read when each target is predicted: the start mark, or the target before."""
    return torch.cat([torch.full_like(targets_BT[:, :1], start), targets_BT[:, :-1]], 1)


@dataclass(frozen=True)
class Windows:
    """Windows of documents, as indices of tokens in the text.

    A window holds the tokens from `first_W` to `last_W` (exclusive). The tokens from `scored_W` are targets;
    the tokens before are only context.
    """

    first_W: Tensor
    last_W: Tensor
    scored_W: Tensor
    document_W: Tensor  # the first token of the window's document

    def pick(self, rows: Tensor) -> "Windows":
        """Return the windows with these indices."""
        return Windows(self.first_W[rows], self.last_W[rows], self.scored_W[rows], self.document_W[rows])


def window_slices(text: Encoded, context: int | None, stride: int | None) -> Iterator[Windows]:
    """Yield the windows of a text in order, in slices of some SLICE tokens.

    Without a context, a window is a document. Otherwise the starts of windows of `context` tokens are
    `stride` tokens apart, and every token is a target once, in the first window that contains it.
    """
    for starts_D, ends_D in _document_slices(text):
        if context is None:
            yield Windows(starts_D, ends_D, starts_D, starts_D)
            continue
        step = stride or context
        count_D = 1 - (context - (ends_D - starts_D)).clamp(max=0) // step
        most = SLICE // step + 1  # a document of a slice has more windows only if it is alone in the slice
        for first in range(0, int(count_D.max()), most):
            own_D = count_D.clamp(max=first + most) - first
            document_W = starts_D.repeat_interleave(own_D)
            end_W = ends_D.repeat_interleave(own_D)
            before_W = (own_D.cumsum(0) - own_D).repeat_interleave(own_D)
            number_W = first + torch.arange(len(document_W)) - before_W
            first_W = document_W + number_W * step
            scored_W = torch.where(number_W == 0, first_W, first_W + context - step)
            yield Windows(first_W, torch.minimum(first_W + context, end_W), scored_W, document_W)


def _document_slices(text: Encoded) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the starts and ends of documents that have SLICE tokens together, or of one that has more."""
    first, start = 0, 0
    while first < len(text.ends_D):
        fitting = int(torch.searchsorted(text.ends_D, start + SLICE, right=True))
        ends_D = text.ends_D[first : max(fitting, first + 1)].clone()
        yield torch.cat([ends_D.new_tensor([start]), ends_D[:-1]]), ends_D
        first, start = first + len(ends_D), int(ends_D[-1])


def window_batches(
    text: Encoded, windows: Windows, *, start: int, padding: int, segment: int, budget: int
) -> Iterator[Batch]:
    """Yield batches of windows of similar length, with about `budget` tokens in a batch.

    Each batch is read in segments of `segment` positions.
    """
    length_W = windows.last_W - windows.first_W
    order_W = length_W.argsort(descending=True, stable=True)
    first = 0
    while first < len(order_W):
        rows = order_W[first : first + max(1, budget // int(length_W[order_W[first]]))]
        yield Batch(len(rows), _segments(text, windows.pick(rows), start, padding, segment))
        first += len(rows)


def _segments(text: Encoded, windows: Windows, start: int, padding: int, segment: int) -> Iterator[Rows]:
    """Yield the segments of a batch of windows. Short windows are padded on the right."""
    longest = int((windows.last_W - windows.first_W).max())
    for offset in range(0, longest, segment):
        place_BT = windows.first_W.unsqueeze(1) + torch.arange(offset, min(offset + segment, longest))
        real_BT = place_BT < windows.last_W.unsqueeze(1)
        place_BT = place_BT.clamp(max=len(text) - 1)
        # The input of a target is the token before it, or the start mark for the first token of a document.
        read_BT = torch.where(
            place_BT == windows.document_W.unsqueeze(1), start, text.ids_N[place_BT - 1].long()
        )
        scored_BT = real_BT & (place_BT >= windows.scored_W.unsqueeze(1))
        targets_BT = torch.where(scored_BT, text.ids_N[place_BT].long(), -1)
        text.release()
        yield Rows(torch.where(real_BT, read_BT, padding), targets_BT, torch.where(scored_BT, place_BT, -1))
