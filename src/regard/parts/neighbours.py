"""The loss of predicting neighbours: skip-gram and CBOW with negative samples (Mikolov et al. 2013).

A word w with neighbours c and negative samples n has the loss

    skip-gram   sum over c of  -log s(x_w . y_c) - sum over n of log s(-x_w . y_n)
    CBOW        -log s(h . y_w) - sum over n of log s(-h . y_n),   h = the mean of x_c

where s is the logistic function, x are the word vectors, and y are the vectors of words as outputs. Reading
pair by pair is slow. Here the neighbours of T consecutive words lie in one band of T + 2W words, so that a
batched product and a mask give the scores of all pairs. The negative samples are shared by all words of a
batch: K samples with the weight N / K stand for N samples of each pair.

The gradient of a table is sparse: it holds the rows of the words of the batch. Rows are computed in the
forward pass, because the loss is a sum.

Shape legend: V vocabulary, D width, B blocks of text, T words of a block, C = T + 2W words of its band, K
negative samples, M = B T words.
"""

from dataclasses import dataclass
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor


@final
@dataclass(frozen=True)
class Band:
    """Blocks of words with the words around them."""

    ids_BC: Tensor  # W words, then the block, then W words
    left_BT: Tensor  # the number of neighbours on the left of each word, at most W
    right_BT: Tensor

    @property
    def reach(self) -> int:
        """The widest window, W."""
        return (self.ids_BC.shape[1] - self.left_BT.shape[1]) // 2

    def words_M(self) -> Tensor:
        """(M): the words of the blocks."""
        return self.ids_BC[:, self.reach : self.ids_BC.shape[1] - self.reach].reshape(-1)

    def mask_BTC(self, dtype: torch.dtype) -> Tensor:
        """(B, T, C): 1 where a word of the band is a neighbour of a word of the block, otherwise 0.

        Row t of a block is its window of 2W + 1 places, moved by t. So rows of C + 1 places with the windows
        at their beginnings, read as rows of C places, are the mask.
        """
        rows, length = self.left_BT.shape
        distance = torch.arange(-self.reach, self.reach + 1, dtype=torch.int8, device=self.left_BT.device)
        left_BT1, right_BT1 = self.left_BT.unsqueeze(2), self.right_BT.unsqueeze(2)
        window = (distance >= -left_BT1) & (distance <= right_BT1) & (distance != 0)
        moved = torch.zeros(rows, length, self.ids_BC.shape[1] + 1, dtype=dtype, device=window.device)
        moved[:, :, : window.shape[2]] = window
        return moved.view(rows, -1)[:, : length * self.ids_BC.shape[1]].view(rows, length, -1)


def skip_gram_loss(
    words_VD: Tensor, outputs_VD: Tensor, band: Band, negatives_K: Tensor, samples: float
) -> Tensor:
    """Return the sum of the losses of all words. Each pair has `samples` negative samples."""
    return _SkipGram.apply(words_VD, outputs_VD, band, negatives_K, samples)


def cbow_loss(
    words_VD: Tensor, outputs_VD: Tensor, band: Band, negatives_K: Tensor, samples: float
) -> Tensor:
    """Return the sum of the losses of all words that have neighbours. Each has `samples` negative samples."""
    return _Cbow.apply(words_VD, outputs_VD, band, negatives_K, samples)


