"""The limits of this machine: floating-point operations and bytes a second, both measured."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from regard.machine.timing import interleaved
from regard.parts.products import linear

SIZE = 1024  # side of the matrices
COPIED = 1 << 25  # numbers of a copied block: 128 MiB, more than a cache holds
PASSES = 7


@dataclass(frozen=True)
class Limits:
    operations: float  # a second, of a large fp32 matrix product by the fastest library of this torch
    mkl_operations: float  # the same by `F.linear`
    bandwidth: float  # bytes a second that are read and written in a copy


def measure_limits() -> Limits:
    """Take the fastest of a few passes: a limit is what the machine reaches undisturbed."""
    draw = torch.Generator().manual_seed(0)
    square = torch.randn(SIZE, SIZE, generator=draw)
    source, target = torch.zeros(COPIED), torch.empty(COPIED)

    def ours() -> float:
        linear(square, square)
        return 2.0 * SIZE**3

    def torchs() -> float:
        F.linear(square, square)
        return 2.0 * SIZE**3

    def copy() -> float:
        target.copy_(source)
        return 2.0 * 4 * COPIED

    with torch.no_grad():
        speeds = interleaved({"linear": ours, "F.linear": torchs, "copy": copy}, PASSES)
    operations = max(speeds.spread("linear").high, speeds.spread("F.linear").high)
    return Limits(operations, speeds.spread("F.linear").high, speeds.spread("copy").high)
