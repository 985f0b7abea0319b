"""The largest attention weight of each block of queries and keys, without the weights of all pairs in memory.

    weights = softmax(hide(q k^T / sqrt(d)))   for some queries at a time, over the keys that they see
    largest_ij = max weights[rows of block i, columns of block j]

Shape legend: B rows, H heads, G heads of keys, Q queries, K keys, D width, R queries at a time, S keys that
they see, P keys that some of these queries do not see, I blocks of queries, J blocks of keys.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.parts.masks import Mask
from regard.parts.products import linear

AT_A_TIME = 64  # queries: their weights over some thousand keys stay in a processor's cache


def largest_weights(
    query_BHQD: Tensor, key_BGKD: Tensor, scale: float, mask: Mask, bias_BHQK: Tensor | None, block: int
) -> Tensor:
    """(B, H, I, J): the largest weight of each block of `block` queries and `block` keys.

    Keys that no query of a slice sees are left out, which halves the work of causal attention.
    """
    (batch, heads, queries, _), (groups, keys) = query_BHQD.shape, key_BGKD.shape[1:3]
    query_BQ, key_BK = mask.positions(queries, keys, query_BHQD.device)
    # oneDNN is a hundred times slower on rows that lie apart, as those of a head do in a layer's output
    scaled_BHQD, key_BGKD = (query_BHQD * scale).contiguous(), key_BGKD.contiguous()
    largest_BHIJ = query_BHQD.new_zeros(batch, heads, -(-queries // block), -(-keys // block))
    step = max(1, AT_A_TIME // block) * block
    for first in range(0, queries, step):
        rows = slice(first, min(queries, first + step))
        seen_BRK = mask.over(query_BQ[:, rows], key_BK).visible(rows.stop - first, keys, query_BHQD.device)
        for row in range(batch):
            seen = _seen(seen_BRK[row % len(seen_BRK)], block)
            across = slice(seen.columns.start // block, -(-seen.columns.stop // block))
            for head in range(heads):
                key_SD = key_BGKD[row, head * groups // heads, seen.columns]
                scores_RS = linear(scaled_BHQD[row, head, rows], key_SD)
                if bias_BHQK is not None:
                    own_QK = bias_BHQK[row % len(bias_BHQK), head % bias_BHQK.shape[1]]
                    scores_RS = scores_RS + own_QK[rows, seen.columns]
                largest_IJ = _of_blocks(_weights(scores_RS, seen), block)
                down = slice(first // block, first // block + len(largest_IJ))
                largest_BHIJ[row, head, down, across] = largest_IJ
    return largest_BHIJ


@dataclass(frozen=True)
class _Seen:
    """The keys that the queries of a slice see."""

    columns: slice  # from the first key to the last that any query sees
    partly: slice  # of these columns: from the first to the last that some query does not see
    hidden_RP: Tensor  # True where a query does not see one of these
    blind_R1: Tensor | None  # True for a query that sees no key; None if there is none


def _seen(seen_RK: Tensor, block: int) -> _Seen:
    columns = _span(seen_RK.any(0), block)
    seen_RS = seen_RK[:, columns]
    partly = _span(~seen_RS.all(0), 1)  # in a causal slice, these are its last columns
    blind_R1 = ~seen_RS.any(1, keepdim=True)
    return _Seen(columns, partly, ~seen_RS[:, partly], blind_R1 if bool(blind_R1.any()) else None)


def _span(chosen_K: Tensor, block: int) -> slice:
    """Return the columns from the first to the last chosen one, widened to the beginning of a block."""
    (places,) = chosen_K.nonzero(as_tuple=True)
    if not len(places):
        return slice(0, 0)
    return slice(int(places[0]) // block * block, int(places[-1]) + 1)


def _weights(scores_RS: Tensor, seen: _Seen) -> Tensor:
    """(R, S): the softmax of the scores of visible keys; 0 for a query that sees no key."""
    scores_RS[:, seen.partly].masked_fill_(seen.hidden_RP, -math.inf)
    weights_RS = torch.softmax(scores_RS, 1)
    return weights_RS if seen.blind_R1 is None else weights_RS.masked_fill_(seen.blind_R1, 0)


def _of_blocks(weights_RS: Tensor, block: int) -> Tensor:
    """(I, J): the largest weight of each block; the last blocks may be smaller."""
    below, right = (-size % block for size in weights_RS.shape)
    if below or right:
        weights_RS = F.pad(weights_RS, (0, right, 0, below))
    # rows first: columns of one row lie side by side, so this reduction is a maximum of whole vectors
    rows_IS = weights_RS.unflatten(0, (-1, block)).amax(1)
    return rows_IS.unflatten(1, (-1, block)).amax(2)
