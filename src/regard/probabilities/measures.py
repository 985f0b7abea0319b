"""How well a model predicts a text: every token predicted once, in nats, with the protocol beside the figure (docs/measuring.md).

Shape legend: B rows, T positions, N tokens of the text.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.cache import CacheState, NeuralCache
from regard.models.contract import LanguageModel, State
from regard.models.mixing import Interpolation
from regard.models.translation import Translator
from regard.tokens.batches import batches, overlapping, read_rows, whole_documents
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import EncodedPairs, gather, in_order_of_length, source_rows


@dataclass(frozen=True)
class Protocol:
    """How a text was measured. Figures with different protocols are not ranked together."""

    tokens: str
    document: str
    context: int | None  # None: the state is carried through the whole document
    stride: int | None
    cache: dict[str, float] | None = None  # size, theta and share of a neural cache


@dataclass(frozen=True)
class Measure:
    loss: float | None  # nats a predicted token; None where a token has no probability at all
    perplexity: float | None
    bits_per_byte: float | None
    tokens: int
    bytes: int
    unknown_tokens: int
    zero_tokens: int  # tokens whose probability is zero (maximum likelihood)
    tokens_per_second: float
    protocol: Protocol

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def scores(model: LanguageModel, text: Encoded, stride: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
    """(places, nll) of the text's tokens, batch by batch; every token comes once."""
    context = model.context
    if stride is not None and (context is None or not 1 <= stride <= context):
        raise UserError("--stride is for models with a bounded context, and lies between 1 and that context")
    cached = isinstance(model, NeuralCache)
    if stride is not None and cached:
        raise UserError("a cache goes on from window to window, so they do not overlap: leave --stride out")
    windows = whole_documents(text) if context is None or cached else overlapping(text, context, stride or context)
    for batch in batches(windows, model.batch_tokens):
        state: State | None = None
        for rows in read_rows(text, batch, model.start, model.padding, context or model.row_tokens):
            with torch.inference_mode():
                prediction, state = model(rows.tokens_BT.to(model.device), state)
                nll_BT = prediction.nll(rows.targets_BT.to(model.device)).cpu()
            scored_BT = rows.places_BT >= 0
            yield rows.places_BT[scored_BT], nll_BT[scored_BT]
            if context is not None and isinstance(state, CacheState):
                state = replace(state, inner=None)  # the model begins a new window, the cache goes on


def pair_losses(model: Translator, pairs: EncodedPairs) -> Tensor:
    """(N): -log P of every target token, ends included, given its source."""
    nll_N = torch.empty(len(pairs.target), dtype=torch.float64)
    for places_B in in_order_of_length(pairs, model.batch_tokens // 4):
        source_BS = source_rows(pairs.source, places_B, model.source_padding).to(model.device)
        targets_BT, place_BT = gather(pairs.target, places_B, -1)
        read_BT = torch.cat([torch.full_like(targets_BT[:, :1], model.start), targets_BT[:, :-1]], 1)
        read_BT = torch.where(place_BT >= 0, read_BT, model.padding)
        with torch.inference_mode():
            prediction, _ = model(read_BT.to(model.device), model.read(source_BS))
            nll_BT = prediction.nll(targets_BT.to(model.device)).cpu().double()
        nll_N[place_BT[place_BT >= 0]] = nll_BT[place_BT >= 0]
    return nll_N


def token_losses(model: LanguageModel, text: Encoded, stride: int | None = None) -> Tensor:
    """(N): -log P of every token of the text, in its order."""
    if isinstance(model, Interpolation):  # each with a context of its own: what needs none is not cut to the other's
        parts = [token_losses(part, text, stride if part.context or not model.context else None) for part in (model.first, model.second)]
        return -model.mixed(-parts[0], -parts[1])
    nll_N = torch.empty(len(text), dtype=torch.float64)
    for places, nll in scores(model, text, stride):
        nll_N[places] = nll.double()
    return nll_N


def measure(model: LanguageModel, tokenizer: Tokenizer, texts: list[str], stride: int | None = None) -> Measure:
    """Measure all of the texts, from characters to figures."""
    began = time.perf_counter()
    encoded = tokenizer.encode_texts(texts)
    return summarise(model, tokenizer, encoded, token_losses(model, encoded, stride), began, stride)


def best_weight(first_N: Tensor, second_N: Tensor, rounds: int = 100) -> float:
    """The weight of the first of two models that makes a text most probable: expectation maximisation, convex, from one half."""
    weight = 0.5
    first_N, second_N = (-first_N).exp(), (-second_N).exp()
    seen_N = (first_N + second_N) > 0
    for _ in range(rounds):
        share_N = weight * first_N / (weight * first_N + (1 - weight) * second_N)
        weight = float(share_N[seen_N].mean())
    return weight


def summarise(model: LanguageModel, tokenizer: Tokenizer, text: Encoded, nll_N: Tensor, began: float, stride: int | None = None) -> Measure:
    total = float(nll_N.sum())
    finite = math.isfinite(total)
    loss = total / len(text)
    return Measure(
        loss=loss if finite else None,
        perplexity=math.exp(loss) if finite and loss < 700 else None,
        bits_per_byte=total / (math.log(2) * text.bytes) if finite else None,
        tokens=len(text),
        bytes=text.bytes,
        unknown_tokens=text.unknown,
        zero_tokens=int(nll_N.isinf().sum()),
        tokens_per_second=len(text) / (time.perf_counter() - began),
        protocol=Protocol(
            tokenizer.kind, tokenizer.document, model.context, (stride or model.context) if model.context else None, model.cache
        ),
    )
