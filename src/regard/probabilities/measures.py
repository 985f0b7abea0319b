"""Measures of how well a model predicts a text. Every token is predicted once; losses are in nats.

Each measure carries its protocol, because only figures of one protocol are comparable (docs/measuring.md).

Shape legend: B rows, T positions, N tokens of the text.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.errors import MachineError, UserError
from regard.models.contract import LanguageModel, Prediction
from regard.tables import Table, TableRows, html_table
from regard.text.files import Source
from regard.tokens.batches import Batch, Rows, Windows, window_batches, window_slices
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import GivenExamples, pair_batches
from regard.tokens.shards import encode_sources

ABOVE_ZERO = 1e-2  # the rounding of half precision
Examples = Encoded | GivenExamples
CPU_TOKENS = 1 << 12


@dataclass(frozen=True)
class Protocol:
    """The settings of a measurement. Figures of different protocols are not ranked together."""

    tokens: str
    document: str
    context: int | None  # the tokens of a window; None: the state is carried through the whole document
    stride: int | None  # the distance between the starts of windows
    cache: dict[str, float] | None = None  # size, theta and share of a neural cache
    mixture: tuple[float, ...] | None = None  # the weights of the models of a mixture


@dataclass(frozen=True)
class Measure(Table):
    """The figures of a model on a text."""

    loss: float | None  # nats for each predicted token; None if a token has probability zero
    perplexity: float | None
    bits_per_byte: float | None
    tokens: int
    bytes: int
    unknown_tokens: int
    zero_tokens: int  # tokens whose probability is zero (as in an n-gram model without smoothing)
    tokens_per_second: float
    protocol: Protocol

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> TableRows:
        """One row with every figure."""
        return [self.to_json()]

    def not_comparable(self) -> str:
        """Explain why figures with unknown tokens cannot be compared."""
        return (
            f"These figures are not comparable with others: {self.unknown_tokens:,} of {self.tokens:,} "
            "tokens are words outside the vocabulary, which were replaced by <unk>. To predict <unk> is "
            "easier than to predict the word itself. Tokens bpe, char and byte have no unknown words."
        )

    def _repr_html_(self) -> str:
        note = f"<p>{self.not_comparable()}</p>" if self.unknown_tokens else ""
        return html_table(self.rows()) + note


def token_losses(model: LanguageModel, examples: Examples, stride: int | None = None) -> Tensor:
    """(N): -log P of every token of a text, or of the target side of sentence pairs, in order."""
    if isinstance(examples, Encoded):
        return torch.cat([*losses_in_order(model, examples, stride)])
    nll_N = torch.empty(len(examples.target), dtype=torch.float64)
    for rows, prediction in read_examples(model, examples):
        _fill(nll_N, 0, model, rows, prediction)
    return nll_N


def losses_in_order(model: LanguageModel, text: Encoded, stride: int | None = None) -> Iterator[Tensor]:
    """Yield -log P of the next tokens of a text, from the first to the last, in bounded memory."""
    check_stride(model, stride)
    members = model.members()
    streams = [
        _losses_of_member(member.model, text, stride if member.model.context else None) for member in members
    ]
    if len(members) == 1:
        yield from streams[0]
        return
    for parts in _of_equal_length(streams):
        total_N = torch.full_like(parts[0], math.inf)
        for member, nll_N in zip(members, parts, strict=True):
            weighted_N = nll_N - (math.log(member.weight) if member.weight > 0 else -math.inf)
            total_N = -torch.logaddexp(-total_N, -weighted_N)
        yield total_N


def _losses_of_member(model: LanguageModel, text: Encoded, stride: int | None) -> Iterator[Tensor]:
    """Yield the losses of a model that is no mixture."""
    whole = model.losses_of_text(text)
    if whole is not None:
        for nll_N in whole:
            check_log_probs(-nll_N)
            yield nll_N
        return
    for windows in _slices(model, text, stride):
        first, last = int(windows.scored_W[0]), int(windows.last_W[-1])
        read = _read(model, _window_batches(model, text, windows))
        if len(windows.first_W) == 1:  # a long document, whose segments come in order
            for rows, prediction in read:
                nll_N = torch.empty(int((rows.places_BT >= 0).sum()), dtype=torch.float64)
                _fill(nll_N, first, model, rows, prediction)
                first += len(nll_N)
                yield nll_N
            continue
        nll_N = torch.empty(last - first, dtype=torch.float64)
        for rows, prediction in read:
            _fill(nll_N, first, model, rows, prediction)
        yield nll_N


def _fill(nll_N: Tensor, first: int, model: LanguageModel, rows: Rows, prediction: Prediction) -> None:
    """Write the losses of rows to their places. The first number belongs to token `first` of the text."""
    with torch.inference_mode():
        nll_BT = prediction.nll(rows.targets_BT.to(model.device)).cpu()
    scored_BT = rows.places_BT >= 0
    check_log_probs(-nll_BT)
    nll_N[rows.places_BT[scored_BT] - first] = nll_BT[scored_BT].double()


def _of_equal_length(streams: Sequence[Iterator[Tensor]]) -> Iterator[list[Tensor]]:
    """Cut the tensors of several streams so that they have the same lengths."""
    held = [torch.empty(0) for _ in streams]
    while True:
        held = [
            next(stream, torch.empty(0)) if len(part) == 0 else part
            for stream, part in zip(streams, held, strict=True)
        ]
        size = min(map(len, held))
        if size == 0:
            return
        yield [part[:size] for part in held]
        held = [part[size:] for part in held]


def check_log_probs(log_probs: Tensor) -> None:
    """Stop if a log-probability is not a number, or is far above 0. Minus infinity is that of an event
    without probability.
    """
    if not bool((log_probs <= ABOVE_ZERO).all()):
        wrong = "is not a number" if bool(log_probs.isnan().any()) else "is above 0"
        raise MachineError(
            f"a log-probability {wrong}: the model's numbers are too large for its precision; "
            "use another run, a milder `edit` or `precision` fp32"
        )


def read_examples(
    model: LanguageModel, examples: Examples, stride: int | None = None
) -> Iterator[tuple[Rows, Prediction]]:
    """Yield the rows of a text or of sentence pairs with their predictions. Each token is a target once."""
    if isinstance(examples, Encoded):
        for windows in _slices(model, examples, stride):
            yield from _read(model, _window_batches(model, examples, windows))
        return
    assert model.given is not None
    budget = _call_tokens(model) // 4  # a pair has two sides, and each is padded
    given_rows = partial(model.given.rows, examples)
    yield from _read(
        model, pair_batches(examples, given_rows, start=model.start, padding=model.padding, budget=budget)
    )


def _read(model: LanguageModel, batches: Iterator[Batch]) -> Iterator[tuple[Rows, Prediction]]:
    for batch in batches:
        with torch.inference_mode():  # ends before the yield, so that the caller's code runs in its own mode
            given = batch.given if isinstance(batch.given, int) else batch.given.to(model.device)
            state = model.begin(given)
        for rows in batch.segments:
            with torch.inference_mode():
                prediction, state = model(rows.tokens_BT.to(model.device), state)
                state = state if model.context is None else state.next_window()
            yield rows, prediction


def _slices(model: LanguageModel, text: Encoded, stride: int | None) -> Iterator[Windows]:
    # A model that carries its state from window to window reads the windows of a document in order.
    return window_slices(text, None if model.carries else model.context or 1, stride)


def _window_batches(model: LanguageModel, text: Encoded, windows: Windows) -> Iterator[Batch]:
    segment, budget = model.context or model.row_tokens, _call_tokens(model)
    sizes = {"segment": segment, "budget": budget}
    return window_batches(text, windows, start=model.start, padding=model.padding, **sizes)


def _call_tokens(model: LanguageModel) -> int:
    """Return the maximal number of tokens in a call.

    On a CPU, the numbers of a layer should stay in the processor's cache: a Transformer is 1.6 times faster
    with calls of 4,096 tokens than with 32,768. Counted models never leave the CPU and choose their own
    number.
    """
    on_cpu = model.on_gpu and model.device.type == "cpu"
    return min(model.batch_tokens, CPU_TOKENS) if on_cpu else model.batch_tokens


def check_stride(model: LanguageModel, stride: int | None) -> None:
    if stride is None:
        return
    if model.context is None or not 1 <= stride <= model.context:
        raise UserError(
            "`stride` must lie between 1 and the model's context, and the model must have a context"
        )
    if any(member.model.carries and member.model.context for member in model.members()):
        raise UserError("a neural cache is carried from window to window: leave out `stride`")


def measure(
    model: LanguageModel, tokenizer: Tokenizer, sources: Sequence[Source], stride: int | None = None
) -> Measure:
    """Encode the texts, and measure the model on all of their tokens."""
    began = time.perf_counter()
    encoded = encode_sources(tokenizer, sources)
    return summarise(model, tokenizer, encoded, losses_in_order(model, encoded, stride), began, stride)


def best_weight(first_N: Tensor, second_N: Tensor, rounds: int = 100) -> float:
    """Return the weight of the first of two models with which their mixture makes the text most probable.

    The arguments are the -log P of each token under each model. Expectation maximisation starts at 0.5; the
    problem is convex.
    """
    weight = 0.5
    first_N, second_N = (-first_N).exp(), (-second_N).exp()
    possible_N = (first_N + second_N) > 0  # tokens of probability zero under both models carry no information
    for _ in range(rounds):
        share_N = weight * first_N / (weight * first_N + (1 - weight) * second_N)
        weight = float(share_N[possible_N].mean())
    return weight


def summarise(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: Encoded,
    losses: Iterable[Tensor],
    began: float,
    stride: int | None = None,
) -> Measure:
    """Turn the -log P of all tokens into figures. `began` is time.perf_counter() at the start."""
    total, zero_tokens = 0.0, 0
    for nll_N in losses:
        total += float(nll_N.sum())
        zero_tokens += int(nll_N.isinf().sum())
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
        zero_tokens=zero_tokens,
        tokens_per_second=len(text) / (time.perf_counter() - began),
        protocol=Protocol(tokenizer.kind, tokenizer.document, model.context, stride, model.cache(), mixture),
    )
