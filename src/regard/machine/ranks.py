"""Ranks: the processes that train one model together, each on its own rows of every batch.

Rank r of N has the rows r, r + N, r + 2 N, ... of a batch. A batch is the same on any number of ranks, so the
sums of their gradients are those of one process that reads all rows.

Without torchrun there is one rank, and every method returns what it is given.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar, final

import torch
import torch.distributed as dist
from safetensors.torch import load, save
from torch import Tensor

from regard.errors import UserError
from regard.machine.lifelines import Lifeline

T = TypeVar("T")
Tensors = Mapping[str, Tensor]
BUCKET = 1 << 22  # numbers that are sent together: a message has a cost of its own


@dataclass(frozen=True)
class Difference:
    """A value that a rank has and rank 0 has not."""

    rank: int
    name: str
    theirs: str
    ours: str


@dataclass(frozen=True)
class Ranks(ABC):
    """One of the processes of a training, and how it exchanges numbers with the others."""

    index: int = 0
    count: int = 1
    shares: int = 1  # the batches of a step: the number of ranks with which the training began

    @property
    def speaks(self) -> bool:
        """Whether this rank prints, writes and decides. Only one does."""
        return self.index == 0

    def rows(self, batch: int) -> int:
        """Return the number of rows of a step, of which every rank reads a part."""
        rows = batch * self.shares
        if rows < self.count:
            raise UserError(f"a step has {rows} rows, fewer than the {self.count} ranks: start fewer ranks")
        return rows

    def own(self, rows: Tensor) -> Tensor:
        """Return the rows of this rank: the first axis is the row.

        A rank without a row has the first one again, and its loss does not count (`reads`): all ranks then
        run the same operations.
        """
        mine = rows[self.index :: self.count]
        return mine if len(mine) else rows[:1]

    def reads(self, rows: int) -> bool:
        """Whether a batch of so many rows has one for this rank."""
        return self.index < rows

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Give every rank random numbers of its own. Those of rank 0 are those of a single process."""

    @abstractmethod
    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their sums over all ranks."""

    @abstractmethod
    def joined_rows(self, sparse: Tensor) -> Tensor:
        """Return the sum of sparse tensors of all ranks."""

    @abstractmethod
    def most(self, numbers: Sequence[float]) -> list[float]:
        """Return the largest of each number over all ranks."""

    @abstractmethod
    def first(self, value: T) -> T:
        """Return the value of rank 0, which JSON can hold."""

    @abstractmethod
    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Replace tensors by those of rank 0."""

    @abstractmethod
    def gather(self, tensors: Tensors) -> list[Tensors]:
        """Return the tensors of all ranks, in order, on rank 0. The others get nothing."""

    @abstractmethod
    def difference(self, values: Mapping[str, str]) -> Difference | None:
        """Return the first of these values that is not the same on all ranks."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until every rank has come here."""

    @abstractmethod
    def advise(self, advice: str) -> None:
        """Say what the user can do when a rank is lost from now on."""

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """A context that rank 0 leaves before the others enter."""
        if self.speaks:
            yield
            self.wait()
        else:
            self.wait()
            yield


@final
@dataclass(frozen=True)
class Alone(Ranks):
    """The only rank."""

    def seed(self, seed: int) -> None:
        pass

    def sum(self, tensors: Sequence[Tensor]) -> None:
        pass

    def joined_rows(self, sparse: Tensor) -> Tensor:
        return sparse

    def most(self, numbers: Sequence[float]) -> list[float]:
        return list(numbers)

    def first(self, value: T) -> T:
        return value

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        pass

    def gather(self, tensors: Tensors) -> list[Tensors]:
        return [tensors]

    def difference(self, values: Mapping[str, str]) -> Difference | None:
        return None

    def wait(self) -> None:
        pass

    def advise(self, advice: str) -> None:
        pass


