"""Measures of masked readers, and the words that fill blanks.

    pseudo-log-likelihood  PLL(w) = sum_i log P(w_i | all other words)          (Salazar et al. 2020)
    pseudo-perplexity      exp(-PLL / the number of words)

A pseudo-perplexity is much lower than a perplexity, because the reader sees the words after the hidden one.
It is never ranked with perplexities.

Shape legend: R rows, T positions, D features, V vocabulary, C copies of a row.
"""

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from regard.models.reader import Filler
from regard.tables import Table, TableRows
from regard.tokens.blanks import hide
from regard.tokens.contract import Encoded
from regard.tokens.rows import window_rows, windows

COPIES = 1 << 13  # the maximal number of tokens in a call
MOST = 1 << 14  # the maximal number of tokens of a pseudo-perplexity: each needs a call of its own row


@dataclass(frozen=True)
class BlankMeasure(Table):
    """The figures of a masked reader on a text."""

    pseudo_loss: float  # nats for each word, each hidden alone
    pseudo_perplexity: float
    tokens: int  # the words that were hidden, one at a time
    text_tokens: int  # all tokens of the text; a longer text is measured on its first part
    unknown_tokens: int
    tokens_per_second: float
    protocol: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> TableRows:
        """One row with every figure."""
        return [self.to_json()]


@torch.inference_mode()
def hidden_loss(model: Filler, text: Encoded) -> float:
    """Return the mean loss of words that are hidden by chance, always the same ones."""
    generator = torch.Generator().manual_seed(7)
    total, count = 0.0, 0
    for ids_BT in window_rows(text, model.context or len(text), model.padding, COPIES):
        hidden = hide(ids_BT, ids_BT != model.padding, model.blank, model.vocabulary_size, generator)
        tokens_BT, targets_BT = (tensor.to(model.device) for tensor in hidden)
        total += float(model.loss(tokens_BT, targets_BT))
        count += int((targets_BT >= 0).sum())
    return total / max(1, count)


@torch.inference_mode()
def measure_blanks(model: Filler, text: Encoded, protocol: dict[str, Any]) -> BlankMeasure:
    """Hide each word alone, and predict it from all other words of its row."""
    began, measured, total = time.perf_counter(), text.first(MOST), 0.0
    for row in windows(measured, model.context or len(measured)):
        ids_T = measured.ids_N[row].long().to(model.device)
        place_T = torch.arange(len(ids_T), device=model.device)
        for places_C in place_T.split(max(1, COPIES // len(ids_T))):
            copies_CT = ids_T.expand(len(places_C), -1).clone()
            copies_CT[torch.arange(len(places_C)), places_C] = model.blank
            features_CD = model(copies_CT)[torch.arange(len(places_C)), places_C]
            total += float(model.words(features_CD).nll(ids_T[places_C].unsqueeze(0)).sum())
    loss = total / len(measured)
    return BlankMeasure(
        pseudo_loss=loss,
        pseudo_perplexity=math.exp(loss),
        tokens=len(measured),
        text_tokens=len(text),
        unknown_tokens=text.unknown,
        tokens_per_second=len(measured) / max(1e-9, time.perf_counter() - began),
        protocol=protocol,
    )


@torch.inference_mode()
def fill(model: Filler, ids_T: Tensor, top: int) -> list[list[tuple[int, float]]]:
    """Return the likeliest words of each blank with their probabilities, while all blanks are hidden."""
    places = (ids_T == model.blank).nonzero().squeeze(1)
    features_TD = model(ids_T.unsqueeze(0).to(model.device))[0]
    probs_NV = model.words(features_TD[places]).log_probs()[0].exp().cpu()
    best = probs_NV.topk(min(top, probs_NV.shape[1]), 1)
    return [
        list(zip(words, chances, strict=True))
        for words, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
