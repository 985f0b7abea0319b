"""Attention of the decoder's step: one new token in each row attends to a KV cache of fixed size.

    keys_p = k,  values_p = v;   out = sum over s <= p of softmax_s(q . k_s * scale) v_s     (p: the position)

On a GPU one kernel writes the new key and value, and reads only the slots that are filled.

Shape legend: B rows, H query heads, G heads of keys and values, S slots, E head width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.library.custom_op("regard::attend_to_cache", mutates_args=("keys_BGSE", "values_BGSE"))
def attend_to_cache(
    query_BHE: Tensor,
    key_BGE: Tensor,
    value_BGE: Tensor,
    keys_BGSE: Tensor,
    values_BGSE: Tensor,
    position_B: Tensor,
    scale: float,
) -> Tensor:
    """(B, H, E): the new key and value are written into the cache, and the mixture of all values is returned.

    A custom operator: a compiler copies the whole cache for an assignment that it does not see as in place.
    """
    tensors = (query_BHE.contiguous(), key_BGE.contiguous(), value_BGE.contiguous(), keys_BGSE, values_BGSE)
    if query_BHE.is_cuda:
        from regard.parts.kernels import cached_attention  # Triton comes with torch on machines with a GPU

        return cached_attention.attend_to_cache(*tensors, position_B, scale)
    return specification(*tensors, position_B, scale)


def specification(
    query_BHE: Tensor,
    key_BGE: Tensor,
    value_BGE: Tensor,
    keys_BGSE: Tensor,
    values_BGSE: Tensor,
    position_B: Tensor,
    scale: float,
) -> Tensor:
    """The same by torch's functions."""
    row_B = torch.arange(len(position_B), device=position_B.device)
    keys_BGSE[row_B, :, position_B] = key_BGE
    values_BGSE[row_B, :, position_B] = value_BGE
    slot_S = torch.arange(keys_BGSE.shape[2], device=position_B.device)
    filled_B11S = (slot_S <= position_B.unsqueeze(1))[:, None, None]
    grouped = query_BHE.shape[1] != keys_BGSE.shape[1]
    out_BH1E = F.scaled_dot_product_attention(
        query_BHE.unsqueeze(2), keys_BGSE, values_BGSE, attn_mask=filled_B11S, scale=scale, enable_gqa=grouped
    )
    return out_BH1E.squeeze(2)


@attend_to_cache.register_fake
def _(query_BHE, key_BGE, value_BGE, keys_BGSE, values_BGSE, position_B, scale):
    return torch.empty_like(query_BHE)