@final
@dataclass(frozen=True, kw_only=True)
class Joined(Ranks):
    """One of several ranks. torch.distributed carries the numbers: gloo on a CPU, NCCL between GPUs."""

    lifeline: Lifeline

    def seed(self, seed: int) -> None:
        if self.index:
            own = hashlib.sha256(f"{seed} {self.index}".encode()).digest()
            torch.manual_seed(int.from_bytes(own[:8]) >> 1)

    def sum(self, tensors: Sequence[Tensor]) -> None:
        sent = [(bucket, _flat(bucket)) for bucket in _buckets(tensors)]
        works = [dist.all_reduce(flat, async_op=True) for _, flat in sent]
        for work, (bucket, flat) in zip(works, sent, strict=True):
            work.wait()
            _unflatten(flat, bucket)

    def joined_rows(self, sparse: Tensor) -> Tensor:
        own = sparse.coalesce()
        places, rows = own.indices(), own.values()
        counts = [int(count) for count in self._every(torch.tensor([len(rows)]))]
        places_N = torch.cat(self._every_padded(places.T, counts)).T
        rows_N = torch.cat(self._every_padded(rows, counts))
        return torch.sparse_coo_tensor(places_N, rows_N, sparse.shape, check_invariants=False)

    def most(self, numbers: Sequence[float]) -> list[float]:
        values = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(values, dist.ReduceOp.MAX)
        return values.tolist()

    def first(self, value: T) -> T:
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        length = torch.tensor([len(data)])
        dist.broadcast(length, 0)
        if self.index:
            data = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(data, 0)
        return json.loads(data.numpy().tobytes())

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        for bucket in _buckets([tensor.detach() for tensor in tensors]):
            flat = _flat(bucket)
            dist.broadcast(flat, 0)
            _unflatten(flat, bucket)

    def gather(self, tensors: Tensors) -> list[Tensors]:
        own = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
        return [load(data) for data in self._gather_bytes(own)]

    def difference(self, values: Mapping[str, str]) -> Difference | None:
        every = [json.loads(data) for data in self._gather_bytes(json.dumps(dict(values)).encode())]
        found = self.first(_first_difference(every) if self.speaks else None)
        return None if found is None else Difference(*found)

    def wait(self) -> None:
        self.most([0.0])

    def advise(self, advice: str) -> None:
        self.lifeline.advise(advice)

    def _gather_bytes(self, own: bytes) -> list[bytes]:
        """Return the bytes of all ranks, on rank 0."""
        sizes = [int(size) for size in self._every(torch.tensor([len(own)]))]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(own)] = torch.frombuffer(bytearray(own), dtype=torch.uint8)
        every = [torch.empty_like(padded) for _ in sizes] if self.speaks else None
        dist.gather(padded, every, 0)
        return [data[:size].numpy().tobytes() for data, size in zip(every or [], sizes, strict=False)]

    def _every(self, own: Tensor) -> list[Tensor]:
        every = [torch.empty_like(own) for _ in range(self.count)]
        dist.all_gather(every, own)
        return every

    def _every_padded(self, own: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Return the rows of all ranks, which have different numbers of rows."""
        padded = own.new_zeros(max(counts), *own.shape[1:])
        padded[: len(own)] = own
        return [rows[:count] for rows, count in zip(self._every(padded), counts, strict=True)]


ALONE = Alone()
RANKS: ContextVar[Ranks] = ContextVar("ranks", default=ALONE)


def current_ranks() -> Ranks:
    """The ranks that this process belongs to."""
    return RANKS.get()


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield tensors of one type, with some BUCKET numbers together."""
    kinds: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(tensor.dtype, []).append(tensor)
    for same in kinds.values():
        bucket, size = list[Tensor](), 0
        for tensor in same:
            if bucket and size + tensor.numel() > BUCKET:
                yield bucket
                bucket, size = [], 0
            bucket, size = [*bucket, tensor], size + tensor.numel()
        yield bucket


def _flat(bucket: list[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in bucket])


def _unflatten(flat: Tensor, bucket: list[Tensor]) -> None:
    parts = flat.split([tensor.numel() for tensor in bucket])
    torch._foreach_copy_(bucket, [part.view_as(tensor) for part, tensor in zip(parts, bucket, strict=True)])


def _first_difference(every: Sequence[Mapping[str, str]]) -> tuple[int, str, str, str] | None:
    ours, absent = every[0], "not given"
    for rank, theirs in enumerate(every):
        for name in sorted(ours.keys() | theirs.keys()):
            pair = (theirs.get(name, absent), ours.get(name, absent))
            if pair[0] != pair[1]:
                return rank, name, *pair
    return None
