"""The stack of blocks under Transformers and Backpacks: every position looks at itself and all earlier ones at once, in several heads.

    head = softmax(Q K^T / sqrt(d_k)) V,  Q = x W_q, K = x W_k, V = x W_v;  heads joined and projected; then a feed-forward layer

Shape legend: B rows, T positions, S slots, H query heads, G heads of keys and values, E head width, D width.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.contract import Padded, State
from regard.parts.attention import attend
from regard.parts.crossing import CrossAttention
from regard.parts.layers import FeedForward, drop
from regard.parts.look import Look, Side, Site, at_site, attention_sites, declare, values_at
from regard.parts.masks import Mask, causal, everything, padding
from regard.parts.positions import PositionName, Positions, make_positions
from regard.parts.scores import Dot, ScaledDot
from regard.parts.slots import Slots, fixed_size, remember, shortened
from regard.ranges import check_at_least, check_share


@dataclass(frozen=True, kw_only=True)
class TrunkConfig:
    """The options that Transformers, Backpacks and Transformer translators share."""

    layers: int = 2
    """Blocks of attention and feed-forward that are stacked."""
    width: int = 128
    """Features of a position."""
    heads: int = 4
    """Attention heads of a layer."""
    context: int = 64
    """Tokens of a window: the model sees no further."""
    positions: PositionName = "rotary"
    """How the model knows where a token stands."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each part, or after it as published in 2017 (with ReLU)."""
    query_key_norm: bool = False
    """Normalise the queries and keys of self-attention, so that scores cannot grow without bound."""
    key_value_heads: int | None = None
    """Heads of keys and values, each shared by a group of query heads: a smaller KV cache (as many as query heads)."""
    projections: Literal["learned", "none"] = "learned"
    """Queries, keys and values are learned maps of the inputs, or the inputs themselves; then the blocks learn nothing."""
    dropout: float = 0.1
    """Share of features left out while training."""

    def __post_init__(self) -> None:
        check_at_least(1, layers=self.layers, width=self.width, heads=self.heads, context=self.context)
        check_share(dropout=self.dropout)
        groups = self.heads if self.key_value_heads is None else self.key_value_heads
        check_at_least(1, key_value_heads=groups)
        if self.projections == "none" and (self.query_key_norm or self.key_value_heads is not None):
            raise UserError(
                "`query_key_norm` and `key_value_heads` need learned projections; leave out `projections` none"
            )
        if self.heads % groups:
            raise UserError(
                f"`heads` {self.heads} cannot be divided among `key_value_heads` {groups}; choose a divisor"
            )
        if self.width % self.heads:
            raise UserError(
                f"`width` {self.width} cannot be divided among `heads` {self.heads}; choose a multiple"
            )
        if (
            self.positions == "rotary"
            and (self.width // (self.heads if self.projections == "learned" else 1)) % 2
        ):
            raise UserError(
                "rotary positions need an even number of features a head; change `width` or `heads`"
            )
        if self.positions == "onehot" and self.context >= self.width:
            raise UserError(
                "one-hot positions are appended to the embedding: `width` must be larger than `context`"
            )


MEDIUM = {
    "layers": 6,
    "width": 384,
    "heads": 6,
    "context": 256,
    "dropout": 0.2,
    "batch": 64,
    "learning_rate": 0.003,
}


@dataclass(frozen=True)
class TrunkState(State):
    """The KV cache: slot p of a buffer holds the key or value of the token at position p (`parts/slots.py`)."""

    fills_front: ClassVar[bool] = False

    keys: tuple[Tensor, ...]  # one for each layer: (B, G, S, E)
    values: tuple[Tensor, ...]
    fixed: bool = False  # the buffers keep their size

    def trimmed(self) -> Self:
        filled = int(self.position_B.max())
        return self._with_buffers(lambda buffer: shortened(buffer, filled, 2), fixed=False)

    def with_room(self, room: int) -> Self:
        """Buffers of a fixed size, with room for so many tokens in all. A row's own tokens overwrite the values that lie behind them."""
        return self._with_buffers(lambda buffer: fixed_size(buffer, room, 2), fixed=True)

    def next_window(self) -> Self:
        """Nothing is remembered beyond a window."""
        empty = (
            self if self.fixed else self._with_buffers(lambda buffer: shortened(buffer, 0, 2), fixed=False)
        )
        return replace(empty, position_B=torch.zeros_like(self.position_B))

    def _with_buffers(self, change: Callable[[Tensor], Tensor], fixed: bool) -> Self:
        keys, values = (tuple(map(change, buffers)) for buffers in (self.keys, self.values))
        return replace(self, keys=keys, values=values, fixed=fixed)


@dataclass(frozen=True)
class Where:
    """The positions and the mask of one call, the same for every layer."""

    slots: Slots
    angles: tuple[Tensor, Tensor] | None  # of rotary positions
    mask: Mask
    bias_BHQK: Tensor | None

    @property
    def position_BT(self) -> Tensor:
        return self.slots.position_BT


@final
class Trunk(nn.Module):
    """Causal as in a language model, or unmasked as in an encoder. With `crossing`, each block also looks at a source."""

    def __init__(self, config: TrunkConfig, side: Side = "read", causal: bool = True, crossing: bool = False):
        super().__init__()
        self.side, self.causal = side, causal
        self.name = "source." if side == "given" else ""
        self.context, self.dropout = config.context, config.dropout
        heads = config.heads if config.projections == "learned" else 1
        self.positions = make_positions(config.positions, config.context, config.width, heads)
        self.embedding_width = config.width - self.positions.appended
        names = [f"{self.name}layer{number}" for number in range(config.layers)]
        learned = config.projections == "learned"
        self.blocks = nn.ModuleList(
            Block(name, config, side, crossing) if learned else Mixing(name, config) for name in names
        )
        self.final_norm = nn.LayerNorm(config.width) if config.norm == "pre" and learned else nn.Identity()

    def sites(self) -> dict[str, Site]:
        blocks = (site for block in self.blocks for site in block.sites().values())  # type: ignore[operator]
        return declare(values_at(f"{self.name}embedding", rows=self.side, adds=True), *blocks)

    def layer_sites(self) -> list[str]:
        """The embedding's site and those of the states after each block."""
        return [
            f"{self.name}embedding",
            *(f"{self.name}layer{number}.residual" for number in range(len(self.blocks))),
        ]

    def begin(self, rows: int, like: Tensor) -> TrunkState:
        """An empty KV cache, of the type of `like` and on its device."""
        buffers = tuple(block.cache(rows, like) for block in self.blocks)  # type: ignore[operator]
        return TrunkState(torch.zeros(rows, dtype=torch.long, device=like.device), buffers, buffers)

    def forward(
        self,
        embedded_BTD: Tensor,
        real_BT: Tensor,
        state: TrunkState,
        look: Look | None,
        padded: Padded = "anywhere",
        memory: tuple[Tensor, ...] = (),
        memory_mask: Mask = everything,
    ) -> tuple[Tensor, Where, TrunkState]:
        """(features_BTD, where, state). `memory` holds keys and values of a source, layer by layer."""
        where, new_position_B = self._where(real_BT, state, padded)
        if look is not None:
            look.begin(where.position_BT)
        x_BTD = self.positions.place(embedded_BTD, where.position_BT)
        x_BTD = drop(x_BTD, self.dropout, self.training)
        x_BTD = at_site(look, f"{self.name}embedding", x_BTD)
        keys, values = [], []
        for number, block in enumerate(self.blocks):
            cache = (state.keys[number], state.values[number])
            source = (*memory[2 * number : 2 * number + 2], memory_mask) if memory else None
            x_BTD, key, value = block(x_BTD, where, self.positions, cache, look, source)
            keys.append(key)
            values.append(value)
        return (
            self.final_norm(x_BTD),
            where,
            TrunkState(new_position_B, tuple(keys), tuple(values), state.fixed),
        )

    def _where(self, real_BT: Tensor, state: TrunkState, padded: Padded) -> tuple[Where, Tensor]:
        """Positions go on from the state's; padding has position -1."""
        if state.fixed:
            if real_BT.shape[1] != 1 or padded != "right":
                raise ValueError('a state with fixed buffers reads one token a row, with padded="right"')
            slots = Slots(state.position_B.unsqueeze(1), state.keys[0].shape[2], None, fixed=True)
            return self._looked_up(
                slots, causal.over(slots.position_BT, slots.columns_1S)
            ), state.position_B + 1
        fresh, counted_BT = not state.keys[0].shape[2], real_BT.cumsum(1) - 1
        position_BT = counted_BT if fresh else state.position_B.unsqueeze(1) + counted_BT
        position_BT = torch.where(real_BT, position_BT, -1)
        new_position_B = real_BT.sum(1) if fresh else state.position_B + real_BT.sum(1)
        if not self.causal:
            mask = everything if bool(real_BT.all()) else padding.over(position_BT, position_BT)
            return self._looked_up(Slots(position_BT, real_BT.shape[1], 0), mask), new_position_B
        if fresh and padded == "right":  # the causal mask hides padding that follows a row's last token
            return self._looked_up(Slots(position_BT, real_BT.shape[1], 0), causal), new_position_B
        seen = max(1, int(new_position_B.max()))
        if seen > self.context:
            raise ValueError(f"a context of {self.context} tokens is full: go on with state.next_window()")
        lowest = int(position_BT.min())
        even = lowest >= 0 and lowest == seen - real_BT.shape[1]  # no padding, and all rows at one position
        slots = Slots(position_BT, seen, lowest if even else None)
        return self._looked_up(slots, _mask(slots)), new_position_B

    def _looked_up(self, slots: Slots, mask: Mask) -> Where:
        angles = self.positions.angles(slots.position_BT)
        return Where(slots, angles, mask, self.positions.bias(slots.position_BT, slots.columns_1S))


def _mask(slots: Slots) -> Mask:
    """A mask is built only where causal or everything will not do."""
    if slots.first == 0:
        return causal
    if slots.first is not None and slots.position_BT.shape[1] == 1:
        return everything
    return causal.over(slots.position_BT, slots.columns_1S)


@final
class Block(nn.Module):
    """Attention, cross-attention if there is a source, then a feed-forward layer; each with its norm and a path around it."""

    def __init__(self, name: str, config: TrunkConfig, side: Side, crossing: bool = False):
        super().__init__()
        self.name, self.side, self.heads, self.post = name, side, config.heads, config.norm == "post"
        width, size = config.width, config.width // config.heads
        self.groups = config.key_value_heads or config.heads
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project = nn.Linear(
            width, (self.heads + 2 * self.groups) * size
        )  # query, key and value side by side
        self.query_key_norm = nn.RMSNorm(size, eps=1e-5) if config.query_key_norm else nn.Identity()
        self.out = nn.Linear(width, width)
        self.feed = FeedForward(width, config.dropout, relu=self.post)
        self.cross = CrossAttention(width, config.heads, config.dropout) if crossing else None
        self.cross_norm = nn.LayerNorm(width) if crossing else None
        self.dropout = config.dropout
        self.score = ScaledDot()
        for linear in (self.project, self.out, self.feed.up, self.feed.down):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        for linear in (
            self.out,
            self.feed.down,
        ):  # the sum over all layers starts no larger than one layer's output (GPT-2)
            nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * config.layers))

    def sites(self) -> dict[str, Site]:
        name, side, adds = self.name, self.side, not self.post
        found = attention_sites(f"{name}.attention", rows=side, columns=side)
        found |= declare(values_at(f"{name}.heads", "BHTE", rows=side))
        if self.cross is not None:
            found |= attention_sites(f"{name}.cross", columns="given")
            found |= declare(values_at(f"{name}.crossed", adds=adds))
        parts = {
            "attention_norm": False,
            "attended": adds,
            "feed_norm": False,
            "feed": adds,
            "residual": False,
        }
        return found | declare(
            *(values_at(f"{name}.{part}", rows=side, adds=added) for part, added in parts.items())
        )

    def cache(self, rows: int, like: Tensor) -> Tensor:
        """An empty buffer of keys or values."""
        return like.new_zeros(rows, self.groups, 0, self.out.in_features // self.heads)

    def forward(
        self,
        x_BTD: Tensor,
        where: Where,
        positions: Positions,
        cache: tuple[Tensor, Tensor],
        look: Look | None,
        source: tuple[Tensor, Tensor, Mask] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        attention_norm = self._norm(self.attention_norm, "attention_norm", look)
        feed_norm = self._norm(self.feed_norm, "feed_norm", look)
        attended_BTD, key, value = self._attend(
            x_BTD if self.post else attention_norm(x_BTD), where, positions, cache, look
        )
        x_BTD = x_BTD + at_site(
            look, f"{self.name}.attended", drop(attended_BTD, self.dropout, self.training)
        )
        x_BTD = attention_norm(x_BTD) if self.post else x_BTD
        if self.cross is not None and self.cross_norm is not None and source is not None:
            seen_BTD = self.cross(
                x_BTD if self.post else self.cross_norm(x_BTD), *source, look, f"{self.name}.cross"
            )
            x_BTD = x_BTD + at_site(look, f"{self.name}.crossed", seen_BTD)
            x_BTD = self.cross_norm(x_BTD) if self.post else x_BTD
        x_BTD = x_BTD + at_site(
            look, f"{self.name}.feed", self.feed(x_BTD if self.post else feed_norm(x_BTD))
        )
        x_BTD = feed_norm(x_BTD) if self.post else x_BTD
        return at_site(look, f"{self.name}.residual", x_BTD), key, value

    def _norm(self, norm: nn.Module, part: str, look: Look | None) -> Callable[[Tensor], Tensor]:
        return norm if look is None else lambda x_BTD: at_site(look, f"{self.name}.{part}", norm(x_BTD))

    def _attend(
        self,
        x_BTD: Tensor,
        where: Where,
        positions: Positions,
        cache: tuple[Tensor, Tensor],
        look: Look | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, length, width = x_BTD.shape
        all_BHTE = self.project(x_BTD).view(rows, length, self.heads + 2 * self.groups, -1).transpose(1, 2)
        both_BHTE, value = all_BHTE.split([self.heads + self.groups, self.groups], 1)
        query, key = positions.turn(self.query_key_norm(both_BHTE), where.angles).split(
            [self.heads, self.groups], 1
        )
        key, value, seen_key, seen_value = remember(key, value, cache, where.slots)
        mixed = attend(
            query,
            seen_key,
            seen_value,
            score=self.score,
            mask=where.mask,
            bias_BHQK=where.bias_BHQK,
            look=look,
            site=f"{self.name}.attention",
        )
        mixed = at_site(look, f"{self.name}.heads", mixed)
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width)), key, value


@final
class Mixing(nn.Module):
    """y_i = sum_j softmax_j(x_i . x_j) x_j: queries, keys and values are the inputs themselves, and nothing is learned here."""

    def __init__(self, name: str, config: TrunkConfig):
        super().__init__()
        self.name, self.width = name, config.width
        self.score = Dot()

    def sites(self) -> dict[str, Site]:
        return attention_sites(f"{self.name}.attention") | declare(values_at(f"{self.name}.residual"))

    def cache(self, rows: int, like: Tensor) -> Tensor:
        """An empty buffer of keys or values."""
        return like.new_zeros(rows, 1, 0, self.width)

    def forward(
        self,
        x_BTD: Tensor,
        where: Where,
        positions: Positions,
        cache: tuple[Tensor, Tensor],
        look: Look | None,
        source: None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        x_B1TD = positions.turn(x_BTD.unsqueeze(1), where.angles)
        key, value, seen_key, seen_value = remember(x_B1TD, x_BTD.unsqueeze(1), cache, where.slots)
        mixed_B1TD = attend(
            x_B1TD,
            seen_key,
            seen_value,
            score=self.score,
            mask=where.mask,
            bias_BHQK=where.bias_BHQK,
            look=look,
            site=f"{self.name}.attention",
        )
        return at_site(look, f"{self.name}.residual", mixed_B1TD.squeeze(1)), key, value
