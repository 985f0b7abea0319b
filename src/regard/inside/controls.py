"""The four controls of Wiegreffe and Pinter (2019), trained on the run's own training text.

    uniform weights     the same family with uniform weights, which tests whether attention is needed
    other seeds         the same family with another seed, which measures how far weights differ by chance
    frozen weights      a model that reads each word alone mixes the words by the run's weights, or by uniform
                        weights, which tests whether the weights help another model
    adversary           trained end to end with loss TVD(y_a, y_b) - lambda KL(alpha_a || alpha_b), where b is
                        the run, which looks for the same predictions with other weights

text_controls.py has the controls of language models, label_controls.py those of classifiers.

Shape legend: B rows, T positions, H heads of all sites, Q rows of a site, K columns, N predictions (B, T or
B), V words or labels, D width.
"""

import copy
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, final

import torch
from torch import Tensor, nn

from regard.inside.attention_rows import Recorder, Weighing, weight_sites
from regard.inside.moved_attention import divergence
from regard.machine.device import choose_machine
from regard.models.model import M, Model
from regard.parts.edits import Uniform
from regard.parts.look import Look, Place
from regard.runs.run import Run
from regard.training.loop import descend
from regard.training.options import TrainingOptions
from regard.training.task import Task, ignore_reports

LAMBDAS = (0.01, 0.1)
TRAININGS = 5 + len(LAMBDAS)
Maps = dict[str, Tensor]  # the weights of each site, (B, H, Q, K)


@dataclass(frozen=True)
class Control:
    name: str
    loss: float  # nats a token, or a text, on text that no control was trained on
    right: float  # the share of these predictions whose likeliest token or label is the right one
    # The divergence of its weights from the run's, as a mean over heads of a site. None: it has no weights.
    divergence: float | None
    variation: float  # the variation of its predictions from the run's
    steps: int

    def to_json(self) -> dict[str, Any]:
        names = ("name", "loss", "right", "divergence", "variation", "steps")
        return {name: getattr(self, name) for name in names}


class Reader(ABC, Generic[M]):
    """The functions by which the controls read one kind of model."""

    @abstractmethod
    def log_probs(self, model: M, tokens_BT: Tensor, look: Look | None = None) -> Tensor:
        """(N, V): the log-probabilities of every prediction."""

    def with_maps(self, model: M, tokens_BT: Tensor) -> tuple[Tensor, Maps]:
        """Return the log-probabilities and the weights of every site. Gradients go through both.

        The rows of padding have no weights.
        """
        kept = dict[str, Tensor]()

        def keep(name: str):
            def change(weights_BHQK: Tensor, place: Place) -> Tensor:
                real_BQ = (place.row_BT >= 0).to(weights_BHQK.dtype)
                kept[name] = weights_BHQK * real_BQ[:, None, :, None]
                return weights_BHQK

            return change

        look = Look(changes={site.name: keep(site.name) for site in weight_sites(model, "to control")})
        return self.log_probs(model, tokens_BT, look), kept

    def weighings(self, model: M, tokens_BT: Tensor) -> list[Weighing]:
        """Return the weights of every site, and what each row may see, without gradients."""
        recorder = Recorder(weight_sites(model, "to control"))
        with torch.no_grad():
            self.log_probs(model, tokens_BT, recorder.look())
        return list(recorder.weighings.values())


