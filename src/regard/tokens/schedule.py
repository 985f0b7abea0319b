"""What is read at every step of training: windows for models with a bounded context, lanes for those that carry a state.

A schedule is a function of seed, epoch and step alone, so a run that is resumed reads what it would have read. It gives places: which
token of the text is the target at each position, -1 for none. Rows are padded on the right only.

Shape legend: B rows, T positions, W windows, D documents, N tokens of the text.
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
    """A text on the device: one gather makes a batch."""

    ids_N: Tensor
    read_N: Tensor  # what is read when each token is predicted: the one before it, or the start mark

    @classmethod
    def of(cls, text: Encoded, start: int, device: torch.device) -> "Corpus":
        read_N = torch.cat([text.ids_N.new_tensor([start]), text.ids_N[:-1]])
        read_N[text.starts_D] = start
        return cls(text.ids_N.to(device), read_N.to(device))

    def rows(self, place_BT: Tensor, padding: int) -> tuple[Tensor, Tensor]:
        """(tokens, targets)"""
        some_BT, index_BT = place_BT >= 0, place_BT.clamp(min=0)
        return torch.where(some_BT, self.read_N[index_BT].long(), padding), torch.where(
            some_BT, self.ids_N[index_BT].long(), -1
        )


WINDOWS = 32  # in a stretch of a long document


def _pieces(text: Encoded, longest: int) -> tuple[Tensor, Tensor]:
    """(starts, ends): the documents, cut into equal parts where they are longer."""
    length_D = text.ends_D - text.starts_D
    many_D = torch.ceil(length_D / longest).long()
    size_P = torch.ceil(length_D / many_D).long().repeat_interleave(many_D)
    place_P = torch.arange(len(size_P)) - (many_D.cumsum(0) - many_D).repeat_interleave(many_D)
    start_P = text.starts_D.repeat_interleave(many_D) + place_P * size_P
    return start_P, torch.minimum(start_P + size_P, text.ends_D.repeat_interleave(many_D))


class Schedule(ABC):
    @abstractmethod
    def steps(self, epoch: int) -> int: ...

    @abstractmethod
    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """(place_BT, fresh_B): targets, and which rows begin anew."""


@final
class WindowSchedule(Schedule):
    """Windows of one context, cut at another place in every epoch and shuffled: each token is a target once an epoch."""

    def __init__(self, text: Encoded, context: int, batch: int, seed: int):
        if len(text) < context:
            raise UserError(
                f"the training text has {len(text)} tokens; a `context` of {context} needs at least that many, give more text"
            )
        self._length = min(context, int((text.ends_D - text.starts_D).max()))
        # a long document is cut in stretches, each with a phase of its own: otherwise an epoch would see words at few places of a window
        self._starts_D, self._ends_D = _pieces(text, WINDOWS * self._length)
        self._seed, self._epoch, self._batch = seed, -1, batch

    def _cut(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        length_D = self._ends_D - self._starts_D
        phase_D = (torch.rand(len(length_D), generator=generator) * self._length).long()
        phase_D[length_D <= self._length] = 0
        many_D = torch.ceil((length_D + phase_D) / self._length).long()
        place_W = torch.arange(int(many_D.sum())) - (many_D.cumsum(0) - many_D).repeat_interleave(many_D)
        start_W = (self._starts_D - phase_D).repeat_interleave(many_D) + place_W * self._length
        end_W = torch.minimum(start_W + self._length, self._ends_D.repeat_interleave(many_D))
        start_W = torch.maximum(start_W, self._starts_D.repeat_interleave(many_D))
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
    """Contiguous lanes with the state carried: documents, the long ones cut so that all lanes are equally long, one after the other."""

    def __init__(self, text: Encoded, segment: int, batch: int, seed: int):
        if len(text) < 2 * batch:
            needed = f"{batch} lanes need at least {2 * batch}: give more text or lower `batch`"
            raise UserError(f"the training text has {len(text)} tokens; {needed}")
        self._start_P, self._end_P = _pieces(text, -(-len(text) // batch))
        self._segment, self._batch, self._seed, self._epoch = segment, batch, seed, -1

    def _deal(self, epoch: int) -> None:
        """Pieces, shuffled, each to the lane that has the least to read; then every lane in segments."""
        if epoch == self._epoch:
            return
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        order = torch.randperm(len(self._start_P), generator=generator)
        segments_P = torch.ceil((self._end_P - self._start_P) / self._segment).long()
        lanes: list[list[int]] = [[] for _ in range(self._batch)]
        load = [(0, lane) for lane in range(self._batch)]
        for piece, many in zip(order.tolist(), segments_P[order].tolist(), strict=True):
            read, lane = heapq.heappop(load)
            lanes[lane].append(piece)
            heapq.heappush(load, (read + many, lane))
        self._steps = max(read for read, _ in load)
        start_BS = torch.zeros(self._batch, self._steps, dtype=torch.long)
        end_BS, fresh_BS = torch.zeros_like(start_BS), torch.ones(self._batch, self._steps, dtype=torch.bool)
        for lane, pieces in enumerate(lanes):
            many = segments_P[pieces]
            place = torch.arange(int(many.sum())) - (many.cumsum(0) - many).repeat_interleave(many)
            start_BS[lane, : len(place)] = (
                self._start_P[pieces].repeat_interleave(many) + place * self._segment
            )
            end_BS[lane, : len(place)] = self._end_P[pieces].repeat_interleave(many)
            fresh_BS[lane, : len(place)] = place == 0
        self._start_BS, self._end_BS, self._fresh_BS, self._epoch = start_BS, end_BS, fresh_BS, epoch

    def steps(self, epoch: int) -> int:
        self._deal(epoch)
        return self._steps

    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        self._deal(epoch)
        place_BT = self._start_BS[:, step].unsqueeze(1) + torch.arange(self._segment)
        place_BT = torch.where(place_BT < self._end_BS[:, step].unsqueeze(1), place_BT, -1)
        longest = max(1, int((place_BT >= 0).sum(1).max()))
        return place_BT[:, :longest], self._fresh_BS[:, step]
