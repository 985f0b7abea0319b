"""The options that Transformers, Backpacks and Transformer translators share."""

from dataclasses import dataclass
from typing import Literal

from regard.errors import UserError
from regard.parts.layers import ActivationName
from regard.parts.positions import PositionName
from regard.ranges import Count, Layers, Positive, Share


@dataclass(frozen=True, kw_only=True)
class TrunkConfig:
    """The options of the trunk, a stack of attention blocks (trunk.py)."""

    layers: Layers = 2
    """Number of blocks (attention, then a feed-forward layer)."""
    width: Count = 128
    """Number of features at each position."""
    heads: Count = 4
    """Number of attention heads in a layer."""
    context: Count = 64
    """Number of tokens in a window. Attention does not reach beyond the window."""
    positions: PositionName = "rotary"
    """Encoding of positions."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sublayer, or after it with ReLU, as published in 2017."""
    query_key_norm: bool = False
    """Normalise the queries and keys of self-attention, so that scores cannot grow without bound."""
    key_value_heads: Count | None = None
    """Number of key and value heads. Each is shared by a group of query heads, for a smaller KV cache (as
    many as query heads)."""
    projections: Literal["learned", "key-is-value", "none"] = "learned"
    """Learn the maps from inputs to queries, keys and values; let each key be its own value, without a map to
    values (key-is-value); or use the inputs themselves. With none, the blocks have no parameters."""
    inner: Count | None = None
    """Number of features inside a feed-forward layer (4 times the width)."""
    activation: ActivationName | None = None
    """Activation of feed-forward layers (pre: gelu, post: relu)."""
    norm_epsilon: Positive = 1e-5
    """The number that layer norm adds to the variance."""
    dropout: Share = 0.1
    """Share of features set to zero in training."""

    def __post_init__(self) -> None:
        groups = self.heads if self.key_value_heads is None else self.key_value_heads
        of_blocks = (self.key_value_heads, self.inner, self.activation)
        if self.projections == "none" and (
            self.query_key_norm or any(value is not None for value in of_blocks)
        ):
            names = "`query_key_norm`, `key_value_heads`, `inner` and `activation`"
            raise UserError(f"{names} need blocks with parameters: set `projections` to learned")
        if self.heads % groups:
            raise UserError(
                f"`heads` {self.heads} cannot be divided among `key_value_heads` {groups}; choose a divisor"
            )
        if self.width % self.heads:
            raise UserError(
                f"`width` {self.width} cannot be divided among `heads` {self.heads}; choose a multiple"
            )
        head_width = self.width // (1 if self.projections == "none" else self.heads)
        if self.positions == "rotary" and head_width % 2:
            raise UserError(
                "rotary positions need an even number of features in each head: change `width` or `heads`"
            )
        if self.positions == "onehot" and self.context >= self.width:
            raise UserError(
                "one-hot positions are appended to the embedding: `width` must be larger than `context`"
            )

    @property
    def feed_activation(self) -> ActivationName:
        return self.activation or ("relu" if self.norm == "post" else "gelu")


# The options of model and training that `size` medium sets.
MEDIUM = {
    "layers": 6,
    "width": 384,
    "heads": 6,
    "context": 256,
    "dropout": 0.2,
    "batch": 64,
    "learning_rate": 0.003,
}
