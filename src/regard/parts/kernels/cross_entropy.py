"""The cross-entropy of a row of logits and its gradient, in place (specification: parts/cross_entropy.py).

The kernel reads the logits twice and overwrites them with the weighted gradient. torch's cross_entropy also
writes the logits in float32, the log-probabilities and the gradient.

Shape legend: N positions, V vocabulary, C columns of the logits (V, and zeros behind them for alignment).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # columns that a program reads at a time


def loss_and_gradient(
    logits_NC: Tensor, size: int, targets_N: Tensor, weights_N: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """(losses_N, logits_NC): the logits become weight times the gradient; columns from V on become 0."""
    loss_N = torch.empty(len(logits_NC), dtype=torch.float32, device=logits_NC.device)
    columns = logits_NC.shape[1]
    block = min(BLOCK, triton.next_power_of_2(columns))
    sizes = (size, columns, smoothing, block)
    _kernel[(len(logits_NC),)](logits_NC, targets_N, weights_N, loss_N, *sizes, num_warps=16)
    return loss_N, logits_NC


@triton.jit
def _kernel(
    logits_ptr,
    targets_ptr,
    weights_ptr,
    loss_ptr,
    size: tl.constexpr,
    stride: tl.constexpr,
    smoothing: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride
    target, weight = tl.load(targets_ptr + row), tl.load(weights_ptr + row)
    # each column of a block keeps a maximum and a sum of its own, so that no block waits for a reduction
    highest = tl.full([BLOCK], -1e30, tl.float32)
    total, summed = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for first in range(0, size, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        real = columns < size
        scores = tl.load(logits_ptr + columns, mask=real, other=0.0).to(tl.float32)
        summed += scores
        scores = tl.where(real, scores, -float("inf"))
        new = tl.maximum(highest, scores)
        total = total * tl.exp(highest - new) + tl.exp(scores - new)
        highest = new
    peak = tl.max(highest)
    lse = peak + tl.log(tl.sum(total * tl.exp(highest - peak)))
    known = tl.maximum(target, 0)
    score = tl.load(logits_ptr + known).to(tl.float32)
    loss = (1 - smoothing) * (lse - score) + smoothing * (lse - tl.sum(summed) / size)
    tl.store(loss_ptr + row, loss)
    for first in range(0, stride, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        real = columns < size
        scores = tl.load(logits_ptr + columns, mask=real, other=0.0).to(tl.float32)
        grad = tl.exp(scores - lse) - smoothing / size
        grad = tl.where(columns == known, grad - (1 - smoothing), grad)
        grad = tl.where(real, grad * weight, 0.0)
        tl.store(logits_ptr + columns, grad.to(logits_ptr.dtype.element_ty), mask=columns < stride)
