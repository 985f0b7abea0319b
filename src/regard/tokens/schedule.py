"""Schedules: the tokens that are read at every step of training.

Models with a bounded context read shuffled windows. Models that carry a state read lanes: row b of each batch
continues row b of the batch before.

A schedule is a function of seed, epoch and step only. A resumed run therefore reads the same tokens as a run
that was not stopped. A schedule returns places: the index in the text of the target at each position, -1 for
no target. Rows are padded on the right only.

Shape legend: B rows, T positions, W windows, D documents, P pieces of documents, S steps, N tokens of the
text.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.machine.device import to_device
from regard.tokens.contract import Encoded, nothing


@dataclass(frozen=True)
class Corpus:
    """A text from which batches are gathered: on the device, or in a mapped file if it is large."""

    ids_N: Tensor
    ends_D: Tensor
    start: int
    release: Callable[[], None]

    @classmethod
    def of(cls, text: Encoded, start: int, device: torch.device) -> "Corpus":
        """Move a text to the device, unless its ids are mapped."""
        if text.release is not nothing:
            return cls(text.ids_N, text.ends_D, start, text.release)
        return cls(text.ids_N.to(device), text.ends_D.to(device), start, nothing)

    def rows(self, place_BT: Tensor, padding: int) -> tuple[Tensor, Tensor]:
        """Return the input tokens and the targets at these places, where the text is."""
        place_BT = to_device(place_BT, self.ids_N.device)
        real_BT, index_BT = place_BT >= 0, place_BT.clamp(min=0)
        # The input for a target is the token before it, or the start mark at the beginning of a document.
        document_BT = torch.searchsorted(self.ends_D, index_BT).clamp(max=len(self.ends_D) - 1)
        first_BT = (index_BT == 0) | (self.ends_D[document_BT] == index_BT)
        read_BT = torch.where(first_BT, self.start, self.ids_N[index_BT - 1].long())
        tokens_BT = torch.where(real_BT, read_BT, padding)
        targets_BT = torch.where(real_BT, self.ids_N[index_BT].long(), -1)
        self.release()
        return tokens_BT, targets_BT


WINDOWS = 32  # the number of windows in a piece of a long document


def _pieces(text: Encoded, longest: int) -> tuple[Tensor, Tensor]:
    """Return the starts and ends of pieces: documents, or equal parts of documents longer than `longest`."""
    length_D = text.lengths_D
    count_D = _ceil_divided(length_D, longest)
    size_P = _ceil_divided(length_D, count_D).repeat_interleave(count_D)
    number_P = _numbers_within(count_D)
    start_P = text.starts_D.repeat_interleave(count_D) + number_P * size_P
    return start_P, torch.minimum(start_P + size_P, text.ends_D.repeat_interleave(count_D))


def _ceil_divided(numbers: Tensor, divisor: Tensor | int) -> Tensor:
    """Divide whole numbers and round up, without the error of a floating-point quotient."""
    return -(-numbers // divisor)


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The random numbers of an epoch. torch takes seeds below 2 ** 64."""
    return torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)


def _numbers_within(count_D: Tensor) -> Tensor:
    """Return 0, 1, ..., count - 1 for each count, joined into one tensor."""
    return torch.arange(int(count_D.sum())) - (count_D.cumsum(0) - count_D).repeat_interleave(count_D)


def check_context(text: Encoded, context: int) -> None:
    if len(text) < context:
        raise UserError(
            f"the training text has {len(text)} tokens, fewer than the `context` of {context}: "
            "give more text, or lower `context`"
        )


class Schedule(ABC):
    """The base class of schedules."""

    @abstractmethod
    def steps(self, epoch: int) -> int:
        """Return the number of steps in an epoch."""

    @abstractmethod
    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """Return the places of the targets (B, T), and whether each row begins with an empty state (B)."""


