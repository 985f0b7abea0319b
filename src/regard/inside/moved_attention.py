"""Search for attention weights that are far from a model's own and keep its prediction.

The method follows Jain and Wallace (2019).

The search changes the row of weights of the last position in every head, in one site or in all sites
together. The distance is the Jensen-Shannon divergence in nats, averaged over heads. A prediction is kept if
its total variation is at most epsilon.

The divergence from a fixed distribution is convex, so it is largest at a corner of the simplex: all mass on
the least weighted position. The results show this bound beside the distance that the search found.

Shape legend: W worlds, H heads, K columns, V vocabulary.
"""

import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.inside.attention_rows import Recorder, weight_sites
from regard.inside.stages import finished
from regard.inside.subject import Subject
from regard.parts.look import Change, Look, Place

PERMUTATIONS, MIXTURES, STEPS, STARTS = 20, 12, 300, 3
TOLD = 10  # steps of the search between two of its stages
RATE, SAFE = (
    0.4,
    0.8,
)  # of the search: its first step size, and the share of epsilon from which on variation costs


@dataclass(frozen=True)
class Row:
    """The weights of one site in the row of the last position."""

    weights_HK: Tensor
    seen_HK: Tensor
    column_K: Tensor  # the position of each column; -1 where there is none, as beside the words

    @property
    def choices_H(self) -> Tensor:
        """(H,): the number of columns that each head can choose among, 0 for a head without weights."""
        return torch.where(self.weights_HK.sum(1) > 0, self.seen_HK.sum(1), 0)

    @property
    def free_H(self) -> Tensor:
        return self.choices_H > 1

    def most_H(self) -> Tensor:
        """(H,): the largest divergence that any weights can have from these."""
        return divergence(self.weights_HK, self.corner())

    def corner(self) -> Tensor:
        """(H, K): weights with all mass on the least weighted position."""
        least_H = self.weights_HK.masked_fill(~self.seen_HK, math.inf).argmin(1)
        corner_HK = torch.zeros_like(self.weights_HK).scatter(1, least_H.unsqueeze(1), 1.0)
        return corner_HK * self.weights_HK.sum(1, keepdim=True)

    def uniform(self) -> Tensor:
        even_HK = self.seen_HK / self.seen_HK.sum(1, keepdim=True).clamp(min=1)
        return even_HK.to(self.weights_HK.dtype) * self.weights_HK.sum(1, keepdim=True)

    def permuted(self, generator: torch.Generator) -> Tensor:
        """Return the weights of each head in a random order over its visible columns."""
        permuted_HK = self.weights_HK.clone()
        for head, seen_K in enumerate(self.seen_HK):
            places = seen_K.nonzero().squeeze(1)
            order = places[torch.randperm(len(places), generator=generator).to(places.device)]
            permuted_HK[head, places] = self.weights_HK[head, order]
        return permuted_HK

    def entropy(self) -> float | None:
        """Return the mean entropy of the heads, as a share of the largest possible entropy."""
        if not bool(self.free_H.any()):
            return None
        weights_HK = self.weights_HK / self.weights_HK.sum(1, keepdim=True).clamp(min=1e-12)
        share_H = torch.special.entr(weights_HK.clamp(min=0)).sum(1) / self.choices_H.clamp(min=2).log()
        return float(share_H[self.free_H].mean())


@dataclass(frozen=True)
class Moved:
    """The distances that the weights of some sites can move."""

    sites: tuple[str, ...]
    divergence: float  # the largest that was reached with the prediction within epsilon
    variation: float  # of the prediction there
    most: float  # the largest that any weights could reach from these
    entropy: float  # of the model's own weights, as a share of the largest
    permuted_divergence: float  # the medians over random orders
    permuted_variation: float
    uniform_divergence: float
    uniform_variation: float
    weights: dict[str, Tensor]  # (H, K) of each site, where the largest divergence was reached

    @property
    def name(self) -> str:
        return self.sites[0] if len(self.sites) == 1 else "all of them at once"

    def to_json(self) -> dict[str, Any]:
        names = ("divergence", "variation", "most", "entropy", "permuted_divergence", "permuted_variation")
        more = ("uniform_divergence", "uniform_variation")
        return {"sites": list(self.sites)} | {name: getattr(self, name) for name in (*names, *more)}