class _Neighbours(torch.autograd.Function):
    """Returns a loss and keeps the rows of its gradients."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        words_R, word_rows_RD, outputs_R, output_rows_RD = ctx.saved_tensors
        words_VD = _sparse(words_R, word_rows_RD * grads[0], ctx.sizes[0])
        return words_VD, _sparse(outputs_R, output_rows_RD * grads[0], ctx.sizes[1]), None, None, None


@final
class _SkipGram(_Neighbours):
    @staticmethod
    def forward(ctx, words_VD, outputs_VD, band, negatives_K, samples):
        mask_BTC = band.mask_BTC(words_VD.dtype)
        words_M = band.words_M()
        word_MD = words_VD.index_select(0, words_M)
        outputs_R = torch.cat([band.ids_BC.reshape(-1), negatives_K])
        output_RD = outputs_VD.index_select(0, outputs_R)
        inside = band.ids_BC.numel()
        word_BTD, band_BCD = (
            word_MD.view(*mask_BTC.shape[:2], -1),
            output_RD[:inside].view(*band.ids_BC.shape, -1),
        )
        negative_KD = output_RD[inside:]
        score_BTC = torch.bmm(word_BTD, band_BCD.transpose(1, 2))
        score_MK = word_MD @ negative_KD.T
        weight_M1 = mask_BTC.sum(2).view(-1, 1) * (samples / len(negatives_K))
        pushed = F.softplus(score_MK).sum(1, keepdim=True).mul_(weight_M1).sum()
        pulled = F.logsigmoid(score_BTC).mul_(mask_BTC).sum()
        pull_BTC, push_MK = score_BTC.sigmoid_(), score_MK.sigmoid_()
        # d -log s(x) / dx = s(x) - 1, and d -log s(-x) / dx = s(x)
        pull_BTC.sub_(1).mul_(mask_BTC)
        push_MK.mul_(weight_M1)
        word_rows_MD = torch.bmm(pull_BTC, band_BCD).view(len(words_M), -1).addmm_(push_MK, negative_KD)
        output_rows_RD = torch.empty_like(output_RD)
        torch.bmm(pull_BTC.transpose(1, 2), word_BTD, out=output_rows_RD[:inside].view_as(band_BCD))
        torch.mm(push_MK.T, word_MD, out=output_rows_RD[inside:])
        ctx.sizes = words_VD.shape, outputs_VD.shape
        ctx.save_for_backward(words_M, word_rows_MD, outputs_R, output_rows_RD)
        return pushed - pulled


@final
class _Cbow(_Neighbours):
    @staticmethod
    def forward(ctx, words_VD, outputs_VD, band, negatives_K, samples):
        mask_BTC = band.mask_BTC(words_VD.dtype)
        count_BT1 = mask_BTC.sum(2, keepdim=True)
        mean_BTC = mask_BTC / count_BT1.clamp(min=1)
        words_R = band.ids_BC.reshape(-1)
        band_BCD = words_VD.index_select(0, words_R).view(*band.ids_BC.shape, -1)
        hidden_MD = torch.bmm(mean_BTC, band_BCD).view(-1, words_VD.shape[1])
        outputs_R = torch.cat([band.words_M(), negatives_K])
        output_RD = outputs_VD.index_select(0, outputs_R)
        target_MD, negative_KD = output_RD[: len(hidden_MD)], output_RD[len(hidden_MD) :]
        real_M1 = (count_BT1 > 0).to(words_VD.dtype).view(-1, 1)
        weight_M1 = real_M1 * (samples / len(negatives_K))
        score_M1 = (hidden_MD * target_MD).sum(1, keepdim=True)
        score_MK = hidden_MD @ negative_KD.T
        pull_M1 = (score_M1.sigmoid() - 1) * real_M1
        push_MK = score_MK.sigmoid() * weight_M1
        hidden_grad_MD = torch.addmm(pull_M1 * target_MD, push_MK, negative_KD)
        hidden_grad_BTD = hidden_grad_MD.view(*mask_BTC.shape[:2], -1)
        word_rows_RD = torch.bmm(mean_BTC.transpose(1, 2), hidden_grad_BTD).view(len(words_R), -1)
        output_rows_RD = torch.cat([pull_M1 * hidden_MD, push_MK.T @ hidden_MD])
        ctx.sizes = words_VD.shape, outputs_VD.shape
        ctx.save_for_backward(words_R, word_rows_RD, outputs_R, output_rows_RD)
        return (F.softplus(-score_M1) * real_M1).sum() + (F.softplus(score_MK) * weight_M1).sum()


def _sparse(rows_R: Tensor, values_RD: Tensor, size: torch.Size) -> Tensor:
    return torch.sparse_coo_tensor(rows_R.unsqueeze(0), values_RD, size, check_invariants=False)
