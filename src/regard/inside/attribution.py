"""Methods that give each word a score for one prediction, f(x) = log P(word).

    attention            the mean weight over sites and heads at the position that predicts
    rollout              the product of the attention of all layers, each averaged with the identity
                         (Abnar and Zuidema 2020)
    gradient x input     x_j . df/dx_j
    integrated gradients x_j . integral over a in (0, 1) of df/dx_j at a x: the sum over j is f(x) - f(0)
                         (Sundararajan et al. 2017)
    occlusion            f(x) - f(x without word j), the word left out of the text
    value-zeroing        f(x) - f(x), no attention reading any value at word j (after Mohebbi et al. 2023)

Each order of words is judged by the probability that is lost without its first words, and with only its first
words (ERASER, DeYoung et al. 2020).

Shape legend: W worlds, T positions, N words, D width, K columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.attention_rows import Recorder
from regard.inside.moved_attention import Row
from regard.inside.subject import Subject
from regard.inside.word_vectors import Vectors
from regard.parts.look import Change, Look, Place

NODES, MOST_NODES = 32, 256  # of the quadrature: doubled until the gap is small
GAP = 0.01  # of f(x) - f(0), in nats or as a share
BATCH = 1 << 12  # tokens of a batch of worlds
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the words, as in ERASER
RANDOM_ORDERS = 20
RANDOM = "random order"


@dataclass(frozen=True)
class Attribution:
    method: str
    scores: list[float]  # of each word
    gap: float | None = None  # of integrated gradients: the sum minus f(x) - f(0)

    def to_json(self) -> dict[str, Any]:
        own = {"method": self.method, "scores": self.scores}
        return own if self.gap is None else {**own, "gap": self.gap}


@dataclass(frozen=True)
class Judgement:
    """Means over SHARES: the probability lost without a method's first words, and with only these words."""

    method: str
    comprehensiveness: float
    sufficiency: float

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "comprehensiveness": self.comprehensiveness,
            "sufficiency": self.sufficiency,
        }


def attributions(subject: Subject, rows: dict[str, Row]) -> list[Attribution]:
    """Compute the scores of every method that the family allows."""
    made = [Attribution("attention", attention_scores(subject, rows).tolist())]
    rolled_N = rollout(subject, rows)
    if rolled_N is not None:
        made.append(Attribution("rollout", rolled_N.tolist()))
    try:
        made.append(Attribution("gradient x input", gradient_times_input(subject).tolist()))
        integrated_N, gap = integrated_gradients(subject)
        made.append(Attribution("integrated gradients", integrated_N.tolist(), gap))
    except UserError:  # the family reads no word vectors
        pass
    made.append(Attribution("occlusion", occlusion(subject).tolist()))
    zeroed_N = value_zeroing(subject, list(rows))
    if zeroed_N is not None:
        made.append(Attribution("value-zeroing", zeroed_N.tolist()))
    return made


def attention_scores(subject: Subject, rows: dict[str, Row]) -> Tensor:
    """(N,): the mean weight on each word over all heads of the sites that attend to the words."""
    sites, parts = subject.model.sites(), list[Tensor]()
    for name, row in rows.items():
        if sites[name].columns == subject.side:
            parts.append(on_words(subject, row, row.weights_HK).mean(0))
    return torch.stack(parts).mean(0) if parts else torch.zeros(len(subject.names))


def on_words(subject: Subject, row: Row, weights_HK: Tensor) -> Tensor:
    """(H, N): the weights on the words."""
    weights_HK = weights_HK.detach().cpu()
    words_HN = torch.zeros(len(weights_HK), len(subject.names))
    number = {position: place for place, position in enumerate(subject.positions)}
    for column, position in enumerate(row.column_K.tolist()):
        if position in number:
            words_HN[:, number[position]] += weights_HK[:, column]
    return words_HN


