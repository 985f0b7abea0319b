"""What a model did with a text: the tokens, what was predicted at each, and what was weighed.

Shape legend: T positions, H heads, Q rows asked for, K positions that could be seen, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import LanguageModel
from regard.models.ngram import Link, Ngram
from regard.models.predictions import CopyPrediction
from regard.parts.look import Look
from regard.tokens.contract import Tokenizer

WEIGHED = ("*attention", "copy", "cache")  # the sites whose rows are weights over what was read


@dataclass(frozen=True)
class Record:
    tokens: list[str]  # what was read; the start of the text is <s>
    surprisal: list[float | None]  # of each token in nats, as it was predicted at the one before
    likeliest: list[list[tuple[str, float]]]  # at each position, the likeliest next tokens and their probabilities
    rows: list[int]  # the positions whose weights were worked out
    weights: dict[str, Tensor] = field(default_factory=dict)  # a site: (H, Q, K)
    values: dict[str, Tensor] = field(default_factory=dict)  # a site: (T, D), or (L, T, D) for senses
    gate: list[float] | None = None  # where words are copied: the vocabulary's share at each position
    copied: Tensor | None = None  # (T, K): the mass copied from each position
    chains: list[list[Link]] | None = None  # where n-grams were matched: each token's back-off chain
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "surprisal": self.surprisal,
            "likeliest": [[{"token": token, "probability": p} for token, p in position] for position in self.likeliest],
            "rows": self.rows,
            "weights": {site: tensor.tolist() for site, tensor in self.weights.items()},
            "values": {site: tensor.tolist() for site, tensor in self.values.items()},
            "gate": self.gate,
            "copied": None if self.copied is None else self.copied.tolist(),
            "chains": None if self.chains is None else [[vars(link) for link in chain] for chain in self.chains],
            "notes": self.notes,
        }


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
    """Read a text once and keep what was asked for. Watching changes nothing; only the rows asked for are worked out."""
    ids, notes = _ids(model, tokenizer, text)
    look = Look(sites or WEIGHED)
    if sites:
        look.check(model.sites())
    prediction, _ = model(torch.tensor([ids], device=model.device), look=look if model.sites() else None)
    log_probs_TV = prediction.log_probs()[0].cpu()
    best = log_probs_TV.exp().topk(min(top, model.vocabulary_size), 1)
    chosen = _checked(rows, len(ids), "row")
    weights, values = dict[str, Tensor](), dict[str, Tensor]()
    for site, seen in look.seen.items():
        if callable(seen):
            found_HQK = seen(torch.tensor(chosen, device=model.device))[0].cpu()
            weights[site] = found_HQK if heads is None else found_HQK[_checked(heads, len(found_HQK), "head")]
        else:
            values[site] = seen[0].cpu()
    copying = isinstance(prediction, CopyPrediction)
    return Record(
        tokens=[tokenizer.name(i) for i in ids],
        surprisal=[None, *(-float(log_probs_TV[t, token]) if token < len(log_probs_TV[t]) else None for t, token in enumerate(ids[1:]))],
        likeliest=[
            [(tokenizer.name(i), p) for i, p in zip(*position, strict=True)]
            for position in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ],
        rows=chosen,
        weights=weights,
        values=values,
        gate=prediction.rest_BT[0].tolist() if copying else None,
        copied=prediction.copied_BTS[0].cpu() if copying else None,
        chains=_chains(model, ids) if isinstance(model, Ngram) else None,
        notes=notes,
    )


def _ids(model: LanguageModel, tokenizer: Tokenizer, text: str) -> tuple[list[int], list[str]]:
    ids, notes = [tokenizer.start, *tokenizer.prompt(text)], list[str]()
    if len(ids) == 1:
        raise UserError("there is nothing to look at: give some text")
    unknown = sum(i == tokenizer.unknown for i in ids)
    if unknown:
        notes.append(f"{unknown} of the text's {len(ids) - 1} tokens are not in the vocabulary and were read as <unk>")
    if model.context is not None and len(ids) > model.context:
        notes.append(f"the text has {len(ids)} tokens and the model sees {model.context}: this is the last part of it")
        ids = ids[-model.context :]
    return ids, notes


def _checked(asked: Sequence[int] | None, size: int, what: str) -> list[int]:
    """Numbers from 0, or from the end where they are below 0."""
    numbers = range(size) if asked is None else asked
    for number in numbers:
        if not -size <= number < size:
            raise UserError(f"there is no {what} {number}: they go from 0 to {size - 1}")
    return [number % size for number in numbers]


def _chains(model: Ngram, ids: list[int]) -> list[list[Link]]:
    return [model.explain(ids[max(0, place - model.order + 1) : place], ids[place]) for place in range(1, len(ids))]
