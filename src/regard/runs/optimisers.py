"""How weights move: AdamW, Muon for matrices, or plain gradient descent; warm-up and decay."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    steps: int | None = None
    """How many steps to train (1000, where no --minutes are given)."""
    minutes: float | None = None
    """How long to train, instead of --steps."""
    batch: int = 16
    """Rows a step."""
    segment: int = 64
    """Tokens of a row a step, where a state is carried (dan, window and recurrent models)."""
    learning_rate: float = 0.002
    """The highest learning rate."""
    warmup: float = 0.05
    """Share of the training in which the learning rate rises."""
    decay: Literal["cosine", "linear"] = "cosine"
    """How it falls after that."""
    floor: float = 0.01
    """The share of the highest learning rate that is left at the end."""
    label_smoothing: float = 0.0
    """Share of each target that goes to all tokens alike."""
    average: int = 1
    """Average the weights at the last so many validations, where that is better than the best of them."""
    weight_decay: float = 0.1
    """How strongly matrices are drawn to zero."""
    beta2: float = 0.99
    """AdamW's memory of squared gradients."""
    clip: float = 1.0
    """The largest norm of a gradient."""
    accumulate: int = 1
    """Batches added up for one step."""
    optimiser: Literal["adamw", "muon", "sgd"] = "adamw"
    """Muon moves matrices inside the model, AdamW the rest; sgd, plain gradient descent, wants --learning-rate 20 and --clip 0.25."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """bf16 for linear layers where this machine is faster so (auto measures it once)."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile; auto: on a GPU, for models without a carried state."""
    evaluate_every: int = 200
    """Steps between validations and checkpoints."""
    patience: int = 0
    """Stop after this many validations without a better one; 0 never stops early."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too, into the run's folder (needs regard[tensorboard])."""
    size: Literal["small", "medium"] = "small"
    """Which defaults: for seconds on a CPU, or for minutes on a GPU."""
    resume: bool = False
    """Go on with the run in --out; its options and text are those it began with."""

    def __post_init__(self) -> None:
        for name in ("steps", "minutes", "batch", "segment", "learning_rate", "clip", "accumulate", "evaluate_every", "average"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UserError(f"--{name.replace('_', '-')} must be above 0")
        if self.steps is not None and self.minutes is not None:
            raise UserError("give --steps or --minutes, not both")
        if not (0 <= self.warmup < 1 and 0 <= self.floor <= 1):
            raise UserError("--warmup and --floor are shares: 0 or more and below 1")
        if not 0 <= self.label_smoothing < 1:
            raise UserError("--label-smoothing is a share: 0 or more and below 1")
        if not 0 <= self.beta2 < 1 or self.weight_decay < 0 or self.patience < 0:
            raise UserError("--beta2 lies between 0 and 1; --weight-decay and --patience are 0 or more")
        if self.optimiser == "sgd" and self.learning_rate * self.weight_decay > 0.01:
            raise UserError(
                "--optimiser sgd takes --learning-rate times --weight-decay off every weight at each step: give --weight-decay 1e-6, or 0"
            )


def rate(progress: float, options: TrainingOptions) -> float:
    """The learning rate as a share of the highest, after a share of the training."""
    if progress < options.warmup:
        return (progress + 1e-3) / (options.warmup + 1e-3)
    left = 1 - min(1.0, (progress - options.warmup) / (1 - options.warmup))
    return options.floor + (1 - options.floor) * (left if options.decay == "linear" else 0.5 - 0.5 * math.cos(math.pi * left))


def make_optimisers(model: nn.Module, options: TrainingOptions) -> list[torch.optim.Optimizer]:
    """Matrices decay, vectors do not. Embeddings and readouts belong to AdamW, also beside Muon."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    outer = {name for name, _ in named if {"embedding", "readout", "positions"} & set(name.split("."))}
    inner = [parameter for name, parameter in named if parameter.dim() == 2 and name not in outer]
    others = [parameter for name, parameter in named if parameter.dim() == 2 and name in outer]
    vectors = [parameter for _, parameter in named if parameter.dim() != 2]
    optimisers = list[torch.optim.Optimizer]()
    if options.optimiser == "muon" and inner:
        optimisers.append(
            torch.optim.Muon(inner, lr=options.learning_rate, weight_decay=options.weight_decay, adjust_lr_fn="match_rms_adamw")
        )
        inner = []
    groups = [{"params": inner + others, "weight_decay": options.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if options.optimiser == "sgd":
        return [torch.optim.SGD(groups, lr=options.learning_rate, fused=True)]
    optimisers.append(torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, options.beta2), fused=True))
    return optimisers
