"""Measures of how far back a model remembers: gradients, recurrent weights, gates, and the worth of context.

    reach(k)      mean over rows of || d nll_t / d e(w_{t-k}) ||, relative to k = 1
    powers(k)     || V^k ||_2 of a recurrent layer h_i = tanh(W w_i + V h_{i-1}), a bound of the reach because
                  tanh' <= 1
    holds(k)      mean over units and positions of f_t f_{t-1} .. f_{t-k+1}, f the gate that keeps the state
    rise(k)       nll_t with the context beyond the last k words cut, shuffled or thinned out, minus nll_t
                  with the whole context (Khandelwal et al. 2018)

Shape legend: B rows, T positions, G gates, D width.
"""

import math
import statistics
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.inside.stages import Stage, finished, share_of
from regard.inside.word_vectors import Vectors, changed_vectors
from regard.models.contract import LanguageModel
from regard.parts.look import Look
from regard.runs.run import Run
from regard.text.builtin import built_in_text
from regard.text.files import Source

DISTANCES = (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100, 140, 200, 300, 500)
CONTEXTS = (1, 2, 5, 10, 20, 50, 100, 200)
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
ROWS, FEWEST = 32, 8  # rows of text, and how many a length needs
GRADIENT_ROWS = 16
HOLDING = ("forget", "update")  # gates that keep the state
CHANGES = ("cut", "shuffled", "thinned")


@dataclass(frozen=True)
class Rise:
    """The rise of the loss, in nats per token, if the context before the last `beyond` words is changed."""

    change: str
    beyond: int
    rise: float
    error: float  # standard error of the mean over rows

    def to_json(self) -> dict[str, Any]:
        return {"change": self.change, "beyond": self.beyond, "rise": self.rise, "error": self.error}


@dataclass(frozen=True)
class Speed:
    length: int
    steps: int  # that have to wait for one another
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {"length": self.length, "sequential_steps": self.steps, "seconds": self.seconds}


@dataclass(frozen=True)
class Forgetting:
    """The measurements of one run."""

    name: str
    family: str
    loss: float  # with the whole context
    words: int  # of the whole context
    reach: dict[int, float]  # relative to 1; empty for a family without word vectors
    first: float | None  # the norm at 1
    rises: list[Rise]
    powers: dict[str, dict[int, float]]  # of each plain recurrent layer
    holds: dict[str, dict[int, float]]  # of each gate that keeps a state
    speeds: list[Speed]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "family": self.family,
            "loss": self.loss,
            "words": self.words,
            "reach": {str(k): value for k, value in self.reach.items()},
            "norm_at_1": self.first,
            "rises": [rise.to_json() for rise in self.rises],
            "powers": {site: {str(k): v for k, v in curve.items()} for site, curve in self.powers.items()},
            "holds": {site: {str(k): v for k, v in curve.items()} for site, curve in self.holds.items()},
            "speeds": [speed.to_json() for speed in self.speeds],
            "notes": self.notes,
        }


def forgetting(run: Run, name: str, sources: Sequence[Source], notes: Sequence[str] = ()) -> Forgetting:
    """Measure one run on a text."""
    return finished(forgetting_stages(run, name, sources, notes))


def forgetting_stages(
    run: Run, name: str, sources: Sequence[Source], notes: Sequence[str] = ()
) -> Generator[Stage, None, Forgetting]:
    """Yield each stage before it begins, and return the measurements."""
    model = run.language_model
    if model.given is not None:
        raise UserError(
            f"{name}: forgetting is measured on models that go on from a text, not on {model.family}"
        )
    model.eval()
    rows_BT = _rows(run, sources, name)
    yield Stage("gradients of the loss by distant words", 0)
    reach, first = gradient_reach(model, rows_BT[:GRADIENT_ROWS])
    loss, rises = yield from share_of("the worth of distant words", (0.1, 0.9), rising(model, rows_BT))
    yield Stage("gates, recurrent weights and the time to read", 0.9)
    powers, holds = power_norms(model), gate_products(model, rows_BT[:GRADIENT_ROWS, :-1])
    return Forgetting(
        name,
        model.family,
        loss,
        rows_BT.shape[1] - 2,
        reach,
        first,
        rises,
        powers,
        holds,
        speeds(model, rows_BT[0]),
        list(notes),
    )


