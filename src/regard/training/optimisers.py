"""The optimisers (AdamW, Muon, SGD) and the schedule of the learning rate (warm-up and decay)."""

import math

import torch
from torch import nn

from regard.training.muon import Muon
from regard.training.options import TrainingOptions


def rate(progress: float, options: TrainingOptions) -> float:
    """Return the learning rate, as a share of the highest one, after the share `progress` of the training.

    The rate rises linearly during the warm-up, and then falls to `floor` along a cosine or a line.
    """
    if progress < options.warmup:
        return (progress + 1e-3) / (options.warmup + 1e-3)
    left = 1 - min(1.0, (progress - options.warmup) / (1 - options.warmup))
    height = left if options.decay == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)
    return options.floor + (1 - options.floor) * height


def make_optimisers(model: nn.Module, options: TrainingOptions) -> list[torch.optim.Optimizer]:
    """Make the optimisers of a model. Weight decay applies to matrices only.

    Muon updates the matrices inside the model. Embeddings, readouts and vectors are then left to AdamW, as
    Muon's author recommends (Jordan 2024).
    """
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    outer = {name for name, _ in named if {"embedding", "readout", "positions"} & set(name.split("."))}
    inner = [parameter for name, parameter in named if parameter.dim() == 2 and name not in outer]
    others = [parameter for name, parameter in named if parameter.dim() == 2 and name in outer]
    vectors = [parameter for _, parameter in named if parameter.dim() != 2]
    optimisers = list[torch.optim.Optimizer]()
    if options.optimiser == "muon" and inner:
        optimisers.append(Muon(inner, lr=options.learning_rate, weight_decay=options.weight_decay))
        inner = []
    decayed = {"params": inner + others, "weight_decay": options.weight_decay}
    groups = [group for group in (decayed, {"params": vectors, "weight_decay": 0.0}) if group["params"]]
    if options.optimiser == "sgd":
        # Sparse gradients, of which a step touches only some rows, need the plain loop over parameters.
        fused = not any(isinstance(module, nn.Embedding) and module.sparse for module in model.modules())
        return [torch.optim.SGD(groups, lr=options.learning_rate, fused=fused, foreach=False)]
    optimisers.append(
        torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, options.beta2), fused=True)
    )
    return optimisers


def current_rate(optimisers: list[torch.optim.Optimizer]) -> float:
    """Return the learning rate that was set last."""
    return optimisers[0].param_groups[0]["lr"]


def set_rate(optimisers: list[torch.optim.Optimizer], learning_rate: float) -> None:
    """Set the learning rate of every group of parameters."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = learning_rate
