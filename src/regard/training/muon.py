"""Muon for many matrices at once (Jordan et al. 2024): momentum, orthogonalised by Newton and Schulz's iteration.

    M = mu M + (1 - mu) G;   U = orthogonalise(mu M + (1 - mu) G)
    W = W - rate * decay * W - rate * 0.2 sqrt(max(m, n)) U

Matrices of one shape are stacked, and each product of the iteration is one batched product over the stack:
torch.optim.Muon runs the products of each matrix alone, which leaves a GPU idle between small kernels.

Shape legend: P parameters of one shape, M rows, N columns.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, final

import torch
from torch import Tensor, nn

A, B, C = 3.4445, -4.775, 2.0315  # the coefficients of the iteration (Jordan et al. 2024)
ITERATIONS = 5


@final
class Muon(torch.optim.Optimizer):
    """Equal to torch.optim.Muon with `adjust_lr_fn="match_rms_adamw"`, up to the order of bf16 sums."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float = 0.95
    ):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for parameters in by_shape.values():
                self._step(parameters, group)

    def _step(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Move all matrices of one shape."""
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        momenta = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_lerp_(momenta, grads, 1 - group["momentum"])
        nesterov = torch._foreach_lerp(grads, momenta, group["momentum"])
        update_PMN = orthogonalise(torch.stack(list(nesterov)))
        scale = 0.2 * math.sqrt(max(parameters[0].shape))  # the size of an update of AdamW (Liu et al. 2025)
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        updates = update_PMN.to(parameters[0].dtype).unbind()
        torch._foreach_add_(parameters, updates, alpha=-group["lr"] * scale)


def orthogonalise(matrix_PMN: Tensor) -> Tensor:
    """Move all singular values of each matrix towards 1, in bf16: five steps of X = a X + (b X X^T + c (X X^T)^2) X."""
    wide = matrix_PMN.shape[1] <= matrix_PMN.shape[2]
    x_PMN = (matrix_PMN if wide else matrix_PMN.transpose(1, 2)).bfloat16()
    x_PMN = x_PMN / x_PMN.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram_PMM = x_PMN @ x_PMN.transpose(1, 2)
        polynomial_PMM = torch.baddbmm(gram_PMM, gram_PMM, gram_PMM, beta=B, alpha=C)
        x_PMN = torch.baddbmm(x_PMN, polynomial_PMM, x_PMN, beta=A)
    return x_PMN if wide else x_PMN.transpose(1, 2)
