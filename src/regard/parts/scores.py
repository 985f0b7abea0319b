"""How well a query and a key fit: four score functions of one signature.

Shape legend: B rows, H heads, Q queries, K keys, D query width, E key width, A inner width.
"""

import math
from abc import ABC, abstractmethod
from typing import Literal, final

import torch
from torch import Tensor, nn

ScoreName = Literal["additive", "bilinear", "dot", "scaled-dot"]


class Score(nn.Module, ABC):
    formula: str

    @abstractmethod
    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        """(B, H, Q, K)"""

    def picture(self, query_BHQD: Tensor, key_BHKE: Tensor) -> str:
        """The formula and the first row's and head's scores, a line a query."""
        scores_QK = self(query_BHQD, key_BHKE)[0, 0]
        return "\n".join(
            [self.formula, *(" ".join(f"{score:7.3f}" for score in row) for row in scores_QK.tolist())]
        )


@final
class Additive(Score):
    """w2 . tanh(W1 [q; k]): Bahdanau et al. 2015. W1 is kept as its two halves, so that keys are projected once, not once a query."""

    formula = "w2 . tanh(W1 [q; k])"

    def __init__(self, query_size: int, key_size: int, inner: int | None = None):
        super().__init__()
        self.query = nn.Linear(query_size, inner or query_size, bias=False)
        self.key = nn.Linear(key_size, inner or query_size, bias=False)
        self.out = nn.Parameter(
            torch.empty(inner or query_size).uniform_(-1, 1) / math.sqrt(inner or query_size)
        )

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        inner_BHQKA = torch.tanh(self.query(query_BHQD).unsqueeze(3) + self.key(key_BHKE).unsqueeze(2))
        return inner_BHQKA @ self.out


@final
class Bilinear(Score):
    """q^T W k: Luong et al. 2015, "general"."""

    formula = "q^T W k"

    def __init__(self, query_size: int, key_size: int):
        super().__init__()
        self.weight = nn.Linear(query_size, key_size, bias=False)

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        return self.weight(query_BHQD) @ key_BHKE.transpose(2, 3)


@final
class Dot(Score):
    """q^T k"""

    formula = "q^T k"

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        return query_BHQD @ key_BHKE.transpose(2, 3)


@final
class ScaledDot(Score):
    """q^T k / sqrt(d_k): Vaswani et al. 2017. The spread of a dot product grows with the square root of its length."""

    formula = "q^T k / sqrt(d)"

    def forward(self, query_BHQD: Tensor, key_BHKE: Tensor) -> Tensor:
        return query_BHQD @ key_BHKE.transpose(2, 3) / math.sqrt(query_BHQD.shape[3])


def make_score(name: ScoreName, query_size: int, key_size: int) -> Score:
    match name:
        case "additive":
            return Additive(query_size, key_size)
        case "bilinear":
            return Bilinear(query_size, key_size)
        case "dot":
            return Dot()
        case "scaled-dot":
            return ScaledDot()
