"""The fixed-window language model: a feed-forward network reads the embeddings of the last words.

    original  x = [w_{i-n+1}; ...; w_i],   y = b + W x + U tanh(d + H x)      (Bengio et al. 2003, equation 1)
    modern    x = A [w_{i-n+1}; ...; w_i; averages of the words before],
              then x <- x + FFN(LayerNorm(x)) in each layer                   (Sun and Iyyer 2021)

The embeddings of the window are concatenated.

Shape legend: B rows, T positions, D width, N = all features of the window, S stored words, n words in order,
K = S + T.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.contract import LanguageModel, Padded, Prediction, State
from regard.models.predictions import Readout
from regard.parts.layers import FeedForward, drop
from regard.parts.look import Look, Place, Site, at_site, declare, values_at
from regard.parts.past import Recent, filled_up
from regard.parts.products import Linear
from regard.parts.recurrence import pack_left
from regard.ranges import Count, Depth, Layers, Share


@dataclass(frozen=True)
class WindowState(State):
    """The last words of each row."""

    slot_BS: Tensor  # 1 + the id of each word, 0 for an empty slot


@final
class Window(LanguageModel):
    family = "window"
    steady = True
    training_defaults: ClassVar[dict[str, Any]] = {"optimiser": "muon", "learning_rate": 0.012}
    medium: ClassVar[dict[str, Any]] = {
        "layers": 4,
        "width": 512,
        "distant": 4,
        "dropout": 0.5,
        "batch": 64,
        "learning_rate": 0.003,
    }
    batch_tokens = 1 << 12  # small calls, because every position holds `window` embeddings

    @dataclass(frozen=True, kw_only=True)
    class Config:
        style: Literal["modern", "original"] = "modern"
        """The modern model has residual layers and averages of distant words. The original model of 2003 has
        one hidden layer and direct connections."""
        window: Count = 16
        """Number of last words that are read in order."""
        distant: Depth | None = None
        """Number of averages of the words before the window. Each covers twice as many words as the last
        (modern: 3)."""
        layers: Layers | None = None
        """Number of feed-forward layers (modern: 4)."""
        width: Count = 128
        """Number of features of an embedding and of a layer."""
        dropout: Share = 0.1
        """Share of features set to zero in training."""

        def __post_init__(self) -> None:
            if self.style == "original" and (self.distant or self.layers not in (None, 1)):
                raise UserError(
                    "`style` original has one hidden layer and no averages: leave out `layers` and `distant`"
                )

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
        self.read = Linear((config.window + config.averages) * width, width)
        depth = 0 if original else config.depth
        self.layers = nn.ModuleList(Layer(width, config.dropout) for _ in range(depth))
        self.final_norm = nn.Identity() if original else nn.LayerNorm(width)
        readout_width = (config.window + 1) * width if original else width
        self.readout = Readout(vocabulary_size, readout_width, tied=not original)

    def sites(self) -> dict[str, Site]:
        layers = (values_at(f"layer{number}.feed", adds=True) for number in range(len(self.layers)))
        return declare(
            values_at("embedding"), Site("window", "BHTK", "weights"), *layers, values_at("features")
        )

    def begin(self, given: int | Tensor, look: Look | None = None) -> WindowState:
        zeros_B = torch.zeros(int(given), dtype=torch.long, device=self.embedding.weight.device)
        return WindowState(zeros_B, zeros_B.unsqueeze(1)[:, :0])

    def with_room(self, state: WindowState, room: int) -> WindowState:
        return replace(state, slot_BS=filled_up(state.slot_BS, self.keep))

    def forward(
        self, tokens_BT: Tensor, state: WindowState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, WindowState]:
        packed = pack_left(tokens_BT, self.padding, padded)
        if look is not None:
            look.begin(packed.positions(state.position_B))
        embedded_BTD = self.embedding(packed.tokens_BT)
        embedded_BTD = at_site(look, "embedding", embedded_BTD)
        recent = Recent(packed.tokens_BT, embedded_BTD, state.slot_BS, self.keep, self.embedding)
        seen_BTN = torch.cat([recent.in_order(self.config.window), *recent.averages(self.spans)], 2)
        if look is not None:
            seen_BTN = self._look_at_window(look, recent, state, seen_BTN)
        x_BTD = self._network(drop(seen_BTN, self.config.dropout, self.training), look)
        x_BTD = packed.restore(at_site(look, "features", x_BTD))
        new = WindowState(state.position_B + packed.length_B, recent.slots(packed.length_B))
        return self.readout(x_BTD, self.embedding), new

    def _look_at_window(self, look: Look, recent: Recent, state: WindowState, seen_BTN: Tensor) -> Tensor:
        """Show the network's input as weights over words at the site `window`, and apply edits of them.

        The input of a position consists of one embedding for each word in order, and of one average for each
        span. These pieces have equal weights if they are not empty, and the weight of an average is divided
        among its words. A row of weights therefore sums to 1.
        """
        if not look.watches("window") and not look.changes("window"):
            return seen_BTN
        words, length = self.config.window, seen_BTN.shape[1]
        columns = torch.arange(recent.slot_BK.shape[1], device=seen_BTN.device)
        lag_TK = torch.arange(length, device=seen_BTN.device).unsqueeze(1) + recent.keep - columns
        filled_B1K = (recent.slot_BK > 0).unsqueeze(1)
        near_BTK = (lag_TK >= 0) & (lag_TK < words) & filled_B1K
        spans = [(lag_TK >= skip) & (lag_TK < skip + many) & filled_B1K for skip, many in self.spans]
        share_BTK = near_BTK.to(seen_BTN.dtype)
        for span_BTK in spans:
            share_BTK = share_BTK + span_BTK / span_BTK.sum(2, keepdim=True).clamp(min=1)
        pieces_BT1 = share_BTK.sum(2, keepdim=True)  # the number of pieces that are not empty
        first = recent.keep - state.slot_BS.shape[1]  # columns before `first` are empty in every row
        position_BK = state.position_B.unsqueeze(1) + columns[first:] - recent.keep
        place = Place(position_BK[:, -length:], position_BK, (share_BTK > 0)[:, :, first:], "weights")
        weights_B1TK = look.at_weights("window", (share_BTK / pieces_BT1)[:, None, :, first:], place)
        if not look.changes("window"):
            return seen_BTN
        share_BTK = F.pad(weights_B1TK.squeeze(1), (first, 0)) * pieces_BT1
        in_order_Tn = columns[recent.keep + 1 - words :].unfold(0, words, 1)
        scale_BTn = share_BTK.gather(2, in_order_Tn.expand(len(share_BTK), -1, -1))
        near_BTN = (recent.in_order(words).unflatten(2, (words, -1)) * scale_BTn.unsqueeze(3)).flatten(2)
        return torch.cat([near_BTN, *((share_BTK * span_BTK) @ recent.embedded_BKD for span_BTK in spans)], 2)

    def _network(self, seen_BTN: Tensor, look: Look | None) -> Tensor:
        x_BTD = self.read(seen_BTN)
        if self.config.style == "original":  # the readout's weights are [W U], and its features [x; tanh]
            return torch.cat([seen_BTN, torch.tanh(x_BTD)], 2)
        for number, layer in enumerate(self.layers):
            fed_BTD = layer(x_BTD)
            fed_BTD = at_site(look, f"layer{number}.feed", fed_BTD)
            x_BTD = x_BTD + fed_BTD
        return self.final_norm(x_BTD)


@final
class Layer(nn.Module):
    """A layer norm and a feed-forward layer."""

    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.norm, self.feed = nn.LayerNorm(width), FeedForward(width, dropout, "gelu-tanh")

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.feed(self.norm(x_BTD))
