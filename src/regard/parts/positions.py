"""Encodings of positions: appended to or added to the embedding, rotations of queries and keys, or biases.

Shape legend: B rows, T positions, D width, H heads, Q queries, K keys, E head width.
"""

import math
from abc import ABC, abstractmethod
from typing import Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PositionName = Literal[
    "none", "index", "onehot", "sinusoidal", "sinusoidal-appended", "learned", "rotary", "alibi"
]


class Positions(nn.Module, ABC):
    """The base class of encodings. A subclass overrides `place`, or `angles` and `turn`, or `bias`."""

    appended = 0  # the number of features that are appended to the embedding
    biased = False  # True: `bias` returns a bias

    def place(self, embedded_BTD: Tensor, position_BT: Tensor) -> Tensor:
        """Append the positions to the embeddings, or add them."""
        return embedded_BTD

    def angles(self, position_BT: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the cosines and sines for `turn`, which are the same for all layers."""
        return None

    def turn(self, vectors: Tensor, angles: tuple[Tensor, Tensor] | None) -> Tensor:
        """Rotate queries and keys (..., B, H, T, E)."""
        return vectors

    def bias(self, query_BQ: Tensor, key_BK: Tensor) -> Tensor | None:
        """(B, H, Q, K): the bias that is added to the scores."""
        return None


@final
class NoPositions(Positions):
    """No positions: the model sees the words before a position as a set."""


class Appended(Positions, ABC):
    """The base class of encodings that are appended to the embedding."""

    @abstractmethod
    def features(self, position_BT: Tensor) -> Tensor:
        """(B, T, features): the appended features."""

    def place(self, embedded_BTD: Tensor, position_BT: Tensor) -> Tensor:
        return torch.cat([embedded_BTD, self.features(position_BT).to(embedded_BTD.dtype)], 2)


@final
class Index(Appended):
    """The position divided by the context, so that the feature is as small as those of the embedding."""

    appended = 1

    def __init__(self, context: int):
        super().__init__()
        self.context = context

    def features(self, position_BT: Tensor) -> Tensor:
        return (position_BT / self.context).unsqueeze(2)


@final
class OneHot(Appended):
    """A feature for each position of the context."""

    def __init__(self, context: int):
        super().__init__()
        self.appended = context

    def features(self, position_BT: Tensor) -> Tensor:
        places = torch.arange(self.appended, device=position_BT.device)
        return position_BT.clamp(min=0).unsqueeze(2) == places  # one_hot() would ask the host


@final
class SinusoidalAppended(Appended):
    """[sin(w1 t), cos(w1 t), sin(w2 t), ...], appended as in the lecture."""

    def __init__(self, size: int):
        super().__init__()
        self.appended = size

    def features(self, position_BT: Tensor) -> Tensor:
        return sinusoids(position_BT, self.appended)


@final
class Sinusoidal(Positions):
    """Sinusoids that are added to the embedding (Vaswani et al. 2017, section 3.5)."""

    def place(self, embedded_BTD: Tensor, position_BT: Tensor) -> Tensor:
        return embedded_BTD + sinusoids(position_BT, embedded_BTD.shape[2]).to(embedded_BTD.dtype)


@final
class Learned(Positions):
    """A learned vector for each position of the context, added to the embedding."""

    def __init__(self, context: int, width: int):
        super().__init__()
        self.table = nn.Embedding(context, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def place(self, embedded_BTD: Tensor, position_BT: Tensor) -> Tensor:
        return embedded_BTD + self.table(position_BT.clamp(min=0))


@final
class Rotary(Positions):
    """Rotates pairs of features by an angle proportional to the position (Su et al. 2021).

    The dot product of a query and a key then depends on their distance only.
    """

    def __init__(self, context: int, head_width: int):
        super().__init__()
        half_CF = torch.arange(context).unsqueeze(1) * frequencies(head_width)
        angle_CE = torch.cat([half_CF, half_CF], 1)
        # Feature i is paired with feature i + E/2. The sines of the first half are negative, so that the
        # rotation needs only one roll.
        sign_E = torch.tensor([-1, 1]).repeat_interleave(head_width // 2)
        # one table, so that one call looks up both
        table = torch.cat([angle_CE.cos(), angle_CE.sin() * sign_E], 1)
        self.register_buffer("cosine_and_sine", table, persistent=False)
        self.shift = head_width // 2

    def angles(self, position_BT: Tensor) -> tuple[Tensor, Tensor]:
        both_B1TF = F.embedding(position_BT.clamp(min=0), self.get_buffer("cosine_and_sine")).unsqueeze(1)
        cosine_B1TE, sine_B1TE = both_B1TF.chunk(2, 3)
        return cosine_B1TE, sine_B1TE

    def turn(self, vectors: Tensor, angles: tuple[Tensor, Tensor] | None) -> Tensor:
        assert angles is not None
        cosine, sine = angles
        return torch.addcmul(vectors * cosine, vectors.roll(self.shift, -1), sine)


@final
class Alibi(Positions):
    """A bias that decreases with the distance, with a different slope for each head (Press et al. 2022)."""

    biased = True

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def bias(self, query_BQ: Tensor, key_BK: Tensor) -> Tensor:
        head_H = torch.arange(1, self.heads + 1, device=query_BQ.device, dtype=torch.get_default_dtype())
        slope_H = 2 ** (-8 * head_H / self.heads)
        distance_BQK = (query_BQ.unsqueeze(2) - key_BK.unsqueeze(1)).abs()
        return -slope_H.view(1, -1, 1, 1) * distance_BQK.unsqueeze(1)


def frequencies(width: int, device: torch.device | str | None = None) -> Tensor:
    """Return w_i = 10000^(-2i/width) for i < width/2."""
    return torch.exp(
        torch.arange(0, width, 2, device=device, dtype=torch.get_default_dtype())
        * (-math.log(10000.0) / width)
    )


def sinusoids(position_BT: Tensor, size: int) -> Tensor:
    """(B, T, size): PE(t, 2i) = sin(w_i t), PE(t, 2i+1) = cos(w_i t)."""
    angles = position_BT.unsqueeze(2) * frequencies(size, position_BT.device)
    return torch.stack([angles.sin(), angles.cos()], 3).flatten(2)[:, :, :size]


def make_positions(name: PositionName, context: int, width: int, heads: int) -> Positions:
    """Make the encoding with this name."""
    match name:
        case "none":
            return NoPositions()
        case "index":
            return Index(context)
        case "onehot":
            return OneHot(context)
        case "sinusoidal":
            return Sinusoidal()
        case "sinusoidal-appended":
            return SinusoidalAppended(max(2, width // 4))
        case "learned":
            return Learned(context, width)
        case "rotary":
            return Rotary(context, width // heads)
        case "alibi":
            return Alibi(heads)
