"""The four controls of Wiegreffe and Pinter (2019), trained on the run's own training text.

    uniform weights     the same family with uniform weights, which tests whether attention is needed
    other seeds         the same family with another seed, which measures how far weights differ by chance
    frozen weights      a model that reads each word alone mixes the words by the run's weights, or by uniform
                        weights, which tests whether the weights help another model
    adversary           trained end to end with loss TVD(y_a, y_b) - lambda KL(alpha_a || alpha_b), where b is
                        the run, which looks for the same predictions with other weights

Shape legend: B rows, T positions, H heads of all sites, K columns, D width.
"""

import copy
import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.inside.attention_rows import Recorder, weight_sites
from regard.inside.moved_attention import divergence
from regard.machine.device import choose_machine
from regard.models.contract import LanguageModel, State
from regard.models.wrappers.edited import Edited
from regard.parts.edits import Uniform
from regard.parts.look import Look
from regard.runs.run import Run, TextRecord
from regard.text.builtin import BUILT_IN, built_in_text
from regard.text.files import read_file
from regard.tokens.schedule import Corpus, WindowSchedule
from regard.training.loop import descend
from regard.training.options import TrainingOptions
from regard.training.task import Batches, Task, ignore_reports
from regard.training.tasks.plain_text import TextBatches

LENGTH, ROWS = 64, 16  # tokens of a row, rows of a batch and of the measure
LAMBDAS = (0.01, 0.1)
TRAININGS = 5 + len(LAMBDAS)
HELD = 0.1  # of the training text: measured on, not trained on


@dataclass(frozen=True)
class Control:
    name: str
    loss: float  # nats a token on text that no control was trained on
    # The divergence of its weights from the run's, as a mean over heads of a site. None: it has no weights.
    divergence: float | None
    variation: float | None  # the variation of its predictions from the run's
    steps: int

    def to_json(self) -> dict[str, Any]:
        names = ("name", "loss", "divergence", "variation", "steps")
        return {name: getattr(self, name) for name in names}


def training_text(run: Run) -> list[str]:
    """Read the run's own training text again."""
    records = run.config.texts.train
    if not records:
        raise UserError("this run does not say what it was trained on: controls need its own training text")
    return [_again(run, record) for record in records]


def _again(run: Run, record: TextRecord) -> str:
    gone = (
        f"controls need the run's own training text, and {record.name} is gone or has changed: "
        "train the run again"
    )
    if record.name == "-":
        raise UserError(gone)
    try:
        whole = built_in_text() if record.name == BUILT_IN else read_file(record.paths(run.folder)[0])
    except (UserError, OSError):
        raise UserError(gone) from None
    part = whole.text[record.first :].encode()[: record.bytes]
    if hashlib.sha256(part).hexdigest() != record.sha256:
        raise UserError(gone)
    return part.decode()


Objective = Callable[[LanguageModel], nn.Module]


@final
class Windows(Task[LanguageModel]):
    """A task whose rows begin anew, with any objective."""

    def __init__(self, corpus: Any, length: int, objective: Objective):
        self._text, self._length, self._make = corpus, length, objective

    def batches(
        self, model: LanguageModel, options: TrainingOptions, seed: int, device: torch.device
    ) -> Batches:
        schedule = WindowSchedule(self._text, self._length, ROWS, seed)
        return TextBatches(schedule, Corpus.of(self._text, model.start, device), model.padding, device)

    def objective(self, model: LanguageModel, options: TrainingOptions) -> nn.Module:
        return self._make(model)


@final
class Likelihood(nn.Module):
    """The usual loss of a model, on rows that begin anew."""

    def __init__(self, model: LanguageModel):
        super().__init__()
        self.model = model

    def forward(
        self, tokens_BT: Tensor, targets_BT: Tensor, state: State | None
    ) -> tuple[Tensor, State | None]:
        prediction, _ = self.model(tokens_BT, self.model.begin(len(tokens_BT)), padded="right")
        return prediction.loss(targets_BT)[0], None


@final
class Adversary(nn.Module):
    """The loss TVD(y_a, y_b) - lambda KL(alpha_a || alpha_b), times the number of targets."""

    def __init__(self, model: LanguageModel, base: LanguageModel, weight: float):
        super().__init__()
        self.model, self.weight = model, weight
        self._base = [base]  # not a part of what is trained

    def forward(
        self, tokens_BT: Tensor, targets_BT: Tensor, state: State | None
    ) -> tuple[Tensor, State | None]:
        own, own_maps = read_with_maps(self.model, tokens_BT)
        with torch.no_grad():
            other, other_maps = read_with_maps(self._base[0], tokens_BT)
        real_BT = targets_BT >= 0
        variation_BT = (own.exp() - other.exp()).abs().sum(2) / 2
        kl = torch.stack([_divergence_kl(own_maps[name], other_maps[name]) for name in own_maps]).mean()
        loss = (variation_BT * real_BT).sum() / real_BT.sum() - self.weight * kl
        return loss * real_BT.sum(), None


