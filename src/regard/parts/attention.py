"""Attention in four steps: score, hide, normalise, mix. The explicit body is the specification; the fused one must earn parity with it.

    weights = normalise(hide(score(query, key)))        weights_ij = softmax over j of score(q_i, k_j), over the j that i may see
    out = weights @ value                               out_i = sum_j weights_ij v_j

A row that may see nothing gives zeros, in every body.

Shape legend: B rows, H heads, Q queries, K keys, D query and key width, E value width.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.parts.look import Look, Place
from regard.parts.masks import Mask
from regard.parts.scores import Dot, ScaledDot, Score

Normaliser = Callable[[Tensor], Tensor]


def softmax(scores_BHQK: Tensor) -> Tensor:
    """e^s / sum e^s; zeros where every score is -inf, as where nothing may be seen."""
    return softmax_base(math.e)(scores_BHQK)


def softmax_base(base: float) -> Normaliser:
    """The same with another base than e: the lecture takes 3 for round numbers."""

    def normalise(scores_BHQK: Tensor) -> Tensor:
        highest = scores_BHQK.amax(-1, keepdim=True).clamp(min=torch.finfo(scores_BHQK.dtype).min)
        powers = ((scores_BHQK - highest) * math.log(base)).exp()
        return powers / powers.sum(-1, keepdim=True).clamp(min=torch.finfo(scores_BHQK.dtype).tiny)

    return normalise


def beside(other_BHQ1: Tensor) -> Normaliser:
    """A softmax with one more thing to look at, scored `other`: (B, H, Q, K + 1), the other's weight last."""
    return lambda scores_BHQK: softmax(torch.cat([scores_BHQK, other_BHQ1], 3))


def weigh(
    query_BHQD: Tensor,
    key_BHKD: Tensor,
    *,
    score: Score,
    mask: Mask,
    normalise: Normaliser = softmax,
    bias_BHQK: Tensor | None = None,
    look: Look | None = None,
    site: str = "attention",
) -> Tensor:
    """(B, H, Q, K): how much each query looks at each key. Rows sum to 1, or to 0 where nothing may be seen."""
    scores_BHQK = _scores(query_BHQD, key_BHKD, score=score, mask=mask, bias_BHQK=bias_BHQK)
    if look is None:
        return normalise(scores_BHQK)
    sizes = (query_BHQD.shape[2], key_BHKD.shape[2], query_BHQD.device)
    place = Place(*mask.positions(*sizes), mask.visible(*sizes))
    scores_BHQK = look.weights(f"{site}.scores", scores_BHQK, place)
    return look.weights(site, normalise(scores_BHQK), place)


def attend(
    query_BHQD: Tensor,
    key_BHKD: Tensor,
    value_BHKE: Tensor,
    *,
    score: Score,
    mask: Mask,
    bias_BHQK: Tensor | None = None,
    look: Look | None = None,
    site: str = "attention",
) -> Tensor:
    """(B, H, Q, E): weigh, then mix; fused where it can be. A watched site stays fused, an edited one becomes explicit."""
    changed = look is not None and (look.changes(site) or look.changes(f"{site}.scores"))
    if changed or not can_fuse(score):
        return (
            weigh(query_BHQD, key_BHKD, score=score, mask=mask, bias_BHQK=bias_BHQK, look=look, site=site).to(value_BHKE.dtype) @ value_BHKE
        )
    if look is not None:
        for name, wanted in ((site, weigh), (f"{site}.scores", _scores)):
            look.watch(name, partial(_of_rows, wanted, query_BHQD, key_BHKD, score, mask, bias_BHQK))
    return _fused(query_BHQD, key_BHKD, value_BHKE, score, mask, bias_BHQK)


def _scores(query: Tensor, key: Tensor, *, score: Score, mask: Mask, bias_BHQK: Tensor | None) -> Tensor:
    """What the softmax is taken of; -inf where nothing may be seen."""
    scores = score(query, key) if bias_BHQK is None else score(query, key) + bias_BHQK
    return scores.masked_fill(~mask.visible(query.shape[2], key.shape[2], query.device).unsqueeze(1), -torch.inf)


def can_fuse(score: Score) -> bool:
    return isinstance(score, Dot | ScaledDot)


def _of_rows(
    wanted: Callable[..., Tensor], query: Tensor, key: Tensor, score: Score, mask: Mask, bias: Tensor | None, rows: Tensor | None = None
) -> Tensor:
    """What is wanted of some query rows, or of all."""
    if rows is not None:
        queries, keys = mask.positions(query.shape[2], key.shape[2], key.device)
        query, mask = query[:, :, rows], mask.over(queries[:, rows], keys)
        bias = None if bias is None else bias[:, :, rows]
    return wanted(query, key, score=score, mask=mask, bias_BHQK=bias)


def _fused(query: Tensor, key: Tensor, value: Tensor, score: Score, mask: Mask, bias: Tensor | None) -> Tensor:
    if query.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        # bf16 kernels are slow there in the backward pass: fp32, whatever the layers around run in
        dtype = value.dtype
        wide = torch.promote_types(torch.float32, query.dtype)
        with torch.autocast("cpu", enabled=False):
            return _library(query.to(wide), key.to(wide), value.to(wide), score, mask, bias).to(dtype)
    return _library(query, key, value, score, mask, bias)


def _library(query: Tensor, key: Tensor, value: Tensor, score: Score, mask: Mask, bias: Tensor | None) -> Tensor:
    scale = 1.0 if isinstance(score, Dot) else None
    causal = mask.is_only_causal() and query.shape[2] == key.shape[2] and bias is None
    visible = None
    if not causal and mask.rules:
        visible = mask.visible(query.shape[2], key.shape[2], query.device).unsqueeze(1)
    if bias is not None:  # the kernel takes one mask: the bias, with what is hidden at -inf
        visible = bias.to(query.dtype) if visible is None else torch.where(visible, bias.to(query.dtype), -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, is_causal=causal, scale=scale)
