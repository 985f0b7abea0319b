"""Attention in four steps: score, hide, normalise, mix.

    weights = normalise(hide(score(query, key)))   weights_ij = softmax of score(q_i, k_j) over visible keys j
    out = weights @ value                          out_i = sum_j weights_ij v_j

The explicit computation is the specification. The error of a fused kernel against float64 is at most twice
the error of the explicit computation, plus one ulp (tests/test_parts.py). If no key is visible to a query,
its weights and its output are zero. There may be fewer heads of keys and values than of queries; each key
head is then shared by a group of adjacent query heads.

Shape legend: B rows, H heads, G heads of keys and values, Q queries, K keys, D query and key width, E value
width.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.parts.coarse import largest_weights
from regard.parts.look import Look, Place, at_site
from regard.parts.masks import Mask
from regard.parts.scores import Dot, ScaledDot, Score

Normaliser = Callable[[Tensor], Tensor]


def softmax(scores_BHQK: Tensor) -> Tensor:
    """Return e^s / sum e^s, or zeros if all scores of a row are -inf (no key is visible)."""
    return softmax_base(math.e)(scores_BHQK)


def softmax_base(base: float) -> Normaliser:
    """Return a softmax with another base than e. The lecture uses 3, which gives round numbers."""

    def normalise(scores_BHQK: Tensor) -> Tensor:
        highest = scores_BHQK.amax(-1, keepdim=True).clamp(min=torch.finfo(scores_BHQK.dtype).min)
        powers = ((scores_BHQK - highest) * math.log(base)).exp()
        return powers / powers.sum(-1, keepdim=True).clamp(min=torch.finfo(scores_BHQK.dtype).tiny)

    return normalise


def softmax_with_extra(extra_BHQ1: Tensor) -> Normaliser:
    """Return a softmax over the scores and one extra score: (B, H, Q, K + 1), the extra weight last."""
    return lambda scores_BHQK: softmax(torch.cat([scores_BHQK, extra_BHQ1], 3))


def weigh(
    query_BHQD: Tensor,
    key_BGKD: Tensor,
    *,
    score: Score,
    mask: Mask,
    normalise: Normaliser = softmax,
    bias_BHQK: Tensor | None = None,
    look: Look | None = None,
    site: str = "attention",
) -> Tensor:
    """(B, H, Q, K): the attention weights. Rows sum to 1, or to 0 if no key is visible."""
    if look is None:
        return normalise(_scores(query_BHQD, key_BGKD, score=score, mask=mask, bias_BHQK=bias_BHQK))
    query_BHQD, key_BGKD = _at_query_and_key(query_BHQD, key_BGKD, mask, look, site)
    return _weigh_with_look(query_BHQD, key_BGKD, score, mask, normalise, bias_BHQK, look, site)


def attend(
    query_BHQD: Tensor,
    key_BGKD: Tensor,
    value_BGKE: Tensor,
    *,
    score: Score,
    mask: Mask,
    bias_BHQK: Tensor | None = None,
    look: Look | None = None,
    site: str = "attention",
) -> Tensor:
    """(B, H, Q, E): the values, averaged by the attention weights.

    A fused kernel is used if there is one. Watching a site keeps the fused kernel; changing a site's weights
    or scores makes the computation explicit.
    """
    if look is not None:
        query_BHQD, key_BGKD = _at_query_and_key(query_BHQD, key_BGKD, mask, look, site)
        value_BGKE = at_value(value_BGKE, mask, look, site)
        if look.changes(site) or look.changes(f"{site}.scores"):
            weights_BHQK = _weigh_with_look(query_BHQD, key_BGKD, score, mask, softmax, bias_BHQK, look, site)
            return mix(weights_BHQK, value_BGKE)
    if not can_fuse(score):
        weights_BHQK = softmax(_scores(query_BHQD, key_BGKD, score=score, mask=mask, bias_BHQK=bias_BHQK))
        if look is not None:  # the weights are already computed
            look.watch(site, lambda rows=None: weights_BHQK if rows is None else weights_BHQK[:, :, rows])
            look.watch(
                f"{site}.scores", partial(_of_rows, _scores, query_BHQD, key_BGKD, score, mask, bias_BHQK)
            )
        return mix(weights_BHQK, value_BGKE)
    if look is not None:
        given = (query_BHQD, key_BGKD, score, mask, bias_BHQK)
        scale = 1.0 if isinstance(score, Dot) else 1 / math.sqrt(query_BHQD.shape[3])
        largest = partial(largest_weights, query_BHQD, key_BGKD, scale, mask, bias_BHQK)
        look.watch(site, partial(_of_rows, _softmax_of_scores, *given), largest)
        look.watch(f"{site}.scores", partial(_of_rows, _scores, *given))
    return _fused(query_BHQD, key_BGKD, value_BGKE, score, mask, bias_BHQK)


def mix(weights_BHQK: Tensor, value_BGKE: Tensor) -> Tensor:
    """(B, H, Q, E): the values, averaged by the weights."""
    return weights_BHQK.to(value_BGKE.dtype) @ _for_heads(value_BGKE, weights_BHQK.shape[1])


def at_value(value_BGKE: Tensor, mask: Mask, look: Look | None, site: str) -> Tensor:
    """Pass the values of an attention through their site. Values have the positions of the keys."""
    if look is None or not look.changes(f"{site}.value"):
        return at_site(look, f"{site}.value", value_BGKE)
    positions = mask.positions(1, value_BGKE.shape[2], value_BGKE.device)
    return look.at(f"{site}.value", value_BGKE, _rows_of(positions[1], value_BGKE))


def _at_query_and_key(query: Tensor, key: Tensor, mask: Mask, look: Look, site: str) -> tuple[Tensor, Tensor]:
    """Pass queries and keys through their sites. Positions are computed only if a site is changed."""
    names = (f"{site}.query", f"{site}.key")
    if not any(map(look.changes, names)):
        return look.at(names[0], query), look.at(names[1], key)
    query_BQ, key_BK = mask.positions(query.shape[2], key.shape[2], query.device)
    return look.at(names[0], query, _rows_of(query_BQ, query)), look.at(names[1], key, _rows_of(key_BK, key))


def _rows_of(position_BK: Tensor, tensor: Tensor) -> Tensor:
    return position_BK.expand(len(tensor), -1)


def _weigh_with_look(
    query: Tensor,
    key: Tensor,
    score: Score,
    mask: Mask,
    normalise: Normaliser,
    bias: Tensor | None,
    look: Look,
    site: str,
) -> Tensor:
    """Compute the weights, and pass scores and weights through their sites."""
    sizes = (query.shape[2], key.shape[2], query.device)
    place = Place(*mask.positions(*sizes), mask.visible(*sizes), "scores")
    scores = look.at_weights(
        f"{site}.scores", _scores(query, key, score=score, mask=mask, bias_BHQK=bias), place
    )
    return look.at_weights(site, normalise(scores), replace(place, holds="weights"))


def _scores(query: Tensor, key: Tensor, *, score: Score, mask: Mask, bias_BHQK: Tensor | None) -> Tensor:
    """(B, H, Q, K): the inputs of the softmax, -inf for hidden keys."""
    scores = score(query, _for_heads(key, query.shape[1]))
    scores = scores if bias_BHQK is None else scores + bias_BHQK
    return scores.masked_fill(
        ~mask.visible(query.shape[2], key.shape[2], query.device).unsqueeze(1), -torch.inf
    )


def _softmax_of_scores(
    query: Tensor, key: Tensor, *, score: Score, mask: Mask, bias_BHQK: Tensor | None
) -> Tensor:
    return softmax(_scores(query, key, score=score, mask=mask, bias_BHQK=bias_BHQK))


def _for_heads(shared_BGKD: Tensor, heads: int) -> Tensor:
    """(B, H, K, D): keys or values, repeated for each query head of a group."""
    groups = shared_BGKD.shape[1]
    return shared_BGKD if groups in (1, heads) else shared_BGKD.repeat_interleave(heads // groups, 1)


def can_fuse(score: Score) -> bool:
    """Return whether a fused kernel computes this score function."""
    return isinstance(score, Dot | ScaledDot)


def _of_rows(
    compute: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    score: Score,
    mask: Mask,
    bias: Tensor | None,
    rows: Tensor | None = None,
) -> Tensor:
    """Compute weights or scores of the query rows `rows`, or of all rows."""
    if rows is not None:
        queries, keys = mask.positions(query.shape[2], key.shape[2], key.device)
        query, mask = query[:, :, rows], mask.over(queries[:, rows], keys)
        bias = None if bias is None else bias[:, :, rows]
    return compute(query, key, score=score, mask=mask, bias_BHQK=bias)


def _fused(
    query: Tensor, key: Tensor, value: Tensor, score: Score, mask: Mask, bias: Tensor | None
) -> Tensor:
    if query.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        # On a CPU, the backward pass of bf16 kernels is slow. Attention is therefore computed in fp32.
        dtype = value.dtype
        wide = torch.promote_types(torch.float32, query.dtype)
        with torch.autocast("cpu", enabled=False):
            return _library(query.to(wide), key.to(wide), value.to(wide), score, mask, bias).to(dtype)
    return _library(query, key, value, score, mask, bias)


def _library(
    query: Tensor, key: Tensor, value: Tensor, score: Score, mask: Mask, bias: Tensor | None
) -> Tensor:
    scale = 1.0 if isinstance(score, Dot) else None
    queries, keys = query.shape[2], key.shape[2]
    causal = mask.is_only_causal() and queries == keys and bias is None
    if not causal and mask.rules:
        hiding = mask.bias(queries, keys, query)
        # the kernel has a single argument for both
        bias = hiding if bias is None else bias.to(query.dtype) + hiding
    return fused(query, key, value, bias, causal, scale)


def fused(
    query_BHQD: Tensor,
    key_BGKD: Tensor,
    value_BGKE: Tensor,
    bias_BHQK: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """(B, H, Q, E): softmax(q . k * scale + bias) v by torch's kernel; 1 / sqrt(D) is the default scale."""
    heads, groups = query_BHQD.shape[1], key_BGKD.shape[1]
    if query_BHQD.shape[2] == 1 and torch.compiler.is_compiling() and query_BHQD.device.type == "cpu":
        return in_products(query_BHQD, key_BGKD, value_BGKE, bias_BHQK, scale)
    folds = groups < heads and query_BHQD.shape[2] == 1 and (bias_BHQK is None or bias_BHQK.shape[1] == 1)
    if folds:  # the query heads that share a key head are queries of that head
        query_BHQD = query_BHQD.view(query_BHQD.shape[0], groups, heads // groups, -1)
    out = F.scaled_dot_product_attention(
        query_BHQD,
        key_BGKD,
        value_BGKE,
        attn_mask=bias_BHQK,
        is_causal=causal,
        scale=scale,
        enable_gqa=groups < heads and not folds,
    )
    return out.flatten(1, 2).unsqueeze(2) if folds else out


def in_products(
    query_BH1D: Tensor, key_BGKD: Tensor, value_BGKE: Tensor, bias_BH1K: Tensor | None, scale: float | None
) -> Tensor:
    """fused() of one query, in products and sums. A compiler for CPUs joins them, but not torch's kernel."""
    rows, heads, _, width = query_BH1D.shape
    groups = key_BGKD.shape[1]
    query_BGR1D = query_BH1D.view(rows, groups, heads // groups, 1, width)
    scores_BGRK = (query_BGR1D * key_BGKD.unsqueeze(2)).sum(-1) * (width**-0.5 if scale is None else scale)
    if bias_BH1K is not None:
        per_head = bias_BH1K.shape[1] > 1
        scores_BGRK = scores_BGRK + (bias_BH1K.view(scores_BGRK.shape) if per_head else bias_BH1K)
    weights_BGRK1 = scores_BGRK.softmax(-1).unsqueeze(-1)
    return (weights_BGRK1 * value_BGKE.unsqueeze(2)).sum(-2).view(rows, heads, 1, -1)
