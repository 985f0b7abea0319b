"""How well a model predicts a text: every token is predicted once, in nats, with the protocol beside the figure (docs/measuring.md).

Shape legend: B rows, T positions, N tokens of the text.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import LanguageModel, Prediction
from regard.tokens.batches import Batch, Rows, overlapping_windows, whole_documents, window_batches
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import EncodedPairs, pair_batches

Examples = Encoded | EncodedPairs


@dataclass(frozen=True)
class Protocol:
    """How a text was measured. Figures with different protocols are not ranked together."""

    tokens: str
    document: str
    context: int | None  # None: the state is carried through the whole document
    stride: int | None
    cache: dict[str, float] | None = None  # size, theta and share of a neural cache
    mixture: tuple[float, ...] | None = None  # the weights of a mixture's models


@dataclass(frozen=True)
class Measure:
    loss: float | None  # nats for each predicted token; None if a token has probability zero
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


def token_losses(model: LanguageModel, examples: Examples, stride: int | None = None) -> Tensor:
    """(N): -log P of every token of a text, or of the target side of sentence pairs, in its order."""
    check_stride(model, stride)
    members = model.members()
    total_N = None
    for (
        member
    ) in members:  # each in its own context: a model without a bound is not cut to the windows of another
        nll_N = torch.empty(len(_targets(examples)), dtype=torch.float64)
        for places, nll in scores(member.model, examples, stride if member.model.context else None):
            nll_N[places] = nll.double()
        if len(members) > 1:
            nll_N -= math.log(member.weight) if member.weight > 0 else -math.inf
        total_N = nll_N if total_N is None else -torch.logaddexp(-total_N, -nll_N)
    assert total_N is not None
    return total_N


def scores(
    model: LanguageModel, examples: Examples, stride: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """(places, nll) of the tokens, batch by batch; every token comes once."""
    for rows, prediction in read_examples(model, examples, stride):
        with torch.inference_mode():
            nll_BT = prediction.nll(rows.targets_BT.to(model.device)).cpu()
        scored_BT = rows.places_BT >= 0
        yield rows.places_BT[scored_BT], nll_BT[scored_BT]


def read_examples(
    model: LanguageModel, examples: Examples, stride: int | None = None
) -> Iterator[tuple[Rows, Prediction]]:
    """All rows of a text or of sentence pairs, with the model's prediction; every token is a target once."""
    for batch in _batches(model, examples, stride):
        with torch.inference_mode():  # never across a yield: the caller's mode is its own
            given = batch.given if isinstance(batch.given, int) else batch.given.to(model.device)
            state = model.begin(given)
        for rows in batch.segments:
            with torch.inference_mode():
                prediction, state = model(rows.tokens_BT.to(model.device), state)
                state = state if model.context is None else state.next_window()
            yield rows, prediction


def _batches(model: LanguageModel, examples: Examples, stride: int | None) -> Iterator[Batch]:
    start, padding, context = model.start, model.padding, model.context
    if isinstance(examples, EncodedPairs):
        assert model.given is not None
        budget = model.batch_tokens // 4  # both sides are read
        return pair_batches(
            examples, start=start, padding=padding, source_padding=model.given.padding, budget=budget
        )
    # what is remembered from one window to the next needs a document's windows in their order
    windows = (
        whole_documents(examples)
        if model.carries
        else overlapping_windows(examples, context or 1, stride or context or 1)
    )
    segment = context or model.row_tokens
    return window_batches(
        examples, windows, start=start, padding=padding, segment=segment, budget=model.batch_tokens
    )


def _targets(examples: Examples) -> Encoded:
    return examples.target if isinstance(examples, EncodedPairs) else examples


def check_stride(model: LanguageModel, stride: int | None) -> None:
    if stride is None:
        return
    if model.context is None or not 1 <= stride <= model.context:
        raise UserError("`stride` is for models with a bounded context, and lies between 1 and that context")
    if any(member.model.carries and member.model.context for member in model.members()):
        raise UserError(
            "a cache goes on from window to window, so windows do not overlap: leave `stride` out"
        )


def measure(
    model: LanguageModel, tokenizer: Tokenizer, texts: list[str], stride: int | None = None
) -> Measure:
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


def summarise(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: Encoded,
    nll_N: Tensor,
    began: float,
    stride: int | None = None,
) -> Measure:
    total = float(nll_N.sum())
    finite = math.isfinite(total)
    loss = total / len(text)
    stride = (stride or model.context) if model.context else None
    weights = tuple(member.weight for member in model.members())
    mixture = weights if len(weights) > 1 else None
    return Measure(
        loss=loss if finite else None,
        perplexity=math.exp(loss) if finite and loss < 700 else None,
        bits_per_byte=total / (math.log(2) * text.bytes) if finite else None,
        tokens=len(text),
        bytes=text.bytes,
        unknown_tokens=text.unknown,
        zero_tokens=int(nll_N.isinf().sum()),
        tokens_per_second=len(text) / (time.perf_counter() - began),
        protocol=Protocol(tokenizer.kind, tokenizer.document, model.context, stride, model.cache(), mixture),
    )