def rollout(subject: Subject, rows: dict[str, Row]) -> Tensor | None:
    """(N,): the deciding row of the product over layers of (W + I) / 2, where W is the mean over heads.

    The result is None for a model without stacked layers.

    Of a translator: the mean of the cross-attention's rows over what the encoder's layers mix.
    """
    sites = subject.model.sites()
    own = [
        site
        for site in sites.values()
        if site.holds == "weights" and site.rows == site.columns == subject.side
    ]
    layers = [site for site in own if "layer" in site.name]
    # The product leaves out paths beside the layers: copied words, and the senses of a Backpack.
    if not layers or len(layers) != len(own) or subject.rows != "read":
        return None
    recorder = Recorder(layers)
    with torch.no_grad():
        subject.log_probs(look=recorder.look())
    product_TT: Tensor | None = None
    for site in layers:
        weights_TT = recorder.weighings[site.name].weights_BHQK[0].mean(0).cpu().double()
        mixed_TT = (weights_TT + torch.eye(len(weights_TT), dtype=torch.double)) / 2
        mixed_TT = mixed_TT / mixed_TT.sum(1, keepdim=True)
        product_TT = mixed_TT if product_TT is None else mixed_TT @ product_TT
    assert product_TT is not None
    words = torch.tensor(subject.positions)
    if subject.given is None:
        return product_TT[subject.deciding, words].float()
    crossing = [row.weights_HK.mean(0).cpu().double() for name, row in rows.items() if sites[name].crosses]
    if not crossing:
        return None
    return (torch.stack(crossing).mean(0) @ product_TT)[words].float()


def _points(subject: Subject, shares_W: Tensor) -> tuple[Tensor, Tensor]:
    """Return ((W, N) x . df/dx, (W,) f) after multiplying the vectors of all words by each share."""
    words = torch.tensor(subject.positions, device=subject.model.device)
    vectors, leaves = Vectors(), dict[int, Tensor]()

    def scaled(number: int, whole_WTD: Tensor) -> Tensor:
        vectors.keep(number, whole_WTD)
        factor_WT1 = torch.ones_like(whole_WTD[..., :1])
        factor_WT1[:, words] = shares_W.to(whole_WTD).view(-1, 1, 1)
        leaves[number] = (whole_WTD * factor_WT1).detach().requires_grad_()
        return leaves[number]

    value_W = subject.with_vectors(len(shares_W), scaled)[:, subject.target]
    vectors.leaves(subject.model.family)
    gradients = torch.autograd.grad(value_W.sum(), list(leaves.values()), allow_unused=True)
    products_WN = torch.zeros(len(shares_W), len(words), dtype=value_W.dtype, device=words.device)
    for number, gradient in zip(leaves, gradients, strict=True):
        if gradient is not None:
            products_WN = products_WN + (gradient * vectors.by_layer[number].detach()).sum(2)[:, words]
    return products_WN.detach().cpu(), value_W.detach().cpu()


def gradient_times_input(subject: Subject) -> Tensor:
    return _points(subject, torch.ones(1))[0][0]


