"""Pooling: one vector for a whole text, as a weighted sum of the states of its words.

    pooled = sum_t weight_t value_t

    last       the state at the last word; of two directions, each at the word where it ends
    mean       weight_t = 1 / T
    max        the largest number of each feature; weight_t is the share of features that stand at word t
    attention  weight_t = softmax_t score(q, h_t), with a learned query q (Yang et al. 2016)

Every pooling shows its weights at the site `pooling`, and a changed weight changes the sum.

Shape legend: B rows, H heads, T positions, D width, E width of a head.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn

from regard.parts.attention import attend
from regard.parts.look import Look, Place, Site, attention_sites, declare
from regard.parts.masks import padding
from regard.parts.scores import ScoreName, make_score

PoolName = Literal["last", "mean", "max", "attention"]
SITE = "pooling"


@dataclass(frozen=True)
class Words:
    """The states of the words of each row, with padding on the right."""

    states_BTD: Tensor
    real_BT: Tensor

    @property
    def length_B1(self) -> Tensor:
        """(B, 1): the number of words, at least 1, so that an empty row divides by no zero."""
        return self.real_BT.sum(1, keepdim=True).clamp(min=1)

    @property
    def place(self) -> Place:
        """The positions at the site: one row for the whole text, which sees all words."""
        place_1T = torch.arange(self.real_BT.shape[1], device=self.real_BT.device).unsqueeze(0)
        column_BT = torch.where(self.real_BT, place_1T, -1)
        row_B1 = torch.zeros_like(column_BT[:, :1])
        return Place(row_B1, column_BT, self.real_BT.unsqueeze(1), "weights")


class Pooling(nn.Module, ABC):
    """The base class of poolings."""

    @abstractmethod
    def sites(self) -> dict[str, Site]: ...

    @abstractmethod
    def forward(self, words: Words, look: Look | None = None) -> Tensor:
        """(B, D): the pooled states."""


class Fixed(Pooling, ABC):
    """Poolings without learned numbers. Each is written twice: directly, and as a weighted sum of values."""

    heads: tuple[str, ...] = ()  # the names of the heads, if there are several

    @abstractmethod
    def pool(self, words: Words) -> Tensor:
        """(B, D): the pooled states, computed directly."""

    @abstractmethod
    def weights(self, words: Words) -> Tensor:
        """(B, H, 1, T): the weights of the words."""

    def values(self, words: Words) -> Tensor:
        """(B, H, T, E): the values whose weighted sum is the pooled state, a part of it for each head."""
        return words.states_BTD.unsqueeze(1)

    def sites(self) -> dict[str, Site]:
        return declare(Site(SITE, "BHTS", "weights", rows="whole", parts=self.heads))

    def forward(self, words: Words, look: Look | None = None) -> Tensor:
        if look is None or not (look.watches(SITE) or look.changes(SITE)):
            return self.pool(words)
        weights_BH1T = look.at_weights(SITE, self.weights(words), words.place)
        if not look.changes(SITE):
            return self.pool(words)
        return (weights_BH1T @ self.values(words)).flatten(1)


@final
class Mean(Fixed):
    def pool(self, words: Words) -> Tensor:
        real_BT1 = words.real_BT.unsqueeze(2)
        return torch.where(real_BT1, words.states_BTD, 0.0).sum(1) / words.length_B1

    def weights(self, words: Words) -> Tensor:
        weights_BT = words.real_BT / words.length_B1
        return weights_BT.to(words.states_BTD.dtype)[:, None, None]


@final
class Max(Fixed):
    def pool(self, words: Words) -> Tensor:
        return words.states_BTD.gather(1, self._place(words).unsqueeze(1)).squeeze(1)

    def weights(self, words: Words) -> Tensor:
        return self._chosen(words).mean(2)[:, None, None]

    def values(self, words: Words) -> Tensor:
        """A feature stands at the word that has its maximum, divided by the weight of this word."""
        chosen_BTD = self._chosen(words)
        share_BT1 = chosen_BTD.mean(2, keepdim=True).clamp(min=1 / (2 * chosen_BTD.shape[2]))
        return (chosen_BTD * words.states_BTD / share_BT1).unsqueeze(1)

    def _place(self, words: Words) -> Tensor:
        """(B, D): the position of the largest number of each feature; 0 in a row without words."""
        least = torch.finfo(words.states_BTD.dtype).min
        return words.states_BTD.masked_fill(~words.real_BT.unsqueeze(2), least).argmax(1)

    def _chosen(self, words: Words) -> Tensor:
        """(B, T, D): 1 where a feature has its maximum, 0 elsewhere."""
        zeros_BTD = torch.zeros_like(words.states_BTD)
        return zeros_BTD.scatter(1, self._place(words).unsqueeze(1), 1.0)


@final
class Last(Fixed):
    """The last state; with two directions, the state of each at the word where it has read everything."""

    def __init__(self, directions: int):
        super().__init__()
        self.heads = ("forward", "backward") if directions == 2 else ()

    def pool(self, words: Words) -> Tensor:
        last_B = words.length_B1.squeeze(1) - 1
        at_last_BD = words.states_BTD[torch.arange(len(last_B), device=last_B.device), last_B]
        if not self.heads:
            return at_last_BD
        half = at_last_BD.shape[1] // 2
        return torch.cat([at_last_BD[:, :half], words.states_BTD[:, 0, half:]], 1)

    def weights(self, words: Words) -> Tensor:
        place_1T = torch.arange(words.real_BT.shape[1], device=words.real_BT.device).unsqueeze(0)
        ends = [words.length_B1 - 1, torch.zeros_like(words.length_B1)][: 2 if self.heads else 1]
        chosen = torch.stack([place_1T == end_B1 for end_B1 in ends], 1).unsqueeze(2)
        return chosen.to(words.states_BTD.dtype)

    def values(self, words: Words) -> Tensor:
        rows, length, _ = words.states_BTD.shape
        return words.states_BTD.view(rows, length, len(self.heads) or 1, -1).transpose(1, 2)


@final
class Attention(Pooling):
    """Attention from a learned query, with any of the four scores."""

    def __init__(self, width: int, score: ScoreName):
        super().__init__()
        self.query = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.score = make_score(score, width, width)

    def sites(self) -> dict[str, Site]:
        return attention_sites(SITE, rows="whole")

    def forward(self, words: Words, look: Look | None = None) -> Tensor:
        states_B1TD = words.states_BTD.unsqueeze(1)
        query_B11D = self.query.expand(len(states_B1TD), 1, 1, -1)
        place = words.place
        assert place.column_BK is not None
        mask = padding.over(place.row_BT, place.column_BK)
        mixed = attend(
            query_B11D, states_B1TD, states_B1TD, score=self.score, mask=mask, look=look, site=SITE
        )
        return mixed.flatten(1)


def make_pooling(name: PoolName, width: int, score: ScoreName, directions: int) -> Pooling:
    """Make the pooling with this name. `directions` is 2 if the states are those of two directions."""
    match name:
        case "last":
            return Last(directions)
        case "mean":
            return Mean()
        case "max":
            return Max()
        case "attention":
            return Attention(width, score)
