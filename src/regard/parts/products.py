"""Linear layers, and the library that computes their products on a CPU.

torch multiplies fp32 matrices on a CPU with MKL, which takes a slow path on processors of other makers than
Intel. oneDNN, which is a part of torch as well, was 2.2 times as fast on an AMD EPYC (docs/benchmarks.md).
A process measures both once. `F.linear` is the specification.

Shape legend: N rows of any number of axes, I inputs, O outputs.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]
FEWEST_ROWS = 32  # with fewer rows, MKL is as fast or faster
FASTER = 1.2  # oneDNN must be faster by this factor, so that noise does not choose
SIZE = 384  # of the measured square matrices


@final
class Linear(nn.Linear):
    """`nn.Linear` with the products of `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def linear(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """(N, O): x W^T + b, as `F.linear`."""
    if not _suits(x_NI):
        return F.linear(x_NI, weight_OI, bias_O)
    if torch.is_grad_enabled():
        return _Linear.apply(x_NI, weight_OI, bias_O)
    return _by_onednn(x_NI, weight_OI, bias_O)


def product_of(rows: int) -> Product:
    """Return `linear` for so many rows, without its questions if the rows are few."""
    return F.linear if torch.compiler.is_compiling() or rows < FEWEST_ROWS else linear


@final
class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NI, weight_OI)
        return _by_onednn(x_NI, weight_OI, bias_O)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (grad_NO,), (x_NI, weight_OI) = grads, ctx.saved_tensors
        flat_NO = grad_NO.flatten(0, -2)
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        return (
            linear(grad_NO, weight_OI.T) if wants_x else None,
            linear(flat_NO.T, x_NI.flatten(0, -2).T) if wants_weight else None,
            flat_NO.sum(0) if wants_bias else None,
        )


def _suits(x_NI: Tensor) -> bool:
    return (
        x_NI.dim() > 1
        and not torch.compiler.is_compiling()
        and x_NI.numel() >= FEWEST_ROWS * x_NI.shape[-1]
        and x_NI.dtype is torch.float32
        and x_NI.device.type == "cpu"
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
        and onednn_is_faster()
    )


def _by_onednn(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    # the operator is private to torch: torch's own compiler calls it
    return torch.ops.mkldnn._linear_pointwise(x_NI, weight_OI, bias_O, "none", [], "")


@cache
def onednn_is_faster() -> bool:
    """True if this torch contains oneDNN's product, and it is faster than MKL's on this processor."""
    try:
        torch.ops.mkldnn._linear_pointwise  # noqa: B018
    except (AttributeError, RuntimeError):
        return False
    square = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        seconds = {product: _seconds(product, square) for product in (F.linear, _by_onednn)}
    return seconds[F.linear] > FASTER * seconds[_by_onednn]


def _seconds(product: Any, square: Tensor) -> float:
    best = float("inf")
    for _ in range(6):  # the first pass warms up
        started = time.perf_counter()
        product(square, square, None)
        best = min(best, time.perf_counter() - started)
    return best