@final
class WindowSchedule(Schedule):
    """Shuffled windows of `context` tokens. Each token is a target at most once in an epoch.

    The windows of each epoch begin at different, random offsets (phases), so that a token is seen with
    contexts of all lengths.
    """

    def __init__(self, text: Encoded, context: int, batch: int, seed: int):
        check_context(text, context)
        self._length = min(context, int((text.ends_D - text.starts_D).max()))
        # A long document is cut into pieces, each with a random phase of its own, so that the positions of
        # words in windows vary within an epoch.
        self._starts_P, self._ends_P = _pieces(text, WINDOWS * self._length)
        self._seed, self._epoch, self._batch = seed, -1, batch

    def _cut(self, epoch: int) -> None:
        """Draw the phase of each piece, and the order of all windows."""
        if epoch == self._epoch:
            return
        generator = epoch_generator(self._seed, epoch)
        length_P = self._ends_P - self._starts_P
        phase_P = (torch.rand(len(length_P), generator=generator) * self._length).long()
        phase_P[length_P <= self._length] = 0
        self._begin_P = self._starts_P - phase_P
        count_P = _ceil_divided(length_P + phase_P, self._length)
        self._windows_P = count_P.cumsum(0)  # the number of windows up to the end of each piece
        self._before_P = self._windows_P - count_P
        windows = int(count_P.sum())
        kind = torch.int32 if windows < 1 << 31 else torch.int64
        self._order_W, self._epoch = torch.randperm(windows, generator=generator, dtype=kind), epoch

    def steps(self, epoch: int) -> int:
        self._cut(epoch)
        return max(1, len(self._order_W) // self._batch)

    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        self._cut(epoch)
        # The windows of a step are computed when they are read: a large text has too many to keep.
        window_B = self._order_W[step * self._batch : (step + 1) * self._batch].long()
        piece_B = torch.searchsorted(self._windows_P, window_B, right=True)
        start_B = self._begin_P[piece_B] + (window_B - self._before_P[piece_B]) * self._length
        end_B = torch.minimum(start_B + self._length, self._ends_P[piece_B])
        start_B = torch.maximum(start_B, self._starts_P[piece_B])
        place_BT = start_B.unsqueeze(1) + torch.arange(self._length)
        place_BT = torch.where(place_BT < end_B.unsqueeze(1), place_BT, -1)
        return place_BT, torch.ones(len(place_BT), dtype=torch.bool)


@final
class LaneSchedule(Schedule):
    """Lanes: row b of each batch continues row b of the batch before, and the state is carried.

    A lane is a sequence of documents, or of pieces of long documents. The lanes have about the same length.
    Each piece begins with an empty state.
    """

    def __init__(self, text: Encoded, segment: int, batch: int, seed: int):
        if len(text) < 2 * batch:
            advice = f"a `batch` of {batch} rows needs at least {2 * batch}: give more text, or lower `batch`"
            raise UserError(f"the training text has {len(text)} tokens; {advice}")
        self._start_P, self._end_P = _pieces(text, -(-len(text) // batch))
        longest = int((self._end_P - self._start_P).max())
        self._segment, self._batch, self._seed, self._epoch = min(segment, longest), batch, seed, -1

    def _fill_lanes(self, epoch: int) -> None:
        """Assign the shuffled pieces, each to the shortest lane so far, and divide lanes into segments."""
        if epoch == self._epoch:
            return
        generator = epoch_generator(self._seed, epoch)
        order = torch.randperm(len(self._start_P), generator=generator)
        segments_P = _ceil_divided(self._end_P - self._start_P, self._segment)
        lanes: list[list[int]] = [[] for _ in range(self._batch)]
        lengths = [(0, lane) for lane in range(self._batch)]  # a heap: the length of each lane in segments
        for piece, segments in zip(order.tolist(), segments_P[order].tolist(), strict=True):
            length, lane = heapq.heappop(lengths)
            lanes[lane].append(piece)
            heapq.heappush(lengths, (length + segments, lane))
        self._steps, self._epoch = max(length for length, _ in lengths), epoch
        self._piece_P = torch.tensor([piece for pieces in lanes for piece in pieces])  # lane after lane
        own_B = torch.tensor([len(pieces) for pieces in lanes])
        self._ended_B = own_B.cumsum(0)
        own_P = segments_P[self._piece_P]
        all_P = own_P.cumsum(0)
        # The segments of a lane before each of its pieces, and after it.
        before_B = torch.cat([all_P.new_zeros(1), all_P])[self._ended_B].roll(1)
        before_B[0] = 0
        lane_P = torch.repeat_interleave(torch.arange(self._batch), own_B)
        after_P = all_P - before_B[lane_P]
        self._before_P = after_P - own_P
        self._place_P = after_P + lane_P * (self._steps + 1)  # in ascending order

    def steps(self, epoch: int) -> int:
        self._fill_lanes(epoch)
        return self._steps

    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        self._fill_lanes(epoch)
        lane_B = torch.arange(self._batch)
        number_B = torch.searchsorted(self._place_P, step + lane_B * (self._steps + 1), right=True)
        reads_B = number_B < self._ended_B  # other lanes have ended
        number_B = number_B.clamp(max=len(self._piece_P) - 1)
        piece_B, segment_B = self._piece_P[number_B], step - self._before_P[number_B]
        start_B1 = (self._start_P[piece_B] + segment_B * self._segment).unsqueeze(1)
        place_BT = start_B1 + torch.arange(self._segment)
        real_BT = (place_BT < self._end_P[piece_B].unsqueeze(1)) & reads_B.unsqueeze(1)
        place_BT = torch.where(real_BT, place_BT, -1)
        longest = max(1, int(real_BT.sum(1).max()))
        return place_BT[:, :longest], ~reads_B | (segment_B == 0)