def nll(log_probs_NV: Tensor, targets_N: Tensor) -> Tensor:
    """(N): the negative log-probability of each target, 0 where there is none (-1)."""
    chosen_N = log_probs_NV.gather(-1, targets_N.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where(targets_N < 0, 0.0, -chosen_N)


def mean_kl(own_BHQK: Tensor, other_BHQK: Tensor) -> Tensor:
    """Return the mean over rows of KL(own || other). A floor under `other` keeps the mean finite."""
    rows_BHQ = own_BHQK.sum(3) > 0
    log_ratio = own_BHQK.clamp(min=1e-12).log() - other_BHQK.clamp(min=1e-6).log()
    return ((own_BHQK * log_ratio).sum(3) * rows_BHQ).sum() / rows_BHQ.sum().clamp(min=1)


@final
class Adversary(nn.Module):
    """The loss TVD(y_a, y_b) - lambda KL(alpha_a || alpha_b), times the number of targets."""

    def __init__(self, reader: Reader, model: Model, base: Model, weight: float):
        super().__init__()
        self.model, self.weight = model, weight
        self._reader, self._base = reader, [base]  # the base is not a part of what is trained

    def forward(self, tokens_BT: Tensor, state: None = None, **targets: Tensor) -> tuple[Tensor, None]:
        (targets_N,) = targets.values()
        own_NV, own_maps = self._reader.with_maps(self.model, tokens_BT)
        with torch.no_grad():
            other_NV, other_maps = self._reader.with_maps(self._base[0], tokens_BT)
        real_N = targets_N >= 0
        variation_N = (own_NV.exp() - other_NV.exp()).abs().sum(-1) / 2
        kl = torch.stack([mean_kl(own_maps[name], other_maps[name]) for name in own_maps]).mean()
        loss = (variation_N * real_N).sum() / real_N.sum() - self.weight * kl
        return loss * real_N.sum(), None


class WithoutContext(nn.Module, ABC):
    """Single words, mixed by another model's weights: h_t = x_t + sum over h, j of W_htj V_h x_j."""

    def __init__(self, base: Model, width: int, heads: int, outputs: int):
        super().__init__()
        self.embedding = nn.Embedding(base.vocabulary_size + 2, width)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.value = nn.Linear(width, heads * width, bias=False)
        self.readout = nn.Linear(width, outputs)
        nn.init.normal_(self.value.weight, std=0.02)
        self.heads = heads

    def mixed(self, tokens_BT: Tensor, maps: list[Tensor]) -> Tensor:
        """(B, T, D): the states of the words, mixed by maps (B, H, T, T) with `heads` heads in all."""
        x_BTD = self.inner(self.embedding(tokens_BT))
        if not maps:
            return x_BTD
        value_BHTD = self.value(x_BTD).unflatten(2, (self.heads, -1)).transpose(1, 2)
        return x_BTD + (torch.cat(maps, 1) @ value_BHTD).sum(1)

    @abstractmethod
    def forward(self, tokens_BT: Tensor) -> Tensor:
        """(N, V): log-probabilities."""


def mixing(weighing: Weighing, length: int, uniform: bool) -> Tensor:
    """(B, H, Q, T): the weights of one site on the words of the call, or uniform weights on what it sees."""
    if not uniform:
        return weighing.weights_BHQK[..., :length]
    seen_BHQK = weighing.visible_BHQK.to(weighing.weights_BHQK.dtype)
    return (seen_BHQK / seen_BHQK.sum(3, keepdim=True).clamp(min=1))[..., :length]


@final
class Guided(nn.Module):
    """The loss of a model without context. The model is a part of `holder`, which the loop trains."""

    def __init__(self, holder: Model, inner: WithoutContext):
        super().__init__()
        self.holder, self.inner = holder, inner

    def forward(self, tokens_BT: Tensor, state: None = None, **targets: Tensor) -> tuple[Tensor, None]:
        (targets_N,) = targets.values()
        return nll(self.inner(tokens_BT), targets_N).sum(), None


class Controls(ABC, Generic[M]):
    """A run with its training text, ready for the trainings of all controls.

    The constructor raises a UserError if the run's training text is gone.
    """

    reader: Reader[M]
    tokens_BT: Tensor  # that the controls and the run are measured on, which no control is trained on
    targets_N: Tensor
    seen: bool  # whether the run itself was trained on them

    def __init__(self, run: Run, base: M):
        self.run, self.base, self.seed = run, base.eval(), 1
        self.machine = choose_machine("fp32")
        base.to(self.machine.device)
        self.results = list[Control]()

    @abstractmethod
    def task(self, objective: nn.Module) -> Task[M]:
        """Return the task that trains a model with this objective."""

    @abstractmethod
    def options(self, length: Mapping[str, Any]) -> TrainingOptions:
        """Return the run's own options of training, with another length."""

    @abstractmethod
    def fresh(self) -> M:
        """Return a model of the run's family and options with new weights."""

    @abstractmethod
    def likelihood(self, model: M) -> nn.Module:
        """Return the usual objective of a model."""

    @abstractmethod
    def without_context(self, width: int, uniform: bool) -> WithoutContext:
        """Return a new model that reads words alone, mixed by the run's weights or by uniform weights."""

    def train(self, **length: float) -> list[Control]:
        """Train every control, each for this length, and measure them and the run on the same texts."""
        itself = "the run itself (it has seen this text)" if self.seen else "the run itself"
        self._measure(itself, self.base, self.run.config.steps)
        for number in (1, 2):
            model = self.fresh()
            self._measure(f"seed {number}", model, self._learn(model, self.likelihood(model), length))
        model = self.fresh()
        flat: Any = model.with_changes({name: Uniform(site=name) for name in self.learned})
        self._measure("uniform weights", flat, self._learn(model, self.likelihood(flat), length))
        for uniform in (False, True):
            self._guided(uniform, length)
        for weight in LAMBDAS:
            model = copy.deepcopy(self.base)
            steps = self._learn(model, Adversary(self.reader, model, self.base, weight), length)
            self._measure(f"adversary, lambda {weight:g}", model, steps)
        return self.results

    @cached_property
    def learned(self) -> list[str]:
        """The sites whose weights are learned: those of a mean, for example, are not."""
        with torch.enable_grad():
            _, maps = self.reader.with_maps(self.base, self.tokens_BT[:1])
        return [name for name, weights in maps.items() if weights.requires_grad]

    def _learn(self, model: M, objective: nn.Module, length: Mapping[str, Any]) -> int:
        """Train a model and return the number of its steps."""
        self.seed += 1
        with tempfile.TemporaryDirectory() as folder:
            place, task = Path(folder), self.task(objective)
            options = self.options(length)
            progress = descend(model, task, options, self.seed, place, self.machine, ignore_reports)
        model.eval()
        return progress.step

    def _guided(self, uniform: bool, length: Mapping[str, Any]) -> None:
        tables = (module for module in self.base.modules() if isinstance(module, nn.Embedding))
        holder = self.fresh()
        holder.requires_grad_(False)
        torch.manual_seed(self.seed)
        inner = self.without_context(next(tables).embedding_dim, uniform)
        holder.without_context = inner  # so that the loop trains its parameters
        steps = self._learn(holder, Guided(holder, inner), length)
        name = "words alone, mixed by " + ("uniform weights" if uniform else "the run's frozen weights")
        with torch.no_grad():
            self._keep(name, inner.eval()(self.tokens_BT), {}, steps)

    @torch.no_grad()
    def _measure(self, name: str, model: M, steps: int) -> None:
        model.eval()
        log_probs_NV, maps = self.reader.with_maps(model, self.tokens_BT)
        self._keep(name, log_probs_NV, {site: maps[site] for site in self.learned}, steps)

    def _keep(self, name: str, log_probs_NV: Tensor, maps: Maps, steps: int) -> None:
        own_NV, own_maps = self.reader.with_maps(self.base, self.tokens_BT)
        far = list[Tensor]()
        for site, weights_BHQK in maps.items():
            own_BQK = own_maps[site].mean(1)
            free_BQ = (own_BQK > 0).sum(2) > 1
            far += [divergence(weights_BHQK.mean(1), own_BQK)[free_BQ].mean()] if free_BQ.any() else []
        self.results.append(
            Control(
                name,
                float(nll(log_probs_NV, self.targets_N).mean()),
                float((log_probs_NV.argmax(-1) == self.targets_N).float().mean()),
                float(torch.stack(far).mean()) if far else None,
                float((log_probs_NV.exp() - own_NV.exp()).abs().sum(-1).mean() / 2),
                steps,
            )
        )
