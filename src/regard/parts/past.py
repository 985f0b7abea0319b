"""Buffers of the last values of each row, carried from call to call. The newest value is the last.

Empty slots hold zeros and stand before the filled ones.

Shape legend: B rows, T positions, S stored values, K = S + T, D width.
"""

from typing import final

import torch
from torch import Tensor, nn


def newest(values_BK: Tensor, end_B: Tensor, keep: int) -> Tensor:
    """(B, keep, ...): the last `keep` values before the end of each row. Missing values are zeros."""
    index_BS = end_B.unsqueeze(1) - keep + torch.arange(keep, device=end_B.device)
    more = [1] * (values_BK.dim() - 2)
    inside = (index_BS >= 0).view(*index_BS.shape, *more)
    index = index_BS.clamp(min=0).view(*index_BS.shape, *more).expand(-1, -1, *values_BK.shape[2:])
    return values_BK.gather(1, index) * inside


def filled_up(values_BS: Tensor, size: int) -> Tensor:
    """Return a buffer with exactly `size` slots. The new slots are empty and stand in front."""
    missing = size - values_BS.shape[1]
    return torch.cat([values_BS.new_zeros(len(values_BS), missing, *values_BS.shape[2:]), values_BS], 1)


@final
class Recent:
    """The last `keep` words before a call, followed by the words of the call, with their embeddings."""

    def __init__(
        self, tokens_BT: Tensor, embedded_BTD: Tensor, before_BS: Tensor, keep: int, embedding: nn.Embedding
    ):
        """`before_BS` (S <= keep) holds 1 + the id of each word before the call, 0 for an empty slot."""
        rows, _, width = embedded_BTD.shape
        self.keep = keep
        missing = keep - before_BS.shape[1]
        past = [embedded_BTD.new_zeros(rows, missing, width)]
        if before_BS.shape[1]:
            past.append(embedding((before_BS - 1).clamp(min=0)) * (before_BS > 0).unsqueeze(2))
        self.slot_BK = torch.cat([before_BS.new_zeros(rows, missing), before_BS, tokens_BT + 1], 1)
        self.embedded_BKD = torch.cat([*past, embedded_BTD], 1)

    def slots(self, length_B: Tensor) -> Tensor:
        """(B, keep): 1 + the ids of the last words of each row, for the next call."""
        return newest(self.slot_BK, self.keep + length_B, self.keep)

    def in_order(self, words: int) -> Tensor:
        """(B, T, words x D): the concatenated embeddings of the last words at each position, in order."""
        return self.embedded_BKD[:, self.keep + 1 - words :].unfold(1, words, 1).transpose(2, 3).flatten(2)

    def averages(self, spans: list[tuple[int, int]]) -> list[Tensor]:
        """(B, T, D) for each span (skip, words): the average of `words` words before the last `skip` words.

        The average of no words is zero.
        """
        sum_BKD = _running_sum(self.embedded_BKD)
        count_BK1 = _running_sum((self.slot_BK > 0).unsqueeze(2).to(sum_BKD.dtype))
        length = self.slot_BK.shape[1] - self.keep
        averages = []
        for skip, words in spans:
            end = self.keep + 1 - skip  # the index of the running sum at the end of the first position's span
            begin = end - words
            sum_BTD, count_BT1 = (
                running[:, end : end + length] - running[:, begin : begin + length]
                for running in (sum_BKD, count_BK1)
            )
            averages.append(sum_BTD / count_BT1.clamp(min=1))
        return averages


def _running_sum(values_BKD: Tensor) -> Tensor:
    """(B, K + 1, D): the sums of the first 0, 1, ..., K values."""
    return torch.cat([torch.zeros_like(values_BKD[:, :1]), values_BKD.cumsum(1)], 1)
