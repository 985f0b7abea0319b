"""A model reads a text once and is watched; what was asked for is kept.

A text longer than the context is read in windows that overlap by half, so that every token is predicted; maps are of one window.

Shape legend: T positions, V vocabulary, H heads, Q rows asked for, K positions that could be seen.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.record import Record, checked
from regard.models.contract import LanguageModel, Prediction
from regard.models.ngram import Link, Ngram
from regard.models.predictions import CopyPrediction
from regard.models.translation import Translator
from regard.parts.look import Look
from regard.probabilities.translating import translate
from regard.tokens.contract import Tokenizer

WEIGHED = ("*attention", "copy", "cache")  # the sites whose rows are weights over what was read
ALL_ROWS = 512  # of longer texts the last row alone is worked out, unless others are asked for
SLICE = 1 << 24  # the most probabilities that are held at a time


@torch.inference_mode()
def record(
    model: LanguageModel,
    tokenizer: Tokenizer,
    text: str,
    sites: Sequence[str] = (),
    rows: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    top: int = 5,
) -> Record:
    """Read a text and keep what was asked for. Watching changes nothing; only the rows asked for are worked out."""
    ids, notes = _ids(tokenizer, text)
    look = Look(sites or WEIGHED)
    if sites:
        look.check(model.sites())
    first, last = _window(len(ids), model.context, rows)
    if (first, last) != (0, len(ids)):
        notes.append(f"the text has {len(ids)} tokens and the model sees {model.context}: maps are of positions {first} to {last - 1}")
    prediction, _ = model(torch.tensor([ids[first:last]], device=model.device), look=look if model.sites() else None)
    surprisal, likeliest = list[float | None]([None]), list[list[tuple[str, float]]]()
    for part, start, stop in _predictions(model, ids, prediction, (first, last)):
        _tell(part, start, stop, ids, tokenizer, top, surprisal, likeliest)
    chosen = checked([-1] if rows is None and last - first > ALL_ROWS else rows, last, "row", first)
    weights, values, seen = dict[str, Tensor](), dict[str, Tensor](), {}
    for site, found in look.seen.items():
        if callable(found):
            seen[site] = found
            weights[site] = found(torch.tensor(chosen, device=model.device) - first)[0].cpu()
        else:
            values[site] = found[0].cpu()
    weights, kept = _of_heads(weights, heads)
    copying = isinstance(prediction, CopyPrediction)
    return Record(
        ids=ids,
        tokens=[tokenizer.name(i) for i in ids],
        surprisal=surprisal,
        likeliest=likeliest,
        rows=chosen,
        heads=kept,
        first=first,
        last=last,
        weights=weights,
        values=values,
        gate=[*[None] * first, *prediction.rest_BT[0].tolist(), *[None] * (len(ids) - last)] if copying else None,
        copied=prediction.copied_BTS[0].cpu() if copying else None,
        chains=_chains(model, ids) if isinstance(model, Ngram) else None,
        notes=notes,
        seen=seen,
    )


@torch.inference_mode()
def record_translation(
    model: Translator, source: Tokenizer, tokenizer: Tokenizer, text: str, said: str | Sequence[int] | None = None,
    sites: Sequence[str] = (), rows: Sequence[int] | None = None, heads: Sequence[int] | None = None, top: int = 5,
) -> Record:  # fmt: skip
    """The same of a translator: what it says (or is made to say: a text, or its tokens), and where it looks when it says each token.

    Rows are what was said and columns the source, but for maps of one side looking at itself.
    """
    read_ids, ids = _both_sides(model, source, tokenizer, text, said)
    look = Look(sites or model.crossing)
    look.check(model.sites())
    state = model.read(torch.tensor([read_ids], device=model.device), look)
    prediction, _ = model(torch.tensor([[tokenizer.start, *ids[:-1]]], device=model.device), state, look)
    found = {site: one for site, one in look.seen.items() if callable(one)}
    side = _side(model, list(found))
    surprisal, likeliest = list[float | None]([None]), list[list[tuple[str, float]]]()
    _tell(prediction, 0, len(ids), [tokenizer.start, *ids], tokenizer, top, surprisal, likeliest)
    names = {"source": [source.name(token) for token in read_ids], "said": [tokenizer.name(token) for token in ids]}
    if side == "source":
        told: dict[str, Any] = {"tokens": names["source"], "surprisal": [None] * len(read_ids), "likeliest": [[] for _ in read_ids]}
    elif side == "target":  # what it has read so far, and predicts from there
        told = {"tokens": ["<s>", *names["said"][:-1]], "surprisal": surprisal[:-1], "likeliest": likeliest}
    else:
        told = {"tokens": names["said"], "surprisal": surprisal[1:], "likeliest": likeliest, "columns": names["source"]}
    chosen = checked(rows, len(told["tokens"]), "row")
    weights, kept = _of_heads({site: one(torch.tensor(chosen, device=model.device))[0].cpu() for site, one in found.items()}, heads)
    unknown = sum(token == source.unknown for token in read_ids)
    return Record(
        **told,
        ids=ids,
        rows=chosen,
        heads=kept,
        last=len(told["tokens"]),
        weights=weights,
        values={site: one[0].cpu() for site, one in look.seen.items() if not callable(one)},
        notes=[f"{unknown} of the source's tokens are not in its vocabulary and were read as <unk>"] if unknown else [],
        seen=found,
    )


def _of_heads(weights: dict[str, Tensor], heads: Sequence[int] | None) -> tuple[dict[str, Tensor], list[int] | None]:
    """The maps of the heads asked for, and which they are."""
    if heads is None or not weights:
        return weights, None
    kept = checked(heads, min(map(len, weights.values())), "head")
    return {site: one[kept] for site, one in weights.items()}, kept


def _both_sides(
    model: Translator, source: Tokenizer, tokenizer: Tokenizer, text: str, said: str | Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """The tokens of a source and of what is said of it, their ends included."""
    if not text.strip():
        raise UserError("there is nothing to look at: give some text")
    if said is None:
        ((best,),) = translate(model, source, tokenizer, [text], attention=False)
        said = best.ids
    ids = [*tokenizer.prompt(said), tokenizer.end] if isinstance(said, str) else list(said)
    read_ids = [*source.prompt(text), source.end]
    for what, length, limit in (("text", len(read_ids), model.source_limit), ("target", len(ids), model.context)):
        if limit is not None and length > limit:
            raise UserError(f"the {what} has {length} tokens, the end counted, and the model reads {limit}: shorten it")
    return read_ids, ids


def _side(model: Translator, sites: list[str]) -> str:
    """What looks in these maps: the target at the source (crossing), or one of both at itself."""
    crossing = {name for site in model.crossing for name in (site, f"{site}.scores")}
    sides = {"crossing" if site in crossing else "source" if site.startswith("source.") else "target" for site in sites}
    if len(sides) > 1:
        raise UserError(f"{', '.join(sites)} do not look at the same words: ask for one side's at a time")
    return next(iter(sides), "crossing")


def _ids(tokenizer: Tokenizer, text: str) -> tuple[list[int], list[str]]:
    ids, notes = [tokenizer.start, *tokenizer.prompt(text)], list[str]()
    if len(ids) == 1:
        raise UserError("there is nothing to look at: give some text")
    unknown = sum(i == tokenizer.unknown for i in ids)
    if unknown:
        notes.append(f"{unknown} of the text's {len(ids) - 1} tokens are not in the vocabulary and were read as <unk>")
    return ids, notes


def _window(length: int, context: int | None, rows: Sequence[int] | None) -> tuple[int, int]:
    """The part of the text whose maps are kept: it ends with the last row asked for."""
    if context is None or length <= context:
        return 0, length
    last = 1 + max(checked(rows or [-1], length, "row"))
    return max(0, last - context), max(last, context)


def _predictions(
    model: LanguageModel, ids: list[int], prediction: Prediction, window: tuple[int, int]
) -> Iterator[tuple[Prediction, int, int]]:
    """(prediction, first, last): what is predicted at every position of the text, in order, a slice at a time."""
    step = max(1, SLICE // model.vocabulary_size)
    stride = max(1, (model.context or len(ids)) // 2)
    done = 0
    while done < len(ids):
        if window[0] <= done < window[1] and (done - window[0] >= stride or window[0] == 0):
            start, end, found = window[0], window[1], prediction
        else:  # of the windows that reach the next position, one with half a context before it
            start = max(0, done - stride)
            end = min(len(ids), start + (model.context or len(ids)))
            found, _ = model(torch.tensor([ids[start:end]], device=model.device))
        for begin in range(done, end, step):
            stop = min(end, begin + step)
            yield found.at(torch.arange(begin - start, stop - start, device=model.device).unsqueeze(0)), begin, stop
        done = end


def _tell(
    prediction: Prediction, start: int, stop: int, ids: list[int], tokenizer: Tokenizer, top: int,
    surprisal: list[float | None], likeliest: list[list[tuple[str, float]]],
) -> None:  # fmt: skip
    log_probs_TV = prediction.log_probs()[0].cpu()
    best = log_probs_TV.exp().topk(min(top, log_probs_TV.shape[1]), 1)
    for indices, values in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        likeliest.append([(tokenizer.name(i), p) for i, p in zip(indices, values, strict=True)])
    for place, token in enumerate(ids[start + 1 : stop + 1]):
        surprisal.append(-float(log_probs_TV[place, token]) if token < log_probs_TV.shape[1] else None)


def _chains(model: Ngram, ids: list[int]) -> list[list[Link]]:
    return [model.explain(ids[max(0, place - model.order + 1) : place], ids[place]) for place in range(1, len(ids))]
