"""Score functions of attention: four functions of a query and a key, with the same signature.

Shape legend: B rows, H heads, Q queries, K keys, D query width, E key width, A inner width.
"""

import math
from abc import ABC, abstractmethod
from typing import Literal, final

import torch
from torch import Tensor, nn

from regard.parts.products import Linear

ScoreName = Literal["additive", "bilinear", "dot", "scaled-dot"]


class Score(nn.Module, ABC):
    """The base class of score functions."""

    formula: str

    @abstractmethod
    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        """(B, H, Q, K): the score of each query and key."""

    def picture(self, query_BHQD: Tensor, key_BHKE: Tensor) -> str:
        """Return the formula and the scores of the first row and head as text, a line for each query."""
        scores_QK = self(query_BHQD, key_BHKE)[0, 0]
        return "\n".join(
            [self.formula, *(" ".join(f"{score:7.3f}" for score in row) for row in scores_QK.tolist())]
        )


@final
class Additive(Score):
    """w2 . tanh(W1 [q; k]) (Bahdanau et al. 2015).

    W1 is stored as two halves, so that each key is projected once, and not once for each query.
    """

    formula = "w2 . tanh(W1 [q; k])"

    def __init__(self, query_size: int, key_size: int, inner: int | None = None):
        super().__init__()
        self.query = Linear(query_size, inner or query_size, bias=False)
        self.key = Linear(key_size, inner or query_size, bias=False)
        self.out = nn.Parameter(
            torch.empty(inner or query_size).uniform_(-1, 1) / math.sqrt(inner or query_size)
        )

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        inner_BHQKA = torch.tanh(self.query(query_BHQD).unsqueeze(3) + self.key(key_BHKE).unsqueeze(2))
        return inner_BHQKA @ self.out


@final
class Bilinear(Score):
    """q^T W k (Luong et al. 2015, "general")."""

    formula = "q^T W k"

    def __init__(self, query_size: int, key_size: int):
        super().__init__()
        self.weight = Linear(query_size, key_size, bias=False)

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        return self.weight(query_BHQD) @ key_BHKE.transpose(2, 3)


@final
class Dot(Score):
    """q^T k (Luong et al. 2015)."""

    formula = "q^T k"

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        return query_BHQD @ key_BHKE.transpose(2, 3)


@final
class ScaledDot(Score):
    """q^T k / sqrt(d_k) (Vaswani et al. 2017).

    The standard deviation of a dot product grows with the square root of the number of features.
    """

    formula = "q^T k / sqrt(d)"

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        return query_BHQD @ key_BHKE.transpose(2, 3) / math.sqrt(query_BHQD.shape[3])


@final
class Near(Score):
    """-|q - k|^2 / (2 w^2): its softmax is kernel regression with a Gaussian (Nadaraya 1964, Watson 1964)."""

    formula = "-|q - k|^2 / (2 w^2)"

    def __init__(self, width: float):
        super().__init__()
        self.width = width

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        return -(torch.cdist(query_BHQD, key_BHKE) ** 2) / (2 * self.width**2)


def make_score(name: ScoreName, query_size: int, key_size: int) -> Score:
    """Make the score function with this name."""
    match name:
        case "additive":
            return Additive(query_size, key_size)
        case "bilinear":
            return Bilinear(query_size, key_size)
        case "dot":
            return Dot()
        case "scaled-dot":
            return ScaledDot()
