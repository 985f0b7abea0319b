"""The stack of blocks under Transformers and Backpacks: every position looks at itself and all earlier ones at once, in several heads.

    head = softmax(Q K^T / sqrt(d_k)) V,  Q = x W_q, K = x W_k, V = x W_v;  heads joined and projected; then a feed-forward layer

Shape legend: B rows, T positions, S slots remembered, H heads, E head width, D width.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.contract import State
from regard.models.ranges import at_least, share
from regard.models.translation import CrossAttention
from regard.parts.attention import attend
from regard.parts.layers import FeedForward, drop
from regard.parts.look import Look, at_site, weight_sites
from regard.parts.masks import Mask, causal, everything, padding
from regard.parts.positions import PositionName, Positions, make_positions
from regard.parts.scores import Dot, ScaledDot


@dataclass(frozen=True, kw_only=True)
class TrunkConfig:
    """What the configurations of its models have in common."""

    layers: int = 2
    """How many blocks of attention and feed-forward are stacked."""
    width: int = 128
    """Features of a position."""
    heads: int = 4
    """How many attentions a layer has side by side."""
    context: int = 64
    """How many tokens it can see."""
    positions: PositionName = "rotary"
    """How it knows where a token stands."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each part, or after it as published in 2017 (with ReLU)."""
    query_key_norm: bool = False
    """Queries and keys of self-attention have a norm of their own, so that scores cannot grow without bound."""
    key_value_heads: int | None = None
    """Keys and values of self-attention have so many heads, each shared by a group of query heads: a smaller cache (as many as --heads)."""
    projections: Literal["learned", "none"] = "learned"
    """Queries, keys and values are learned maps of the inputs, or the inputs themselves and nothing else is learned."""
    dropout: float = 0.1
    """Share of features left out while training."""

    def __post_init__(self) -> None:
        at_least(1, layers=self.layers, width=self.width, heads=self.heads, context=self.context)
        share(dropout=self.dropout)
        groups = self.heads if self.key_value_heads is None else self.key_value_heads
        at_least(1, key_value_heads=groups)
        if self.projections == "none" and (self.query_key_norm or self.key_value_heads is not None):
            raise UserError("--query-key-norm and --key-value-heads are of learned queries, keys and values: leave out --projections none")
        if self.heads % groups:
            raise UserError(f"--heads {self.heads} cannot be divided among --key-value-heads {groups}; choose a divisor")
        if self.width % self.heads:
            raise UserError(f"--width {self.width} cannot be divided among --heads {self.heads}; choose a multiple")
        if self.positions == "rotary" and (self.width // (self.heads if self.projections == "learned" else 1)) % 2:
            raise UserError("rotary positions need an even number of features a head; change --width or --heads")
        if self.positions == "onehot" and self.context >= self.width:
            raise UserError("one-hot positions are appended: --width must be larger than --context")


MEDIUM = {"layers": 6, "width": 384, "heads": 6, "context": 256, "dropout": 0.2, "batch": 64, "learning_rate": 0.003}


@dataclass(frozen=True)
class TrunkState(State):
    slot_BS: Tensor  # 1 + the position of what each slot holds, 0 where it is empty
    keys: tuple[Tensor, ...]  # a layer each: (B, H, at least S, E)
    values: tuple[Tensor, ...]


@dataclass(frozen=True)
class Where:
    """Positions and mask of one call, the same for every layer."""

    position_BT: Tensor
    slot_BS: Tensor
    angles: tuple[Tensor, Tensor] | None  # of rotary positions
    mask: Mask
    bias_BHQK: Tensor | None
    used: int  # slots filled before


@final
class Trunk(nn.Module):
    """Causal, as language models are; one that reads a source sees all of it, and one with `crossing` looks at a source too."""

    def __init__(self, config: TrunkConfig, name: str = "", causal: bool = True, crossing: bool = False):
        super().__init__()
        self.name, self.causal = name, causal
        self.context, self.dropout = config.context, config.dropout
        heads = config.heads if config.projections == "learned" else 1
        self.positions = make_positions(config.positions, config.context, config.width, heads)
        self.embedding_width = config.width - self.positions.appended
        names = [f"{name}layer{number}" for number in range(config.layers)]
        learned = config.projections == "learned"
        self.blocks = nn.ModuleList(Block(one, config, crossing) if learned else Mixing(one, config) for one in names)
        self.final_norm = nn.LayerNorm(config.width) if config.norm == "pre" and learned else nn.Identity()

    def sites(self) -> dict[str, str]:
        found = {f"{self.name}embedding": "(B, T, D)"}
        for block in self.blocks:
            found |= block.sites()  # type: ignore[operator]
        return found

    def forward(
        self, embedded_BTD: Tensor, real_BT: Tensor, state: TrunkState | None, look: Look | None,
        memory: tuple[Tensor, ...] = (), memory_mask: Mask = everything,
    ):  # fmt: skip
        """(features_BTD, where, state): what each position knows. Memory: keys and values of a source, layer by layer."""
        where, new_position_B = self._where(real_BT, state)
        if look is not None:
            look.begin(where.position_BT)
        x_BTD = self.positions.place(embedded_BTD, where.position_BT)
        x_BTD = drop(x_BTD, self.dropout, self.training)
        x_BTD = at_site(look, f"{self.name}embedding", x_BTD)
        keys, values = [], []
        for number, block in enumerate(self.blocks):
            cache = None if state is None else (state.keys[number], state.values[number])
            source = (*memory[2 * number : 2 * number + 2], memory_mask) if memory else None
            x_BTD, key, value = block(x_BTD, where, self.positions, cache, look, source)
            keys.append(key)
            values.append(value)
        return self.final_norm(x_BTD), where, TrunkState(new_position_B, where.slot_BS, tuple(keys), tuple(values))

    def _where(self, real_BT: Tensor, state: TrunkState | None) -> tuple[Where, Tensor]:
        """Positions go on from the state's; padding has position -1. A mask is built only where the plain ones do not do."""
        if state is None:
            position_BT = torch.where(real_BT, real_BT.cumsum(1) - 1, -1)
            new_position_B, slot_BS = real_BT.sum(1), position_BT + 1
        else:
            position_BT = torch.where(real_BT, state.position_B.unsqueeze(1) + real_BT.cumsum(1) - 1, -1)
            new_position_B, slot_BS = state.position_B + real_BT.sum(1), torch.cat([state.slot_BS, position_BT + 1], 1)
        used = slot_BS.shape[1] - real_BT.shape[1]
        if not self.causal:
            if int(new_position_B.max()) > self.context:
                raise ValueError(f"a context of {self.context} tokens is full")
            mask = everything if bool(real_BT.all()) else padding.over(position_BT, position_BT)
        elif state is None and self.training:  # rows are padded on the right only: a causal mask hides it
            mask = causal
        else:
            if int(new_position_B.max()) > self.context:
                raise ValueError(f"a context of {self.context} tokens is full: begin again from the last part of it")
            filled = bool(slot_BS.all())
            if filled and state is None:
                mask = causal
            elif filled and real_BT.shape[1] == 1:
                mask = everything
            else:
                mask = (causal & padding).over(position_BT, slot_BS - 1)
        angles, bias = self.positions.angles(position_BT), self.positions.bias(position_BT, slot_BS - 1)
        return Where(position_BT, slot_BS, angles, mask, bias, used), new_position_B


@final
class Block(nn.Module):
    """Attention, where there is a source attention to it, then a feed-forward layer; each with its norm and a path around it."""

    def __init__(self, name: str, config: TrunkConfig, crossing: bool = False):
        super().__init__()
        self.name, self.heads, self.post = name, config.heads, config.norm == "post"
        width, size = config.width, config.width // config.heads
        self.groups = config.key_value_heads or config.heads
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project = nn.Linear(width, (self.heads + 2 * self.groups) * size)  # query, key and value side by side
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
        for linear in (self.out, self.feed.down):  # so that the sum over all layers starts no larger than one (GPT-2)
            nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * config.layers))

    def sites(self) -> dict[str, str]:
        parts = ("attention_norm", "attended", "feed_norm", "feed", "residual")
        heads = {**weight_sites(f"{self.name}.attention", "(B, H, T, S)"), f"{self.name}.heads": "(B, H, T, E)"}
        cross = {} if self.cross is None else {**weight_sites(f"{self.name}.cross", "(B, H, T, S)"), f"{self.name}.crossed": "(B, T, D)"}
        return heads | cross | {f"{self.name}.{part}": "(B, T, D)" for part in parts}

    def forward(
        self, x_BTD: Tensor, where: Where, positions: Positions, cache: tuple[Tensor, Tensor] | None, look: Look | None,
        source: tuple[Tensor, Tensor, Mask] | None = None,
    ):  # fmt: skip
        attention_norm = self._norm(self.attention_norm, "attention_norm", look)
        feed_norm = self._norm(self.feed_norm, "feed_norm", look)
        attended_BTD, key, value = self._attend(x_BTD if self.post else attention_norm(x_BTD), where, positions, cache, look)
        x_BTD = x_BTD + at_site(look, f"{self.name}.attended", drop(attended_BTD, self.dropout, self.training))
        x_BTD = attention_norm(x_BTD) if self.post else x_BTD
        if self.cross is not None and self.cross_norm is not None and source is not None:
            seen_BTD = self.cross(x_BTD if self.post else self.cross_norm(x_BTD), *source, look, f"{self.name}.cross")
            x_BTD = x_BTD + at_site(look, f"{self.name}.crossed", seen_BTD)
            x_BTD = self.cross_norm(x_BTD) if self.post else x_BTD
        x_BTD = x_BTD + at_site(look, f"{self.name}.feed", self.feed(x_BTD if self.post else feed_norm(x_BTD)))
        x_BTD = feed_norm(x_BTD) if self.post else x_BTD
        return at_site(look, f"{self.name}.residual", x_BTD), key, value

    def _norm(self, norm: nn.Module, part: str, look: Look | None) -> Callable[[Tensor], Tensor]:
        return norm if look is None else lambda x_BTD: at_site(look, f"{self.name}.{part}", norm(x_BTD))

    def _attend(self, x_BTD: Tensor, where: Where, positions: Positions, cache: tuple[Tensor, Tensor] | None, look: Look | None):
        rows, length, width = x_BTD.shape
        all_BHTE = self.project(x_BTD).view(rows, length, self.heads + 2 * self.groups, -1).transpose(1, 2)
        both_BHTE, value = all_BHTE.split([self.heads + self.groups, self.groups], 1)
        query, key = positions.turn(self.query_key_norm(both_BHTE), where.angles).split([self.heads, self.groups], 1)
        key, value, seen_key, seen_value = remember(key, value, cache, where.used)
        if self.groups < self.heads:
            seen_key, seen_value = (one.repeat_interleave(self.heads // self.groups, 1) for one in (seen_key, seen_value))
        site = f"{self.name}.attention"
        mixed = attend(query, seen_key, seen_value, score=self.score, mask=where.mask, bias_BHQK=where.bias_BHQK, look=look, site=site)
        mixed = at_site(look, f"{self.name}.heads", mixed)
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width)), key, value


