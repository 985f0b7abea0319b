"""Numbers in files, written from the front and read by range, so that memory holds only a range of them.

Files are read and written with copies, not mapped: a range takes memory only as long as it is in use.

Shape legend: K numbers of a range, M places of a lookup.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

NUMPY = {torch.int32: np.int32, torch.int64: np.int64, torch.float32: np.float32, torch.float64: np.float64}
SAFETENSORS = {torch.int64: "I64", torch.float32: "F32", torch.float64: "F64"}


@final
class Column:
    """A list of numbers in a file of its own, or in a part of a file."""

    def __init__(self, path: Path, dtype: torch.dtype, offset: int = 0, length: int = 0):
        self.dtype, self._path, self._offset, self._length = dtype, path, offset, length

    def __len__(self) -> int:
        return self._length

    def append(self, values_K: Tensor) -> None:
        """Write numbers at the end."""
        with self._path.open("ab") as file:
            file.write(values_K.to(self.dtype).numpy().data)
        self._length += len(values_K)

    def read(self, first: int, last: int) -> Tensor:
        """Return the numbers at the places first, ..., last - 1. Places after the end are left out."""
        kind = np.dtype(NUMPY[self.dtype])
        last = min(last, len(self))
        if first >= last:
            return torch.empty(0, dtype=self.dtype)
        offset = self._offset + first * kind.itemsize
        return torch.from_numpy(np.fromfile(self._path, kind, last - first, offset=offset))

    def ranges(self, size: int) -> Iterator[tuple[int, Tensor]]:
        """Yield all numbers, at most `size` at a time, each time with the first place."""
        for first in range(0, len(self), size):
            yield first, self.read(first, first + size)

    def take(self, place_M: Tensor, size: int) -> Tensor:
        """Return the numbers at any places. The file is read in order, at most `size` numbers at a time."""
        out_M = torch.empty(len(place_M), dtype=self.dtype)
        lowest, highest = (int(place_M.min()), int(place_M.max())) if len(place_M) else (0, -1)
        for first in range(lowest, highest + 1, size):
            values_K = self.read(first, min(first + size, highest + 1))
            if len(values_K) > highest - lowest:
                return values_K[place_M - first]
            inside = (place_M >= first).logical_and_(place_M < first + size).nonzero().squeeze(1)
            out_M[inside] = values_K[place_M[inside] - first]
        return out_M

    def find(self, value_M: Tensor, size: int) -> Tensor:
        """Return the place of each value in this sorted list, or -1."""
        sorted_M, order_M = value_M.sort()
        place_M = torch.full_like(value_M, -1)
        for first, values_K in self.ranges(size):
            ends = torch.searchsorted(sorted_M, values_K[[0, -1]] + torch.tensor([0, 1]))
            here = slice(*ends.tolist())
            found = torch.searchsorted(values_K, sorted_M[here])
            place_M[order_M[here]] = torch.where(values_K[found] == sorted_M[here], found + first, -1)
        return place_M

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)  # it may have no numbers


@final
class TensorFile:
    """A safetensors file of known shapes, each tensor of which is written from the front.

    The bytes are those that `safetensors` writes for the same tensors.
    """

    def __init__(self, path: Path, shapes: Mapping[str, tuple[torch.dtype, int]]):
        self._path = path
        self._next: dict[str, int] = {}  # the place in the file at which a tensor goes on
        header, offset = {}, 0
        # safetensors begins with the tensors of the largest alignment, and of those with whole numbers.
        for name in sorted(shapes, key=lambda name: (shapes[name][0] is not torch.int64, name)):
            dtype, length = shapes[name]
            end = offset + length * dtype.itemsize
            header[name] = {"dtype": SAFETENSORS[dtype], "shape": [length], "data_offsets": [offset, end]}
            self._next[name], offset = offset, end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
        self._next = {name: place + 8 + len(text) for name, place in self._next.items()}

    def append(self, name: str, values_K: Tensor) -> None:
        """Write the next numbers of a tensor."""
        with self._path.open("r+b") as file:
            file.seek(self._next[name])
            self._next[name] += file.write(values_K.numpy().data)


def tensor_columns(path: Path) -> dict[str, Column]:
    """Return the tensors of a safetensors file as columns."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    types = {name: dtype for dtype, name in SAFETENSORS.items()}
    return {
        name: Column(path, types[about["dtype"]], 8 + size + about["data_offsets"][0], about["shape"][0])
        for name, about in header.items()
    }
