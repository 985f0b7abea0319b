"""What a row has read before, kept from call to call: the newest stands last, zeros stand for nothing.

Shape legend: B rows, T positions, S values kept from before, K = S + T, D width.
"""

from typing import final

import torch
from torch import Tensor, nn


def newest(values_BK: Tensor, end_B: Tensor, keep: int) -> Tensor:
    """(B, keep, ...): the last values before each row's own end."""
    index_BS = end_B.unsqueeze(1) - keep + torch.arange(keep, device=end_B.device)
    more = [1] * (values_BK.dim() - 2)
    inside = (index_BS >= 0).view(*index_BS.shape, *more)
    index = index_BS.clamp(min=0).view(*index_BS.shape, *more).expand(-1, -1, *values_BK.shape[2:])
    return values_BK.gather(1, index) * inside


@final
class Recent:
    """The words of a call behind the last `keep` words before it, with their embeddings."""

    def __init__(
        self, tokens_BT: Tensor, embedded_BTD: Tensor, before_BS: Tensor, keep: int, embedding: nn.Embedding
    ):
        """`before_BS` holds 1 + each word, 0 where there is none, of at most `keep` words."""
        rows, _, width = embedded_BTD.shape
        self.keep = keep
        missing = keep - before_BS.shape[1]
        past = [embedded_BTD.new_zeros(rows, missing, width)]
        if before_BS.shape[1]:
            past.append(embedding((before_BS - 1).clamp(min=0)) * (before_BS > 0).unsqueeze(2))
        self.slot_BK = torch.cat([before_BS.new_zeros(rows, missing), before_BS, tokens_BT + 1], 1)
        self.embedded_BKD = torch.cat([*past, embedded_BTD], 1)

    def slots(self, length_B: Tensor) -> Tensor:
        """(B, keep): the last words of each row, for the next call."""
        return newest(self.slot_BK, self.keep + length_B, self.keep)

    def in_order(self, words: int) -> Tensor:
        """(B, T, words x D): the last words at each position side by side, the oldest first."""
        return self.embedded_BKD[:, self.keep + 1 - words :].unfold(1, words, 1).transpose(2, 3).flatten(2)

    def averages(self, spans: list[tuple[int, int]]) -> list[Tensor]:
        """(B, T, D) for each span (skip, words): the average of `words` words before the last `skip`; zeros where there are none."""
        sum_BKD = _running(self.embedded_BKD)
        count_BK1 = _running((self.slot_BK > 0).unsqueeze(2).to(sum_BKD.dtype))
        length = self.slot_BK.shape[1] - self.keep
        averages = []
        for skip, words in spans:
            end = self.keep + 1 - skip  # of the first position, among the running sums
            begin = end - words
            sum_BTD, count_BT1 = (
                running[:, end : end + length] - running[:, begin : begin + length]
                for running in (sum_BKD, count_BK1)
            )
            averages.append(sum_BTD / count_BT1.clamp(min=1))
        return averages


def _running(values_BKD: Tensor) -> Tensor:
    """(B, K + 1, D): the sum of all values before each."""
    return torch.cat([torch.zeros_like(values_BKD[:, :1]), values_BKD.cumsum(1)], 1)


def remember(
    key: Tensor, value: Tensor, cache: tuple[Tensor, Tensor], used: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """New keys and values behind the old ones: (two buffers to keep, the two filled parts of them).

    A buffer without room is doubled. Without gradients the new keys are written into the old buffer, so the old state is used up.
    """
    if not used:
        return key, value, key, value
    kept = []
    for new, buffer in ((key, cache[0]), (value, cache[1])):
        needed = used + new.shape[2]
        if torch.is_grad_enabled():  # the backward pass needs the old buffer as it is
            buffer = torch.cat([buffer[:, :, :used], new], 2)
        else:
            if buffer.shape[2] < needed:
                buffer = torch.cat(
                    [buffer[:, :, :used], new.new_zeros(*new.shape[:2], needed, new.shape[3])], 2
                )
            buffer[:, :, used:needed] = new
        kept.append(buffer)
    needed = used + key.shape[2]
    return kept[0], kept[1], kept[0][:, :, :needed], kept[1][:, :, :needed]
