"""Checks that the probabilities of an n-gram model can be probabilities.

The words that follow a context c have a sum of at most one:

    sum = sum_{w after c} P(w | c) + backoff(c) x (1 - sum_{w after c} P(w | c without its first word))

The second term is known to be fine if backoff(c) <= 1, so it is computed only for larger backoffs.

Shape legend: C contexts (the n-grams of one order), G n-grams of the next order, S selected contexts.
"""

import torch
from torch import Tensor

from regard.models.ngram import Ngram

ROUNDING = 0.01  # ARPA files have few digits; a real fault is larger


def impossible_context(model: Ngram) -> tuple[int, int, float] | None:
    """Return the order, the node and the sum of a context whose probabilities sum to more than one."""
    total = float(model.get_buffer("log_prob_1").double().exp().sum())
    if total > 1 + ROUNDING:
        return 0, 0, total
    for order in range(1, model.order):
        sum_C = _sum_after(model, order)
        if len(sum_C) and float(sum_C.max()) > 1 + ROUNDING:
            return order, int(sum_C.argmax()), float(sum_C.max())
    return None


def unused_backoffs(model: Ngram, order: int) -> Tensor:
    """Return the n-grams of an order that have a backoff above 1, although nothing follows them."""
    size = model.vocabulary_size
    follows_C = torch.zeros(len(model.get_buffer(f"backoff_{order}")), dtype=torch.bool)
    follows_C[model.get_buffer(f"key_{order + 1}") // size] = True
    return (_above_one(model, order) & ~follows_C).nonzero().squeeze(1)


def _above_one(model: Ngram, order: int) -> Tensor:
    return model.get_buffer(f"backoff_{order}") > 1e-4


def _sum_after(model: Ngram, order: int) -> Tensor:
    """(C): the sum of the probabilities after each context of an order; 0 if nothing follows it."""
    above_C = _above_one(model, order)
    key_G, size = model.get_buffer(f"key_{order + 1}"), model.vocabulary_size
    context_G = key_G // size
    own_G = model.get_buffer(f"log_prob_{order + 1}").double().exp()
    sum_C = torch.zeros(len(above_C), dtype=torch.float64).index_add_(0, context_G, own_G)
    selected = above_C[context_G].nonzero().squeeze(1)
    if not len(selected):
        return sum_C
    context_S = context_G[selected]
    below_S = _below(model, order, context_S, key_G[selected] % size)
    below_C = torch.zeros_like(sum_C).index_add_(0, context_S, below_S)
    backoff_C = model.get_buffer(f"backoff_{order}").double().exp()
    return torch.where(above_C & (below_C > 0), sum_C + backoff_C * (1 - below_C).clamp(min=0), sum_C)


def _below(model: Ngram, order: int, context_S: Tensor, word_S: Tensor) -> Tensor:
    """(S): P(word | context without its first word)."""
    if order == 1:
        return model.get_buffer("log_prob_1").take(word_S).double().exp()
    columns = list[Tensor]()
    for of in range(order, 1, -1):  # the last word of the context first
        key_S = model.get_buffer(f"key_{of}").take(context_S)
        columns.insert(0, key_S % model.vocabulary_size)
        context_S = key_S // model.vocabulary_size
    rows_ST = torch.stack(columns, 1)
    prediction, _ = model.read_from_start(rows_ST)
    last_S1 = torch.full_like(rows_ST[:, :1], rows_ST.shape[1] - 1)
    return (-prediction.at(last_S1).nll(word_S.unsqueeze(1)).squeeze(1)).double().exp()
