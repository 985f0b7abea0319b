"""The stack of attention blocks that Transformers, Backpacks and Transformer translators share.

    head = softmax(Q K^T / sqrt(d_k)) V,  Q = x W_q, K = x W_k, V = x W_v      (Vaswani et al. 2017)

In a block, each position attends to itself and to all earlier positions with several heads. The heads are
joined and projected, and a feed-forward layer follows.

Shape legend: B rows, T positions, S slots, H query heads, G heads of keys and values, E head width, D width.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from regard.models.contract import Padded
from regard.models.trunk_config import TrunkConfig
from regard.models.trunk_state import TrunkState
from regard.parts.attention import attend, fused
from regard.parts.cached_attention import attend_to_cache
from regard.parts.crossing import CrossAttention
from regard.parts.layers import FeedForward, drop, layer_norm, weights_of
from regard.parts.look import Look, Side, Site, at_site, attention_sites, declare, values_at
from regard.parts.masks import Mask, causal, everything, padding
from regard.parts.positions import Positions, make_positions
from regard.parts.products import Linear, product_of
from regard.parts.scores import Dot, ScaledDot
from regard.parts.slots import Slots, remember


@dataclass(frozen=True)
class Placement:
    """The positions and the mask of one call. All layers use the same placement."""

    slots: Slots
    angles: tuple[Tensor, Tensor] | None  # cosines and sines of rotary positions
    mask: Mask
    bias_BHQK: Tensor | None  # added to the scores

    @property
    def position_BT(self) -> Tensor:
        return self.slots.position_BT


@final
class Trunk(nn.Module):
    """A stack of blocks: causal for a language model, not causal for an encoder.

    With `crossing`, each block also attends to a source. `side` names the tokens that the trunk reads: the
    tokens of the call ("read"), or the source ("given").
    """

    def __init__(self, config: TrunkConfig, side: Side = "read", causal: bool = True, crossing: bool = False):
        super().__init__()
        self.side, self.causal = side, causal
        self.name = "source." if side == "given" else ""
        self.context, self.dropout = config.context, config.dropout
        blocks = config.projections != "none"
        heads = config.heads if blocks else 1
        self.positions = make_positions(config.positions, config.context, config.width, heads)
        self.embedding_width = config.width - self.positions.appended
        names = [f"{self.name}layer{number}" for number in range(config.layers)]
        self.blocks = nn.ModuleList(
            Block(name, config, side, crossing) if blocks else Mixing(name, config) for name in names
        )
        final = config.norm == "pre" and blocks
        self.lean = final and not crossing and not config.query_key_norm  # Block.one_token is for these
        self.final_norm = nn.LayerNorm(config.width, config.norm_epsilon) if final else nn.Identity()

    def sites(self) -> dict[str, Site]:
        blocks = (site for block in self.blocks for site in block.sites().values())  # type: ignore[operator]
        return declare(values_at(f"{self.name}embedding", rows=self.side, adds=True), *blocks)

    def layer_sites(self) -> list[str]:
        """Return the sites of the embedding and of the states after each block."""
        return [
            f"{self.name}embedding",
            *(f"{self.name}layer{number}.residual" for number in range(len(self.blocks))),
        ]

    def begin(self, rows: int, like: Tensor) -> TrunkState:
        """Return an empty KV cache with the type and device of `like`."""
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
    ) -> tuple[Tensor, Placement, TrunkState]:
        """Return the features, the placement of the tokens and the new state.

        `memory` holds the keys and values of a source: key and value of the first layer, of the second, ...
        """
        placement, new_position_B = self._place(real_BT, state, padded)
        lean = self.lean and look is None and not self.training and not embedded_BTD.is_cuda
        if state.fixed and lean:
            return self._one_token(embedded_BTD, placement, new_position_B, state)
        if look is not None:
            look.begin(placement.position_BT)
        x_BTD = self.positions.place(embedded_BTD, placement.position_BT)
        x_BTD = drop(x_BTD, self.dropout, self.training)
        x_BTD = at_site(look, f"{self.name}embedding", x_BTD)
        keys, values = [], []
        for number, block in enumerate(self.blocks):
            cache = (state.keys[number], state.values[number])
            source = (*memory[2 * number : 2 * number + 2], memory_mask) if memory else None
            x_BTD, key, value = block(x_BTD, placement, self.positions, cache, look, source)
            keys.append(key)
            values.append(value)
        new_state = TrunkState(new_position_B, tuple(keys), tuple(values), state.fixed)
        return self.final_norm(x_BTD), placement, new_state

    def _one_token(
        self, embedded_B1D: Tensor, placement: Placement, new_position_B: Tensor, state: TrunkState
    ) -> tuple[Tensor, Placement, TrunkState]:
        """forward() for one token in each row, with fewer calls of Python."""
        x_BD = self.positions.place(embedded_B1D, placement.position_BT).squeeze(1)
        bias = placement.bias_BHQK
        if placement.mask.rules:
            hiding = placement.mask.bias(1, placement.slots.seen, x_BD)
            bias = hiding if bias is None else bias.to(x_BD.dtype) + hiding
        for block, *cache in zip(self.blocks, state.keys, state.values, strict=True):
            x_BD = block.one_token(x_BD, placement, bias, self.positions, cache)  # type: ignore[operator]
        x_B1D = self.final_norm(x_BD).unsqueeze(1)
        return x_B1D, placement, TrunkState(new_position_B, state.keys, state.values, True)

    def _place(self, real_BT: Tensor, state: TrunkState, padded: Padded) -> tuple[Placement, Tensor]:
        """Return the placement of a call's tokens, and the position of each row after the call.

        Positions continue from the state's positions. Padding has position -1.
        """
        if state.fixed:
            if real_BT.shape[1] != 1 or padded != "right":
                raise ValueError('a state with fixed buffers needs one token in each row and padded="right"')
            slots = _fixed_slots(state.position_B, state.keys[0].shape[2])
            return self._placement(slots, _mask(slots)), state.position_B + 1
        fresh, counted_BT = not state.keys[0].shape[2], real_BT.cumsum(1) - 1
        position_BT = counted_BT if fresh else state.position_B.unsqueeze(1) + counted_BT
        position_BT = torch.where(real_BT, position_BT, -1)
        new_position_B = real_BT.sum(1) if fresh else state.position_B + real_BT.sum(1)
        if not self.causal:
            mask = everything if bool(real_BT.all()) else padding.over(position_BT, position_BT)
            return self._placement(Slots(position_BT, real_BT.shape[1], 0), mask), new_position_B
        if fresh and padded == "right":  # the causal mask hides padding that follows a row's last token
            return self._placement(Slots(position_BT, real_BT.shape[1], 0), causal), new_position_B
        seen = max(1, int(new_position_B.max()))
        if seen > self.context:
            raise ValueError(f"the context of {self.context} tokens is full: call state.next_window() first")
        lowest = int(position_BT.min())
        # Even: no padding, and the same position in all rows.
        even = lowest >= 0 and lowest == seen - real_BT.shape[1]
        slots = Slots(position_BT, seen, lowest if even else None)
        return self._placement(slots, _mask(slots)), new_position_B

    def _placement(self, slots: Slots, mask: Mask) -> Placement:
        angles, bias = self.positions.angles(slots.position_BT), None
        if self.positions.biased:
            bias = self.positions.bias(slots.position_BT, slots.columns_1S)
        return Placement(slots, angles, mask, bias)


def _fixed_slots(position_B: Tensor, room: int) -> Slots:
    """Return the slots of one token in each row, in buffers of a fixed size.

    On a CPU, the host may ask how much of the buffers is filled. A recorded or compiled call may not.
    """
    if position_B.is_cuda or torch.compiler.is_compiling():
        return Slots(position_B.unsqueeze(1), room, None, fixed=True)
    lowest, highest = map(int, (position_B, position_B) if len(position_B) == 1 else position_B.aminmax())
    return Slots(position_B.unsqueeze(1), highest + 1, highest if lowest == highest else None, fixed=True)


def _mask(slots: Slots) -> Mask:
    """Return the mask of a call: `causal` or `everything` if possible, which need no tensor."""
    if slots.first == 0:
        return causal
    if slots.first is not None and slots.position_BT.shape[1] == 1:
        return everything
    return causal.over(slots.position_BT, slots.columns_1S)


@final
class Block(nn.Module):
    """Attention, cross-attention if there is a source, and a feed-forward layer.

    Each of these sublayers has a layer norm and a residual connection.
    """

    def __init__(self, name: str, config: TrunkConfig, side: Side, crossing: bool = False):
        super().__init__()
        self.name, self.side, self.heads, self.post = name, side, config.heads, config.norm == "post"
        width, size = config.width, config.width // config.heads
        self.groups = config.key_value_heads or config.heads
        self.attention_norm, self.feed_norm = (nn.LayerNorm(width, config.norm_epsilon) for _ in range(2))
        # One product computes the queries, keys and values. A key that is its own value has one map.
        maps = 1 if config.projections == "key-is-value" else 2
        self.project = Linear(width, (self.heads + maps * self.groups) * size)
        self.query_key_norm = nn.RMSNorm(size, eps=1e-5) if config.query_key_norm else nn.Identity()
        self.out = Linear(width, width)
        self.feed = FeedForward(width, config.dropout, config.feed_activation, config.inner)
        self.cross = CrossAttention(width, config.heads, config.dropout) if crossing else None
        self.cross_norm = nn.LayerNorm(width, config.norm_epsilon) if crossing else None
        self.dropout = config.dropout
        self.score = ScaledDot()
        for linear in (self.project, self.out, self.feed.up, self.feed.down):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        # The initial sum over all layers is no larger than the output of one layer (GPT-2).
        for linear in (self.out, self.feed.down):
            nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * config.layers))

    def sites(self) -> dict[str, Site]:
        name, side, adds = self.name, self.side, not self.post
        sites = attention_sites(f"{name}.attention", rows=side, columns=side)
        sites |= declare(values_at(f"{name}.heads", "BHTE", rows=side))
        if self.cross is not None:
            sites |= attention_sites(f"{name}.cross", columns="given")
            sites |= declare(values_at(f"{name}.crossed", adds=adds))
        parts = {
            "attention_norm": False,
            "attended": adds,
            "feed_norm": False,
            "feed": adds,
            "residual": False,
        }
        return sites | declare(
            *(values_at(f"{name}.{part}", rows=side, adds=added) for part, added in parts.items())
        )

    def cache(self, rows: int, like: Tensor) -> Tensor:
        """Return an empty buffer of keys or values."""
        return like.new_zeros(rows, self.groups, 0, self.out.in_features // self.heads)

    def forward(
        self,
        x_BTD: Tensor,
        placement: Placement,
        positions: Positions,
        cache: tuple[Tensor, Tensor],
        look: Look | None,
        source: tuple[Tensor, Tensor, Mask] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        attention_norm = self._norm(self.attention_norm, "attention_norm", look)
        feed_norm = self._norm(self.feed_norm, "feed_norm", look)
        attended_BTD, key, value = self._attend(
            x_BTD if self.post else attention_norm(x_BTD), placement, positions, cache, look
        )
        x_BTD = x_BTD + at_site(
            look, f"{self.name}.attended", drop(attended_BTD, self.dropout, self.training)
        )
        x_BTD = attention_norm(x_BTD) if self.post else x_BTD
        if self.cross is not None and self.cross_norm is not None and source is not None:
            crossed_BTD = self.cross(
                x_BTD if self.post else self.cross_norm(x_BTD), *source, look, f"{self.name}.cross"
            )
            x_BTD = x_BTD + at_site(look, f"{self.name}.crossed", crossed_BTD)
            x_BTD = self.cross_norm(x_BTD) if self.post else x_BTD
        x_BTD = x_BTD + at_site(
            look, f"{self.name}.feed", self.feed(x_BTD if self.post else feed_norm(x_BTD))
        )
        x_BTD = feed_norm(x_BTD) if self.post else x_BTD
        return at_site(look, f"{self.name}.residual", x_BTD), key, value

    def one_token(
        self,
        x_BD: Tensor,
        placement: Placement,
        bias_BH1S: Tensor | None,
        positions: Positions,
        cache: list[Tensor],
    ) -> Tensor:
        """forward() for one token in each row: pre-norm, in evaluation, without a look.

        A small model spends half of a step in Python's calls between the kernels. There are few of them here.
        """
        own: Any = self._modules
        rows, width = x_BD.shape
        product = product_of(rows)
        normed_BD = layer_norm(own["attention_norm"], x_BD)
        all_BH1E = product(normed_BD, *weights_of(own["project"])).view(rows, -1, 1, width // self.heads)
        both_BH1E, value = all_BH1E[:, : self.heads + self.groups], all_BH1E[:, -self.groups :]
        turned = positions.turn(both_BH1E, placement.angles)
        query, key = turned.split_with_sizes([self.heads, self.groups], 1)
        _, seen_key = placement.slots.write(cache[0], key, 2)
        _, seen_value = placement.slots.write(cache[1], value, 2)
        mixed = fused(query, seen_key, seen_value, bias_BH1S)
        x_BD = x_BD + product(mixed.reshape(rows, width), *weights_of(own["out"]))
        return x_BD + own["feed"].without_dropout(layer_norm(own["feed_norm"], x_BD), product)

    def _norm(self, norm: nn.Module, part: str, look: Look | None) -> Callable[[Tensor], Tensor]:
        return norm if look is None else lambda x_BTD: at_site(look, f"{self.name}.{part}", norm(x_BTD))

    def _attend(
        self,
        x_BTD: Tensor,
        placement: Placement,
        positions: Positions,
        cache: tuple[Tensor, Tensor],
        look: Look | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows, length, width = x_BTD.shape
        all_BHTE = self.project(x_BTD).unflatten(2, (-1, width // self.heads)).transpose(1, 2)
        # The last groups are the values, or the keys themselves, before positions turn them.
        both_BHTE, value = all_BHTE[:, : self.heads + self.groups], all_BHTE[:, -self.groups :]
        query, key = positions.turn(self.query_key_norm(both_BHTE), placement.angles).split(
            [self.heads, self.groups], 1
        )
        if placement.slots.fixed and x_BTD.is_cuda and look is None and placement.bias_BHQK is None:
            tokens = (tensor.squeeze(2) for tensor in (query, key, value))
            position_B = placement.slots.position_BT.squeeze(1)
            mixed_BHE = attend_to_cache(*tokens, *cache, position_B, query.shape[3] ** -0.5)
            return self.out(mixed_BHE.reshape(rows, 1, width)), *cache
        key, value, seen_key, seen_value = remember(key, value, cache, placement.slots)
        mixed = attend(
            query,
            seen_key,
            seen_value,
            score=self.score,
            mask=placement.mask,
            bias_BHQK=placement.bias_BHQK,
            look=look,
            site=f"{self.name}.attention",
        )
        mixed = at_site(look, f"{self.name}.heads", mixed)
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width)), key, value


@final
class Mixing(nn.Module):
    """A block without parameters: y_i = sum_j softmax_j(x_i . x_j) x_j.

    The inputs are the queries, keys and values.
    """

    def __init__(self, name: str, config: TrunkConfig):
        super().__init__()
        self.name, self.width = name, config.width
        self.score = Dot()

    def sites(self) -> dict[str, Site]:
        return attention_sites(f"{self.name}.attention") | declare(values_at(f"{self.name}.residual"))

    def cache(self, rows: int, like: Tensor) -> Tensor:
        """Return an empty buffer of keys or values."""
        return like.new_zeros(rows, 1, 0, self.width)

    def forward(
        self,
        x_BTD: Tensor,
        placement: Placement,
        positions: Positions,
        cache: tuple[Tensor, Tensor],
        look: Look | None,
        source: None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        x_B1TD = positions.turn(x_BTD.unsqueeze(1), placement.angles)
        key, value, seen_key, seen_value = remember(x_B1TD, x_BTD.unsqueeze(1), cache, placement.slots)
        mixed_B1TD = attend(
            x_B1TD,
            seen_key,
            seen_value,
            score=self.score,
            mask=placement.mask,
            bias_BHQK=placement.bias_BHQK,
            look=look,
            site=f"{self.name}.attention",
        )
        return at_site(look, f"{self.name}.residual", mixed_B1TD.squeeze(1)), key, value