def own_sources(run: Run) -> tuple[list[Source], list[str]]:
    """Return the held-out text of a run, or the built-in text and a note that says so."""
    try:
        return run.own_text(), []
    except (UserError, OSError):
        note = "its own held-out text is gone or was never given: measured on the built-in text"
        return [built_in_text()], [note]


def _rows(run: Run, sources: Sequence[Source], name: str) -> Tensor:
    """(B, T): a start mark and the first tokens of a document in each row, as long as the documents allow."""
    encoded = run.tokenizer.encode_texts([source.text for source in sources])
    lengths = encoded.lengths_D.sort(descending=True).values
    longest = min(
        DISTANCES[-1] + 1, run.language_model.context or DISTANCES[-1] + 1
    )  # read words, the start mark included
    length = next((size for size in range(longest, 1, -1) if int((lengths // size).sum()) >= FEWEST), 0)
    if length < 2:
        raise UserError(f"{name}: the text is too short to measure what is forgotten; give more with `text`")
    ids, rows = encoded.ids_N.long(), list[Tensor]()
    starts = [
        first
        for start, end in zip(encoded.starts_D.tolist(), encoded.ends_D.tolist(), strict=True)
        for first in range(start, end - length + 1, length)
    ]
    step = max(1, len(starts) // ROWS)
    for first in starts[::step][:ROWS]:
        rows.append(torch.cat([ids.new_tensor([run.language_model.start]), ids[first : first + length]]))
    return torch.stack(rows)


def gradient_reach(model: LanguageModel, rows_BT: Tensor) -> tuple[dict[int, float], float | None]:
    """Return the reach by distance, and the norm at distance 1. Without word vectors there is none."""
    tokens_BT, targets_B = rows_BT[:, :-1].to(model.device), rows_BT[:, -1:].to(model.device)
    vectors = Vectors()
    with changed_vectors(model, tokens_BT, vectors.keep):
        prediction, _ = model.read_from_start(tokens_BT)
        if not vectors.by_layer:
            return {}, None
        last_B1 = torch.full_like(targets_B, tokens_BT.shape[1] - 1)
        loss = prediction.at(last_B1).nll(targets_B).sum()
        grads = torch.autograd.grad(loss, vectors.leaves(model.family), allow_unused=True)
    square_BT = torch.stack([grad.double().pow(2).sum(2) for grad in grads if grad is not None]).sum(0)
    norm_T = square_BT.sqrt().mean(0)
    read = tokens_BT.shape[1]
    # the start mark is no word of the text
    norms = {k: float(norm_T[read - k]) for k in DISTANCES if k < read}
    return {k: norm / max(norms[1], 1e-300) for k, norm in norms.items()}, norms[1]


def context_rises(model: LanguageModel, rows_BT: Tensor) -> tuple[float, list[Rise]]:
    """Return the loss of the last token with its whole context, and the rises after each change."""
    return finished(rising(model, rows_BT))


def rising(model: LanguageModel, rows_BT: Tensor) -> Generator[float, None, tuple[float, list[Rise]]]:
    """Yield the share of the changes that were measured, and return what `context_rises` does."""
    generator = torch.Generator().manual_seed(1)
    words_BT, targets_B1 = rows_BT[:, 1:-1], rows_BT[:, -1:]
    whole_B = _last_loss(model, words_BT, targets_B1)
    rises = list[Rise]()
    for change in CHANGES:
        for beyond in (k for k in CONTEXTS if k < words_BT.shape[1]):
            yield len(rises) / (len(CHANGES) * len(CONTEXTS))
            far, near = words_BT[:, :-beyond], words_BT[:, -beyond:]
            changed_BT = torch.cat([_changed(far, change, generator), near], 1)
            difference_B = _last_loss(model, changed_BT, targets_B1) - whole_B
            error = float(difference_B.std()) / math.sqrt(len(difference_B)) if len(difference_B) > 1 else 0.0
            rises.append(Rise(change, beyond, float(difference_B.mean()), error))
    return float(whole_B.mean()), rises


def _changed(far_BT: Tensor, change: str, generator: torch.Generator) -> Tensor:
    """Cut the distant context off, shuffle it, or leave out every second word."""
    if change == "cut":
        return far_BT[:, :0]
    order_BT = torch.rand(far_BT.shape, generator=generator).argsort(1)
    if change == "thinned":
        order_BT = order_BT[:, : far_BT.shape[1] // 2].sort(1).values
    return far_BT.gather(1, order_BT)


@torch.inference_mode()
def _last_loss(model: LanguageModel, words_BT: Tensor, targets_B1: Tensor) -> Tensor:
    """(B,): the loss of the last token, in float64."""
    tokens_BT = torch.cat([torch.full_like(targets_B1, model.start), words_BT], 1).to(model.device)
    rows = max(1, model.batch_tokens // tokens_BT.shape[1])
    losses = []
    for tokens, targets in zip(tokens_BT.split(rows), targets_B1.to(model.device).split(rows), strict=True):
        prediction, _ = model.read_from_start(tokens)
        losses.append(prediction.at(torch.full_like(targets, tokens.shape[1] - 1)).nll(targets)[:, 0])
    return torch.cat(losses).double().cpu()


def power_norms(model: LanguageModel) -> dict[str, dict[int, float]]:
    """Return || V^k ||_2 of every plain recurrent layer, in float64."""
    curves = {}
    layers = [module for module in model.modules() if type(module) is nn.RNN]
    for number, layer in enumerate(layers):
        power = matrix = layer.get_parameter("weight_hh_l0").detach().double().cpu()
        curve, at = dict[int, float](), 1
        for k in DISTANCES:
            for _ in range(k - at):
                power = power @ matrix
            at = k
            curve[k] = float(torch.linalg.matrix_norm(power, 2))
        curves[f"layer{number}"] = curve
    return curves


@torch.inference_mode()
def gate_products(model: LanguageModel, tokens_BT: Tensor) -> dict[str, dict[int, float]]:
    """Return the mean over units and positions of the product of k successive gates that keep the state."""
    gates = {
        name: (site.parts.index(part), part)
        for name, site in model.sites().items()
        for part in HOLDING
        if part in site.parts
    }
    if not gates:
        return {}
    look = Look(list(gates))
    model.read_from_start(tokens_BT.to(model.device), look=look)
    curves = {}
    for name, (place, part) in gates.items():
        log_BTD = look.values[name][:, place].double().clamp(min=1e-300).log()
        sums_BTD = torch.nn.functional.pad(log_BTD.cumsum(1), (0, 0, 1, 0))
        curves[f"{name} {part}"] = {
            k: float((sums_BTD[:, k:] - sums_BTD[:, :-k]).exp().mean())
            for k in DISTANCES
            if k <= log_BTD.shape[1]
        }
    return curves


@torch.inference_mode()
def speeds(model: LanguageModel, row_T: Tensor) -> list[Speed]:
    """Measure the seconds to read each number of tokens and predict the next one: the median of three."""
    measured = []
    for length in LENGTHS:
        if model.context is not None and length > model.context:
            break
        repeats = math.ceil(length / max(1, len(row_T) - 1))
        words = row_T[1:].repeat(repeats)[: length - 1]
        tokens_1T = torch.cat([row_T[:1], words]).unsqueeze(0).to(model.device)
        times = []
        for _ in range(4):
            began = time.perf_counter()
            prediction, _ = model.read_from_start(tokens_1T)
            prediction.at(torch.tensor([[length - 1]], device=model.device)).log_probs().cpu()
            times.append(time.perf_counter() - began)
        measured.append(Speed(length, sequential_steps(model, length), statistics.median(times[1:])))
    return measured


def sequential_steps(model: LanguageModel, length: int) -> int:
    """Return the number of steps that must wait for each other: one per token and recurrent layer, or 1."""
    layers = sum(module.num_layers for module in model.modules() if isinstance(module, nn.RNNBase))
    return length * layers if layers else 1
