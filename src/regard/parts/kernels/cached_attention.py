"""Attention of one new token a row to its KV cache. The specification is in `parts/cached_attention.py`.

A program serves one row and one head of keys and values. It writes the new key and value into the cache and
reads only the slots before them, so a short text in a long buffer costs no more than in a short one.

Shape legend: B rows, H query heads, G heads of keys and values, R query heads of a group, S slots, E head
width.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

SLOTS = 64  # slots that a program reads at a time, shared out among the query heads of a group


def attend_to_cache(
    query_BHE: Tensor,
    key_BGE: Tensor,
    value_BGE: Tensor,
    keys_BGSE: Tensor,
    values_BGSE: Tensor,
    position_B: Tensor,
    scale: float,
) -> Tensor:
    """(B, H, E): write the new key and value into the cache, and return the weighted sum of all values."""
    rows, heads, width = query_BHE.shape
    groups, room = keys_BGSE.shape[1:3]
    out_BHE = torch.empty_like(query_BHE)
    shared = heads // groups
    padded = triton.next_power_of_2(shared)
    sizes = (
        groups,
        room,
        scale,
        shared,
        padded,
        width,
        triton.next_power_of_2(width),
        max(8, SLOTS // padded),
    )
    tensors = (query_BHE, key_BGE, value_BGE, keys_BGSE, values_BGSE, position_B, out_BHE)
    _kernel[(rows * groups,)](*tensors, *sizes, num_warps=4)
    return out_BHE


@triton.jit
def _kernel(
    query_ptr,
    key_ptr,
    value_ptr,
    keys_ptr,
    values_ptr,
    position_ptr,
    out_ptr,
    groups,
    room,
    scale,
    SHARED: tl.constexpr,
    R: tl.constexpr,
    WIDTH: tl.constexpr,
    E: tl.constexpr,
    S: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)  # row * groups + group
    position = tl.load(position_ptr + program // groups)
    heads, features = tl.arange(0, R), tl.arange(0, E)
    real = (heads[:, None] < SHARED) & (features[None, :] < WIDTH)
    places = (program * SHARED + heads[:, None]) * WIDTH + features[None, :]
    query = tl.load(query_ptr + places, mask=real, other=0.0).to(tl.float32) * scale
    inside = features < WIDTH
    key = tl.load(key_ptr + program * WIDTH + features, mask=inside, other=0.0)
    value = tl.load(value_ptr + program * WIDTH + features, mask=inside, other=0.0)
    cache = program * room * WIDTH
    tl.store(keys_ptr + cache + position * WIDTH + features, key, mask=inside)
    tl.store(values_ptr + cache + position * WIDTH + features, value, mask=inside)
    # The softmax begins with the new token; the slots before it follow block by block.
    highest = tl.sum(query * key.to(tl.float32)[None, :], 1)
    total = tl.full([R], 1.0, tl.float32)
    mixed = tl.zeros([R, E], tl.float32) + value.to(tl.float32)[None, :]
    first = position * 0
    while first < position:
        slots = first + tl.arange(0, S)
        filled = (slots[:, None] < position) & inside[None, :]
        block = cache + slots[:, None] * WIDTH + features[None, :]
        keys = tl.load(keys_ptr + block, mask=filled, other=0.0).to(tl.float32)
        values = tl.load(values_ptr + block, mask=filled, other=0.0).to(tl.float32)
        scores = tl.sum(query[:, None, :] * keys[None, :, :], 2)
        scores = tl.where(slots[None, :] < position, scores, -float("inf"))
        new = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp(scores - new[:, None])
        shrink = tl.exp(highest - new)
        mixed = mixed * shrink[:, None] + tl.sum(weights[:, :, None] * values[None, :, :], 1)
        total = total * shrink + tl.sum(weights, 1)
        highest = new
        first += S
    tl.store(out_ptr + places, (mixed / total[:, None]).to(out_ptr.dtype.element_ty), mask=real)
