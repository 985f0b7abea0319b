"""Fixed-window feed-forward models: the last n words side by side, through a network, to the next word.

    original  x = [w_{i-n+1}; ...; w_i],  y = b + W x + U tanh(d + H x)                                   (Bengio et al. 2003, equation 1)
    modern    x = A [w_{i-n+1}; ...; w_i; averages of the distant past], then x + FFN(LayerNorm(x)) many times   (Sun and Iyyer 2021)

Shape legend: B rows, T positions, D width, N = all that is seen, S words remembered.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.contract import LanguageModel, Prediction, State
from regard.models.predictions import Readout
from regard.models.ranges import at_least, share
from regard.parts.layers import FeedForward, drop
from regard.parts.look import Look, at_site
from regard.parts.past import Recent
from regard.parts.recurrence import pack_left


@dataclass(frozen=True)
class WindowState(State):
    slot_BS: Tensor  # 1 + the last words, 0 where there is none


@final
class Window(LanguageModel):
    family = "window"
    training_defaults: ClassVar[dict[str, Any] | None] = {"optimiser": "muon", "learning_rate": 0.012}
    medium: ClassVar[dict[str, Any]] = {"layers": 4, "width": 512, "distant": 4, "dropout": 0.5, "batch": 64, "learning_rate": 0.003}
    batch_tokens = 1 << 12  # `window` embeddings lie side by side at every position

    @dataclass(frozen=True, kw_only=True)
    class Config:
        style: Literal["modern", "original"] = "modern"
        """Deep, residual and with a view of the distant past, or one hidden layer and direct connections as first published."""
        window: int = 16
        """How many of the last words it reads in their order."""
        distant: int | None = None
        """How many averages of the words before those it also reads, each over twice as many as the one before (modern: 3)."""
        layers: int | None = None
        """Feed-forward layers (modern: 4)."""
        width: int = 128
        """Features of an embedding and of a layer."""
        dropout: float = 0.1
        """Share of features left out while training."""

        def __post_init__(self) -> None:
            if self.style == "original" and (self.distant or self.layers not in (None, 1)):
                raise UserError("--style original has one hidden layer and sees no distant past; leave out --layers and --distant")
            at_least(1, window=self.window, layers=self.depth, width=self.width)
            at_least(0, distant=self.averages)
            share(dropout=self.dropout)

        @property
        def depth(self) -> int:
            return self.layers if self.layers is not None else 4 if self.style == "modern" else 1

        @property
        def averages(self) -> int:
            return self.distant if self.distant is not None else 3 if self.style == "modern" else 0

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        original, width = config.style == "original", config.width
        self.spans = list[tuple[int, int]]()
        seen = config.window
        for number in range(config.averages):
            self.spans.append((seen, config.window << number))
            seen += config.window << number
        self.keep = seen - 1
        self.embedding = nn.Embedding(vocabulary_size + 2, width)
        nn.init.normal_(self.embedding.weight, std=0.05 if original else 0.02)
        self.read = nn.Linear((config.window + config.averages) * width, width)
        self.layers = nn.ModuleList() if original else nn.ModuleList(Layer(width, config.dropout) for _ in range(config.depth))
        self.final_norm = nn.Identity() if original else nn.LayerNorm(width)
        self.readout = Readout(vocabulary_size, (config.window + 1) * width if original else width, tied=not original)

    def sites(self) -> dict[str, str]:
        layers = {f"layer{number}.feed": "(B, T, D)" for number in range(len(self.layers))}
        return {"embedding": "(B, T, D)", **layers, "features": "(B, T, D)"}

    def forward(self, tokens_BT: Tensor, state: WindowState | None = None, look: Look | None = None) -> tuple[Prediction, WindowState]:
        packed = pack_left(tokens_BT, self.padding, self.training)
        if look is not None:
            look.begin(packed.positions(tokens_BT.new_zeros(len(tokens_BT)) if state is None else state.position_B))
        embedded_BTD = self.embedding(packed.tokens_BT)
        embedded_BTD = at_site(look, "embedding", embedded_BTD)
        recent = Recent(packed.tokens_BT, embedded_BTD, None if state is None else state.slot_BS, self.keep, self.embedding)
        seen_BTN = torch.cat([recent.in_order(self.config.window), *recent.averages(self.spans)], 2)
        x_BTD = self._network(drop(seen_BTN, self.config.dropout, self.training), look)
        x_BTD = packed.restore(at_site(look, "features", x_BTD))
        position_B = packed.length_B if state is None else state.position_B + packed.length_B
        return self.readout(x_BTD, self.embedding), WindowState(position_B, recent.slots(packed.length_B))

    def _network(self, seen_BTN: Tensor, look: Look | None) -> Tensor:
        x_BTD = self.read(seen_BTN)
        if self.config.style == "original":  # the readout's [W U] [x; h]
            return torch.cat([seen_BTN, torch.tanh(x_BTD)], 2)
        for number, layer in enumerate(self.layers):
            fed_BTD = layer(x_BTD)
            fed_BTD = at_site(look, f"layer{number}.feed", fed_BTD)
            x_BTD = x_BTD + fed_BTD
        return self.final_norm(x_BTD)


@final
class Layer(nn.Module):
    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.norm, self.feed = nn.LayerNorm(width), FeedForward(width, dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.feed(self.norm(x_BTD))