def _divergence_kl(own_BHTK: Tensor, other_BHTK: Tensor) -> Tensor:
    """Return the mean over rows of KL(own || other). A floor under `other` keeps the mean finite."""
    rows_BHT = own_BHTK.sum(3) > 0
    log_ratio = own_BHTK.clamp(min=1e-12).log() - other_BHTK.clamp(min=1e-6).log()
    return ((own_BHTK * log_ratio).sum(3) * rows_BHT).sum() / rows_BHT.sum().clamp(min=1)


def read_with_maps(model: LanguageModel, tokens_BT: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the log-probabilities and the weights of every site. Gradients go through both."""
    kept = dict[str, Tensor]()

    def keep(name: str):
        def change(weights: Tensor, place: Any) -> Tensor:
            kept[name] = weights
            return weights

        return change

    look = Look(changes={site.name: keep(site.name) for site in weight_sites(model, "to control")})
    prediction, _ = model(tokens_BT, model.begin(len(tokens_BT)), look, "right")
    return prediction.log_probs(), kept


@final
class WithoutContext(nn.Module):
    """Single words, mixed by another model's weights: h_t = x_t + sum over h, j of W_htj V_h x_j."""

    def __init__(self, base: LanguageModel, width: int, heads: int, uniform: bool):
        super().__init__()
        self._base, self.uniform, self.heads = [base], uniform, heads
        size = base.vocabulary_size
        self.embedding = nn.Embedding(size + 2, width)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.value = nn.Linear(width, heads * width, bias=False)
        self.readout = nn.Linear(width, size)
        nn.init.normal_(self.value.weight, std=0.02)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """(B, T, V): log-probabilities."""
        with torch.no_grad():
            recorder = Recorder(weight_sites(self._base[0], "to control"))
            base = self._base[0]
            base(tokens_BT, base.begin(len(tokens_BT)), recorder.look(), "right")
        maps = []
        for weighing in recorder.weighings.values():
            seen = weighing.visible_BHQK.to(weighing.weights_BHQK.dtype)
            even = seen / seen.sum(3, keepdim=True).clamp(min=1)
            maps.append((even if self.uniform else weighing.weights_BHQK)[..., : tokens_BT.shape[1]])
        x_BTD = self.inner(self.embedding(tokens_BT))
        value_BHTD = self.value(x_BTD).unflatten(2, (self.heads, -1)).transpose(1, 2)
        mixed_BTD = (torch.cat(maps, 1) @ value_BHTD).sum(1)
        return self.readout(x_BTD + mixed_BTD).log_softmax(2)


@final
class Guided(nn.Module):
    """The loss of a model without context. The model is a part of `holder`, which the loop trains."""

    def __init__(self, holder: LanguageModel, inner: WithoutContext):
        super().__init__()
        self.holder, self.inner = holder, inner

    def forward(
        self, tokens_BT: Tensor, targets_BT: Tensor, state: State | None
    ) -> tuple[Tensor, State | None]:
        return _nll(self.inner(tokens_BT), targets_BT).sum(), None


def _nll(log_probs_BTV: Tensor, targets_BT: Tensor) -> Tensor:
    chosen_BT = log_probs_BTV.gather(2, targets_BT.clamp(min=0).unsqueeze(2)).squeeze(2)
    return torch.where(targets_BT < 0, 0.0, -chosen_BT)


@dataclass
class Controls:
    """The data and options that all trainings share."""

    run: Run
    minutes: float
    seed: int = 1
    results: list[Control] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.base = self.run.language_model.eval()
        if self.base.given is not None or self.base.learns != "descent":
            raise UserError(
                f"controls are for language models that learn by descent, not for {self.base.family}"
            )
        weight_sites(self.base, "to control")
        texts = training_text(self.run)
        encoded = self.run.tokenizer.encode_texts(texts)
        self.length = min(self.base.context or LENGTH, LENGTH)
        held = max(ROWS * (self.length + 1), int(HELD * len(encoded)))
        if len(encoded) < 2 * held:
            raise UserError("the run's training text is too short to hold a part out for controls")
        self.train = encoded.first(len(encoded) - held)
        self.rows = self._held_rows(encoded.ids_N[len(encoded) - held :].long())

    def _held_rows(self, ids_N: Tensor) -> tuple[Tensor, Tensor]:
        """Return tokens and targets: rows from the whole held-out part, each after a start mark."""
        step = len(ids_N) // ROWS
        rows = torch.stack([ids_N[row * step : row * step + self.length] for row in range(ROWS)])
        start_B1 = torch.full((ROWS, 1), self.base.start)
        return torch.cat([start_B1, rows[:, :-1]], 1).to(self.base.device), rows.to(self.base.device)

    def options(self) -> TrainingOptions:
        defaults = {**type(self.base).training_defaults, **(self.run.config.training or {})}
        wanted = ("optimiser", "learning_rate", "warmup", "weight_decay")
        own = {name: defaults[name] for name in wanted if name in defaults}
        return TrainingOptions(**own, minutes=self.minutes / TRAININGS, evaluate_every=1 << 30)

    def learn(self, model: LanguageModel, objective: Objective) -> int:
        task = Windows(self.train, self.length, objective)
        self.seed += 1
        with tempfile.TemporaryDirectory() as folder:
            machine = choose_machine("fp32")
            progress = descend(model, task, self.options(), self.seed, Path(folder), machine, ignore_reports)
        model.to(self.base.device).eval()
        return progress.step

    def fresh(self) -> LanguageModel:
        torch.manual_seed(self.seed)
        return type(self.base)(self.base.vocabulary_size, self.base.config)

    @torch.no_grad()
    def measure(self, name: str, log_probs: Tensor, maps: Mapping[str, Tensor], steps: int) -> None:
        tokens_BT, targets_BT = self.rows
        own, own_maps = read_with_maps(self.base, tokens_BT)
        far = [
            divergence(maps[site].mean(1), weights.mean(1))[(weights.mean(1) > 0).sum(2) > 1].mean()
            for site, weights in own_maps.items()
            if site in maps
        ]
        self.results.append(
            Control(
                name,
                float(_nll(log_probs, targets_BT).mean()),
                float(torch.stack(far).mean()) if far else None,
                float((log_probs.exp() - own.exp()).abs().sum(2).mean() / 2),
                steps,
            )
        )


def run_controls(run: Run, minutes: float) -> list[Control]:
    """Train the controls for `minutes` in all. Measure them and the run on text that no control has read."""
    if not minutes > 0:
        raise UserError("`minutes` must be above 0")
    shared = Controls(run, minutes)
    tokens_BT, _ = shared.rows
    with torch.no_grad():
        log_probs, maps = read_with_maps(shared.base, tokens_BT)
    shared.measure("the run itself (it has seen this text)", log_probs, maps, run.config.steps)
    for number in (1, 2):
        model = shared.fresh()
        steps = shared.learn(model, Likelihood)
        with torch.no_grad():
            shared.measure(f"seed {number}", *read_with_maps(model, tokens_BT), steps)
    _uniform(shared)
    for uniform in (False, True):
        _guided(shared, uniform)
    for weight in LAMBDAS:
        model = copy.deepcopy(shared.base)
        steps = shared.learn(model, partial(Adversary, base=shared.base, weight=weight))
        with torch.no_grad():
            shared.measure(f"adversary, lambda {weight:g}", *read_with_maps(model, tokens_BT), steps)
    return shared.results


def _uniform(shared: Controls) -> None:
    sites = [site.name for site in weight_sites(shared.base, "to control")]

    def flat(model: LanguageModel) -> Edited:
        return Edited(model, {name: Uniform(site=name) for name in sites})

    model = shared.fresh()
    steps = shared.learn(model, lambda trained: Likelihood(flat(trained)))
    with torch.no_grad():
        shared.measure("uniform weights", *read_with_maps(flat(model), shared.rows[0]), steps)


def _guided(shared: Controls, uniform: bool) -> None:
    with torch.no_grad():
        _, maps = read_with_maps(shared.base, shared.rows[0])
    heads = sum(weights.shape[1] for weights in maps.values())
    width = next(module.embedding_dim for module in shared.base.modules() if isinstance(module, nn.Embedding))
    holder = shared.fresh()
    holder.requires_grad_(False)
    torch.manual_seed(shared.seed)
    without_context = WithoutContext(shared.base, width, heads, uniform)
    holder.without_context = without_context  # so that the loop trains its parameters
    steps = shared.learn(holder, partial(Guided, inner=without_context))
    with torch.no_grad():
        name = "words alone, mixed by " + ("uniform weights" if uniform else "the run's frozen weights")
        shared.measure(name, without_context(shared.rows[0]), {}, steps)