@final
class Mixing(nn.Module):
    """y_i = sum_j softmax_j(x_i . x_j) x_j: queries, keys and values are the inputs themselves, and nothing is learned here."""

    def __init__(self, name: str, config: TrunkConfig):
        super().__init__()
        self.name = name
        self.score = Dot()

    def sites(self) -> dict[str, str]:
        return weight_sites(f"{self.name}.attention", "(B, 1, T, S)")

    def forward(
        self, x_BTD: Tensor, where: Where, positions: Positions, cache: tuple[Tensor, Tensor] | None, look: Look | None, source: None = None
    ):
        x_B1TD = positions.turn(x_BTD.unsqueeze(1), where.angles)
        key, value, seen_key, seen_value = remember(x_B1TD, x_BTD.unsqueeze(1), cache, where.used)
        site = f"{self.name}.attention"
        mixed_B1TD = attend(
            x_B1TD, seen_key, seen_value, score=self.score, mask=where.mask, bias_BHQK=where.bias_BHQK, look=look, site=site
        )
        return mixed_B1TD.squeeze(1), key, value


def remember(key: Tensor, value: Tensor, cache: tuple[Tensor, Tensor] | None, used: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """New keys and values behind the old: (buffers to keep, what can be seen). A buffer that is full doubles; the old state is used up."""
    if cache is None:
        return key, value, key, value
    kept = []
    for new, buffer in ((key, cache[0]), (value, cache[1])):
        needed = used + new.shape[2]
        if torch.is_grad_enabled():  # what gradients need must not be written over
            buffer = torch.cat([buffer[:, :, :used], new], 2)
        else:
            if buffer.shape[2] < needed:
                buffer = torch.cat([buffer[:, :, :used], new.new_zeros(*new.shape[:2], needed, new.shape[3])], 2)
            buffer[:, :, used:needed] = new
        kept.append(buffer)
    needed = used + key.shape[2]
    return kept[0], kept[1], kept[0][:, :, :needed], kept[1][:, :, :needed]
