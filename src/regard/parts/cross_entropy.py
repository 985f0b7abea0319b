"""A linear readout and its cross-entropy in one function that never holds all logits.

    z_n = W x_n + b,    lse_n = log sum_v exp z_nv
    loss_n = (1 - s) (lse_n - z_n,target) + s (lse_n - mean_v z_nv)             s: label smoothing
    d loss_n / d z_nv = softmax(z_n)_v - (1 - s) [v = target] - s / V

The gradients are computed with the loss, slice by slice, so no logits wait for the backward pass.

Shape legend: N positions, D features, V vocabulary, C columns of the logits (V, rounded up on a GPU).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.parts.products import linear

SLICE = 1 << 24  # the maximal number of logits that exist at a time on a CPU
GPU_SHARE = 128  # on a GPU: one logit for this many bytes of its memory, because large products keep it busy
ALIGNMENT = 128  # a GPU multiplies matrices faster if their rows begin at aligned addresses

LossAndGradient = Callable[[Tensor, int, Tensor, Tensor, float], tuple[Tensor, Tensor]]


def linear_cross_entropy(
    features_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    weights_N: Tensor,
    smoothing: float,
) -> Tensor:
    """The weighted sum of the cross-entropies. Targets of -1 need the weight 0."""
    device = features_ND.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features_ND.dtype
    readout, wanted = (features_ND, weight_VD, bias_V), bias_V.requires_grad
    total, *_ = _with_gradients(*readout, targets_N, weights_N, smoothing, dtype, wanted)
    return total


def rows_of_slice(weight_VD: Tensor) -> int:
    """The number of positions whose logits exist at a time."""
    size = SLICE
    if weight_VD.is_cuda:
        size = torch.cuda.get_device_properties(weight_VD.device).total_memory // GPU_SHARE
    return max(1, size // len(weight_VD))


# A custom operator: torch 2.11 compiles the loop over slices to a wrong gradient on a GPU.
@torch.library.custom_op("regard::linear_cross_entropy", mutates_args=())
def _with_gradients(
    features_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor,
    targets_N: Tensor,
    weights_N: Tensor,
    smoothing: float,
    dtype: torch.dtype,
    bias_gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(loss, gradient of the features, of the weights, of the bias: zeros if it is not wanted)."""
    fused = features_ND.is_cuda and dtype != torch.float64
    loss_and_gradient = _kernel() if fused else specification
    size = len(weight_VD)
    more = -size % ALIGNMENT if fused else 0
    weight_CD, bias_C = F.pad(weight_VD.to(dtype), (0, 0, 0, more)), F.pad(bias_V.to(dtype), (0, more))
    rows = rows_of_slice(weight_VD)
    slices = (tensor.split(rows) for tensor in (features_ND, targets_N, weights_N))
    total, grad_features = weights_N.new_zeros(()), list[Tensor]()
    grad_weight_CD, grad_bias_C = None, weights_N.new_zeros(len(weight_CD))
    for features, targets, weights in zip(*slices, strict=True):
        inputs = features.to(dtype)
        logits_NC = linear(inputs, weight_CD, bias_C)
        loss_N, grad_NC = loss_and_gradient(logits_NC, size, targets, weights, smoothing)
        total += (loss_N * weights).sum()
        grad_features.append(linear(grad_NC, weight_CD.T).to(features.dtype))
        product_CD = _product(grad_NC.T, inputs, weight_VD.dtype)
        grad_weight_CD = product_CD if grad_weight_CD is None else grad_weight_CD.add_(product_CD)
        if bias_gradient:
            grad_bias_C += grad_NC.sum(0, dtype=grad_bias_C.dtype)
    assert grad_weight_CD is not None
    grad_bias_V = grad_bias_C[:size].to(bias_V.dtype, copy=True)
    return total, torch.cat(grad_features), grad_weight_CD[:size].clone(), grad_bias_V


def specification(
    logits_NV: Tensor, size: int, targets_N: Tensor, weights_N: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """(losses_N, gradients_NV) by torch's functions; the kernel for GPUs computes the same."""
    log_probs_NV = F.log_softmax(logits_NV, 1, dtype=weights_N.dtype)
    target_N1 = targets_N.clamp(min=0).unsqueeze(1)
    loss_N = (smoothing - 1) * log_probs_NV.gather(1, target_N1).squeeze(1)
    if smoothing:
        loss_N = loss_N - smoothing * log_probs_NV.mean(1)
    grad_NV = log_probs_NV.exp_().sub_(smoothing / size)
    grad_NV.scatter_add_(1, target_N1, torch.full_like(target_N1, smoothing - 1, dtype=grad_NV.dtype))
    return loss_N, grad_NV.mul_(weights_N.unsqueeze(1)).to(logits_NV.dtype)


def _product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix product whose sums stay in `dtype` where the device can do so."""
    if left.is_cuda and left.dtype != dtype:
        return torch.mm(left, right, out_dtype=dtype)
    return linear(left, right.T).to(dtype)


def _kernel() -> LossAndGradient:
    """The kernel for GPUs. Triton comes with torch on machines that have one."""
    from regard.parts.kernels.cross_entropy import loss_and_gradient

    return loss_and_gradient


@_with_gradients.register_fake
def _(features_ND, weight_VD, bias_V, targets_N, weights_N, smoothing, dtype, bias_gradient):
    gradients = (torch.empty_like(tensor) for tensor in (features_ND, weight_VD, bias_V))
    return weights_N.new_empty(()), *gradients


def _keep_gradients(ctx, inputs, output) -> None:
    ctx.save_for_backward(*output[1:])


def _backward(ctx, grad_total, *_):
    return *(grad * grad_total for grad in ctx.saved_tensors), None, None, None, None, None


_with_gradients.register_autograd(_backward, setup_context=_keep_gradients)