def integrated_gradients(subject: Subject, nodes: int | None = None) -> tuple[Tensor, float]:
    """Return the (N,) scores, and the gap between their sum and f(x) - f(0), by Gauss-Legendre quadrature.

    Without a number of nodes, the number doubles until the gap is small."""
    own, baseline = _points(subject, torch.tensor([1.0, 0.0]))[1].tolist()
    count = nodes or NODES
    while True:
        at, weights = np.polynomial.legendre.leggauss(count)
        shares_W, weights_W = torch.from_numpy((at + 1) / 2), torch.from_numpy(weights / 2)
        size = max(1, BATCH // subject.length)
        parts_WN = torch.cat([_points(subject, part)[0] for part in shares_W.split(size)])
        scores_N = (weights_W.unsqueeze(1) * parts_WN.double()).sum(0)
        gap = float(scores_N.sum()) - (own - baseline)
        if nodes is not None or abs(gap) <= GAP * max(1.0, abs(own - baseline)) or count >= MOST_NODES:
            return scores_N, gap
        count *= 2


@torch.no_grad()
def occlusion(subject: Subject) -> Tensor:
    """(N,): f(x) - f(x without the word), for each word."""
    kept = [[place for place in subject.positions if place != without] for without in subject.positions]
    return subject.log_prob - _values(subject, kept)


def _values(subject: Subject, kept: Sequence[Sequence[int]]) -> Tensor:
    """(W,): f of texts in which only some words are kept, equally many in each text."""
    size = max(1, BATCH // subject.length)
    parts = [
        subject.log_probs(len(kept[first : first + size]), words=kept[first : first + size])[
            :, subject.target
        ]
        for first in range(0, len(kept), size)
    ]
    return torch.cat(parts).double().cpu()


@torch.no_grad()
def value_zeroing(subject: Subject, names: Sequence[str]) -> Tensor | None:
    """(N,): f(x) minus f with the values of the word set to zero in every attention.

    The result is None if no attention of the model mixes values."""
    sites = subject.model.sites()
    values = [
        f"{name}.value"
        for name, site in sites.items()
        if site.holds == "weights" and site.columns == subject.side and f"{name}.value" in sites
    ]
    if not values:
        return None
    size = max(1, BATCH // subject.length)
    parts = []
    for first in range(0, len(subject.positions), size):
        positions = torch.tensor(subject.positions[first : first + size], device=subject.model.device)
        look = Look(changes=dict.fromkeys(values, _zero_at(positions)))
        parts.append(subject.log_probs(len(positions), look)[:, subject.target])
    return subject.log_prob - torch.cat(parts).double().cpu()


def _zero_at(positions_W: Tensor) -> Change:
    """Set the value at position w to zero in world w. Values have the positions of the keys."""

    def zero(value_WGKE: Tensor, place: Place) -> Tensor:
        here_WK = place.row_BT.expand(len(positions_W), -1) == positions_W.unsqueeze(1)
        return value_WGKE.masked_fill(here_WK[:, None, :, None], 0)

    return zero


@torch.no_grad()
def judgements(subject: Subject, made: Sequence[Attribution]) -> list[Judgement]:
    """Judge the order of words of every method, and the mean of RANDOM_ORDERS random orders as the floor."""
    generator = torch.Generator().manual_seed(3)
    words = len(subject.names)
    orders = [torch.tensor(one.scores).argsort(descending=True, stable=True).tolist() for one in made]
    orders += [torch.randperm(words, generator=generator).tolist() for _ in range(RANDOM_ORDERS)]
    own = math.exp(subject.log_prob)
    lost_W, with_W = torch.zeros(len(orders)).double(), torch.zeros(len(orders)).double()
    for share in SHARES:
        size = max(1, math.ceil(share * words))
        first = [sorted(subject.positions[place] for place in order[:size]) for order in orders]
        rest = [sorted(set(subject.positions) - set(chosen)) for chosen in first]
        lost_W += (own - _values(subject, rest).exp()) / len(SHARES)
        with_W += (own - _values(subject, first).exp()) / len(SHARES)
    count = len(made)
    judged = [
        Judgement(one.method, lost, alone)
        for one, lost, alone in zip(made, lost_W.tolist(), with_W.tolist(), strict=False)
    ]
    return [*judged, Judgement(RANDOM, float(lost_W[count:].mean()), float(with_W[count:].mean()))]


def disagreement(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the share of pairs of words that two methods order differently (Kendall). A tie counts half.

    >>> disagreement([3, 2, 1], [3, 1, 2])
    0.3333333333333333
    """
    one, other = (
        np.sign(np.subtract.outer(scores, scores)) for scores in (np.array(first), np.array(second))
    )
    upper = np.triu_indices(len(first), 1)
    return float((np.abs(one[upper] - other[upper]) / 2).mean())
