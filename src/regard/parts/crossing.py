"""Cross-attention: the queries are target positions, the keys and values are source positions.

Shape legend: B rows, S source positions, T target positions, H heads, E head width, D width.
"""

from typing import final

from torch import Tensor, nn

from regard.parts.attention import attend
from regard.parts.layers import drop
from regard.parts.look import Look
from regard.parts.masks import Mask
from regard.parts.products import Linear
from regard.parts.scores import ScaledDot


@final
class CrossAttention(nn.Module):
    """Multi-head attention from the target to the source."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = Linear(width, width)
        self.project = Linear(width, 2 * width)  # one product computes keys and values
        self.out = Linear(width, width)
        self.score = ScaledDot()

    def memory(self, encoded_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (B, H, S, E). They are computed once for each source."""
        key, value = self.project(encoded_BSD).unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return key.contiguous(), value.contiguous()

    def forward(
        self, x_BTD: Tensor, key: Tensor, value: Tensor, mask: Mask, look: Look | None, site: str
    ) -> Tensor:
        """(B, T, D): the attended values. The rows of one source (the hypotheses of a beam) are adjacent."""
        rows, length, width = x_BTD.shape
        groups, beams = len(key), rows // len(key)
        query = (
            self.query(x_BTD).view(groups, beams * length, self.heads, width // self.heads).transpose(1, 2)
        )
        mixed = attend(query, key, value, score=self.score, mask=mask, look=look, site=site)
        return drop(self.out(mixed.transpose(1, 2).reshape(rows, length, width)), self.dropout, self.training)
