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
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.tokens.contract import Encoded


@dataclass(frozen=True)
class Corpus:
    """A text on the device, from which batches are gathered."""

    ids_N: Tensor
    read_N: Tensor  # the input for each target: the token before it, or the start mark

    @classmethod
    def of(cls, text: Encoded, start: int, device: torch.device) -> "Corpus":
        """Move a text to the device."""
        read_N = torch.cat([text.ids_N.new_tensor([start]), text.ids_N[:-1]])
        read_N[text.starts_D] = start
        return cls(text.ids_N.to(device), read_N.to(device))

    def rows(self, place_BT: Tensor, padding: int) -> tuple[Tensor, Tensor]:
        """Return the input tokens and the targets at these places."""
        real_BT, index_BT = place_BT >= 0, place_BT.clamp(min=0)
        tokens_BT = torch.where(real_BT, self.read_N[index_BT].long(), padding)
        return tokens_BT, torch.where(real_BT, self.ids_N[index_BT].long(), -1)


WINDOWS = 32  # the number of windows in a piece of a long document


def _pieces(text: Encoded, longest: int) -> tuple[Tensor, Tensor]:
    """Return the starts and ends of pieces: documents, or equal parts of documents longer than `longest`."""
    length_D = text.ends_D - text.starts_D
    count_D = torch.ceil(length_D / longest).long()
    size_P = torch.ceil(length_D / count_D).long().repeat_interleave(count_D)
    number_P = _numbers_within(count_D)
    start_P = text.starts_D.repeat_interleave(count_D) + number_P * size_P
    return start_P, torch.minimum(start_P + size_P, text.ends_D.repeat_interleave(count_D))


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
        self._starts_D, self._ends_D = _pieces(text, WINDOWS * self._length)
        self._seed, self._epoch, self._batch = seed, -1, batch

    def _cut(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        generator = epoch_generator(self._seed, epoch)
        length_D = self._ends_D - self._starts_D
        phase_D = (torch.rand(len(length_D), generator=generator) * self._length).long()
        phase_D[length_D <= self._length] = 0
        count_D = torch.ceil((length_D + phase_D) / self._length).long()
        start_W = (self._starts_D - phase_D).repeat_interleave(count_D) + _numbers_within(
            count_D
        ) * self._length
        end_W = torch.minimum(start_W + self._length, self._ends_D.repeat_interleave(count_D))
        start_W = torch.maximum(start_W, self._starts_D.repeat_interleave(count_D))
        shuffled_W = torch.randperm(len(start_W), generator=generator)
        self._start_W, self._end_W, self._epoch = start_W[shuffled_W], end_W[shuffled_W], epoch

    def steps(self, epoch: int) -> int:
        self._cut(epoch)
        return max(1, len(self._start_W) // self._batch)

    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        self._cut(epoch)
        rows = slice(step * self._batch, (step + 1) * self._batch)
        place_BT = self._start_W[rows].unsqueeze(1) + torch.arange(self._length)
        place_BT = torch.where(place_BT < self._end_W[rows].unsqueeze(1), place_BT, -1)
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
        segments_P = torch.ceil((self._end_P - self._start_P) / self._segment).long()
        lanes: list[list[int]] = [[] for _ in range(self._batch)]
        lengths = [(0, lane) for lane in range(self._batch)]  # a heap: the length of each lane in segments
        for piece, segments in zip(order.tolist(), segments_P[order].tolist(), strict=True):
            length, lane = heapq.heappop(lengths)
            lanes[lane].append(piece)
            heapq.heappush(lengths, (length + segments, lane))
        self._steps = max(length for length, _ in lengths)
        start_BS = torch.zeros(self._batch, self._steps, dtype=torch.long)
        end_BS, fresh_BS = torch.zeros_like(start_BS), torch.ones(self._batch, self._steps, dtype=torch.bool)
        for lane, pieces in enumerate(lanes):
            count = segments_P[pieces]
            number = _numbers_within(count)
            start = self._start_P[pieces].repeat_interleave(count) + number * self._segment
            start_BS[lane, : len(number)] = start
            end_BS[lane, : len(number)] = self._end_P[pieces].repeat_interleave(count)
            fresh_BS[lane, : len(number)] = number == 0
        self._start_BS, self._end_BS, self._fresh_BS, self._epoch = start_BS, end_BS, fresh_BS, epoch

    def steps(self, epoch: int) -> int:
        self._fill_lanes(epoch)
        return self._steps

    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        self._fill_lanes(epoch)
        place_BT = self._start_BS[:, step].unsqueeze(1) + torch.arange(self._segment)
        place_BT = torch.where(place_BT < self._end_BS[:, step].unsqueeze(1), place_BT, -1)
        longest = max(1, int((place_BT >= 0).sum(1).max()))
        return place_BT[:, :longest], self._fresh_BS[:, step]