def divergence(first_K: Tensor, second_K: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence along the last axis, in nats. The weights are normalised first."""
    first, second = (_normalised(weights) for weights in (first_K, second_K))
    middle = (first + second) / 2
    entropies = (torch.special.entr(weights).sum(-1) for weights in (middle, first, second))
    mixed, one, other = entropies
    return (mixed - (one + other) / 2).clamp(min=0)


def _normalised(weights_K: Tensor) -> Tensor:
    return weights_K / weights_K.sum(-1, keepdim=True).clamp(min=1e-12)


def attention_rows(subject: Subject) -> dict[str, Row]:
    """Return the weights that decide the prediction: those of the last position, a pooling, or a blank."""
    sites = weight_sites(subject.model, "to doubt")
    recorder = Recorder(site for site in sites if site.rows == subject.rows)
    with torch.no_grad():
        subject.step(subject.prefix(1), recorder.look())
    rows = {}
    for name, weighing in recorder.weighings.items():
        place = weighing.place
        assert place.column_BK is not None
        weights_HK = weighing.weights_BHQK[0, :, subject.deciding]
        column_K = place.column_BK[0]
        beside = weights_HK.shape[1] - len(column_K)  # the vocabulary beside copied words is no position
        column_K = torch.nn.functional.pad(column_K, (0, beside), value=-1)
        row = Row(weights_HK, weighing.visible_BHQK[0, :, subject.deciding], column_K)
        if bool(row.free_H.any()):
            rows[name] = row
    return rows


def moved_attention(subject: Subject, rows: Mapping[str, Row], epsilon: float) -> list[Moved]:
    """Move the weights of every site alone, then of all sites together.

    The moves are random orders, uniform weights and a search.
    """
    return finished(moving(subject, rows, epsilon))


def moving(subject: Subject, rows: Mapping[str, Row], epsilon: float) -> Generator[float, None, list[Moved]]:
    """Yield the share of the search that is done, and return what `moved_attention` does."""
    groups: list[tuple[str, ...]] = [(name,) for name in rows]
    if len(groups) > 1:
        groups.append(tuple(rows))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        own_V = subject.step(subject.prefix(1))[0]
    tried = [
        _simple(subject, {name: rows[name] for name in group}, own_V, epsilon, generator) for group in groups
    ]
    yield from _search(subject, rows, own_V, groups, [best for _, best in tried])
    return [
        _moved({name: rows[name] for name in group}, *one) for group, one in zip(groups, tried, strict=True)
    ]


Tried = tuple[Tensor, Tensor]  # the divergence and the variation of each simple world


def _simple(
    subject: Subject, rows: dict[str, Row], own_V: Tensor, epsilon: float, generator: torch.Generator
) -> tuple[Tried, "_Best"]:
    """Try the worlds that need no search. Return their figures and the best of them."""
    simple, best = _simple_worlds(rows, generator), _Best(epsilon)
    with torch.no_grad():
        state = subject.prefix(len(next(iter(simple.values()))))
        tried = (
            _divergence(simple, rows),
            _variation(subject.step(state, put(simple, subject.deciding)), own_V),
        )
    best.judge(*tried, simple)
    return tried, best


def _moved(rows: dict[str, Row], tried: Tried, best: "_Best") -> Moved:
    # world 0 is the model's own weights, 1 uniform, then random orders
    divergence_W, variation_W = tried
    orders = slice(2, 2 + PERMUTATIONS)
    entropies = [row.entropy() or 0.0 for row in rows.values()]
    return Moved(
        tuple(rows),
        best.divergence,
        best.variation,
        float(torch.cat([row.most_H()[row.free_H] for row in rows.values()]).mean()),
        sum(entropies) / len(entropies),
        float(divergence_W[orders].median()),
        float(variation_W[orders].median()),
        float(divergence_W[1]),
        float(variation_W[1]),
        best.weights,
    )


def _simple_worlds(rows: dict[str, Row], generator: torch.Generator) -> dict[str, Tensor]:
    """Return weights that need no search, (W, H, K) for each site."""
    worlds = {}
    for name, row in rows.items():
        corner = row.corner()
        shares = [1 - 2.0**-step for step in range(MIXTURES)] + [1.0]
        mixtures = [row.weights_HK * (1 - share) + corner * share for share in shares[1:]]
        orders = [row.permuted(generator) for _ in range(PERMUTATIONS)]
        worlds[name] = torch.stack([row.weights_HK, row.uniform(), *orders, *mixtures])
    return worlds


def put(worlds: Mapping[str, Tensor], deciding: int = -1) -> Look:
    """Return a look that sets the deciding row of each site to each world's weights."""

    def change(weights_WHK: Tensor) -> Change:
        def put(tensor: Tensor, place: Place) -> Tensor:
            return tensor.select_scatter(weights_WHK.to(tensor.dtype), 2, deciding)

        return put

    return Look(changes={name: change(weights) for name, weights in worlds.items()})


def _variation(log_probs_WV: Tensor, own_V: Tensor) -> Tensor:
    return (log_probs_WV.exp() - own_V.exp()).abs().sum(1) / 2


def _divergence(worlds: Mapping[str, Tensor], rows: Mapping[str, Row]) -> Tensor:
    """(W,): the mean divergence over all heads with a choice."""
    parts = [divergence(worlds[name], row.weights_HK)[:, row.free_H] for name, row in rows.items()]
    return torch.cat(parts, 1).mean(1)


class _Best:
    """Keeps the farthest weights so far whose prediction stays within epsilon."""

    def __init__(self, epsilon: float):
        self.epsilon, self.divergence, self.variation = epsilon, -1.0, 0.0
        self.weights = dict[str, Tensor]()

    def judge(self, divergence_W: Tensor, variation_W: Tensor, worlds: Mapping[str, Tensor]) -> None:
        within_W = torch.where(variation_W <= self.epsilon, divergence_W, -1.0)
        world = int(within_W.argmax())
        if float(within_W[world]) > self.divergence:
            self.divergence, self.variation = float(within_W[world]), float(variation_W[world])
            self.weights = {name: weights[world].detach().clone() for name, weights in worlds.items()}


def _search(
    subject: Subject,
    rows: Mapping[str, Row],
    own_V: Tensor,
    groups: list[tuple[str, ...]],
    bests: list[_Best],
) -> Iterator[float]:
    """Maximise the divergence by Adam on the scores of the last row. Variation near epsilon has a penalty.

    All groups of sites are searched in one batch, with STARTS worlds each, so that more groups cost little
    more time.
    """
    group_W = torch.arange(len(groups)).repeat_interleave(STARTS).tolist()
    generator = torch.Generator().manual_seed(2)
    member = {name: torch.tensor([name in groups[group] for group in group_W]) for name in rows}
    scores = {name: _starts(name, row, groups, bests, generator) for name, row in rows.items()}
    state, epsilon = subject.prefix(len(group_W)), bests[0].epsilon
    optimiser = torch.optim.Adam(list(scores.values()), lr=RATE)
    for step in range(STEPS):
        if step % TOLD == 0:
            yield step / STEPS
        for settings in optimiser.param_groups:
            settings["lr"] = RATE * (1 - step / STEPS)
        worlds = {
            name: torch.where(
                member[name].to(row.weights_HK.device).view(-1, 1, 1),
                _softmax(scores[name], row),
                row.weights_HK,
            )
            for name, row in rows.items()
        }
        variation_W = _variation(subject.step(state, put(worlds, subject.deciding)), own_V)
        divergence_W = torch.cat(
            [
                _divergence(
                    {name: worlds[name][at * STARTS : (at + 1) * STARTS] for name in group},
                    {name: rows[name] for name in group},
                )
                for at, group in enumerate(groups)
            ]
        )
        for at, (group, best) in enumerate(zip(groups, bests, strict=True)):
            own = slice(at * STARTS, (at + 1) * STARTS)
            best.judge(
                divergence_W[own].detach(),
                variation_W[own].detach(),
                {name: worlds[name][own] for name in group},
            )
        loss = ((variation_W / epsilon - SAFE).clamp(min=0) - divergence_W).sum()
        gradients = torch.autograd.grad(loss, list(scores.values()))
        for tensor, gradient in zip(scores.values(), gradients, strict=True):
            tensor.grad = gradient
        optimiser.step()


def _starts(
    name: str, row: Row, groups: list[tuple[str, ...]], bests: list[_Best], generator: torch.Generator
) -> Tensor:
    """Return the starting scores (W, H, K).

    The starts are the model's weights, the best weights so far, and a point nearer the corner.
    """
    starts = []
    for group, best in zip(groups, bests, strict=True):
        weights_HK = best.weights[name] if name in group else row.weights_HK
        starts += [row.weights_HK, weights_HK, (weights_HK + row.corner()) / 2]
    stacked_WHK = torch.stack(starts)
    noise = torch.randn(stacked_WHK.shape, generator=generator).to(stacked_WHK) * 0.3
    return (stacked_WHK.clamp(min=1e-6).log() + noise).detach().requires_grad_()


def _softmax(scores_WHK: Tensor, row: Row) -> Tensor:
    """Return weights over the visible columns that have the row's own sum."""
    hidden_WHK = scores_WHK.masked_fill(~row.seen_HK, -1e30)
    return hidden_WHK.softmax(2) * row.seen_HK * row.weights_HK.sum(1, keepdim=True)
