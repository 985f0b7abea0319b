"""regard score RUN: the log-probability of every token of a text."""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from regard.errors import UserError
from regard.inside.edit_model import edited
from regard.models.contract import LanguageModel, Part
from regard.probabilities.measures import losses_in_order, read_examples
from regard.runs.derived import to_best_device
from regard.runs.run import Run, require_plain_text
from regard.tables import Table, TableRows, html_table
from regard.text.files import Source
from regard.tokens.batches import Rows
from regard.tokens.contract import Encoded
from regard.tokens.shards import encode_sources
from regard.verbs.arguments import Edits, Files, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import show_token


@dataclass(frozen=True)
class Term:
    """One term of a token's probability."""

    name: str
    value: float
    details: dict[str, float]  # for an order of an n-gram: whether it was seen, its own share, its backoff


@dataclass(frozen=True)
class ScoredToken:
    """A token with its natural-log probability."""

    token: str
    log_prob: float
    terms: tuple[Term, ...] | None = None  # the terms sum to the probability

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "token": self.token,
            "log_prob": self.log_prob if math.isfinite(self.log_prob) else None,
        }
        if self.terms is not None:
            data["terms"] = [{"name": term.name, "value": term.value, **term.details} for term in self.terms]
        return data


@dataclass(frozen=True)
class Scores(Table):
    """The scored documents of a text. Each iteration scores the text again, in bounded memory."""

    run: Run
    sources: list[Source]
    explain: bool = False

    def __iter__(self) -> Iterator[list[ScoredToken]]:
        document = list[ScoredToken]()
        for token, is_last in self.tokens():
            document.append(token)
            if is_last:
                yield document
                document = []

    def tokens(self) -> Iterator[tuple[ScoredToken, bool]]:
        """Yield every token, and whether it is the last of its document."""
        for source in self.sources:
            yield from _scored(self.run, source, self.explain)

    def rows(self) -> TableRows:
        """A row for each token: its document (from 0), the token, its log-probability and its terms."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for number, document in enumerate(self):
            for token in document:
                yield {"document": number, **token.to_json()}

    def _repr_html_(self) -> str:
        return html_table(self._rows())


def score(run: RunLike, text: Files = (), *, explain: bool = False, edit: Edits = None) -> Scores:
    """Compute the natural-log probability of every token of a text, a document at a time.

    The printed list has an empty line after each document.

    >>> for document in regard.score("runs/ngram", text="other.txt"):  # doctest: +SKIP
    ...     print(document[0].token, document[0].log_prob)

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        text: The text. Without it, the run's own test or validation text.
        explain: Add the terms of each probability: the orders of an n-gram, the gate and copies, a mixture.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    opened = require_plain_text(edited(run, edit))
    to_best_device(opened.language_model)
    return Scores(opened, opened.read(text) or opened.own_text(), explain)


def _scored(run: Run, source: Source, explain: bool) -> Iterator[tuple[ScoredToken, bool]]:
    """Score the tokens of one text."""
    model, name = run.language_model, run.tokenizer.name
    encoded = encode_sources(run.tokenizer, [source])
    terms = _terms(model, encoded) if explain else None
    place, document, end = 0, 0, int(encoded.ends_D[0])
    for nll_N in losses_in_order(model, encoded):
        ids = encoded.ids_N[place : place + len(nll_N)].tolist()
        encoded.release()
        for token, nll in zip(ids, nll_N.tolist(), strict=True):
            own = None if terms is None else terms[place]
            place += 1
            yield ScoredToken(name(token), -nll, own), place == end
            if place == end < len(encoded):
                document += 1
                end = int(encoded.ends_D[document])


def _terms(model: LanguageModel, text: Encoded) -> list[tuple[Term, ...]]:
    """Return the terms of every token's probability. The models of a mixture have terms of their own."""
    terms: list[tuple[Term, ...]] = [()] * len(text)
    members = model.members()
    for member in members:
        for rows, prediction in read_examples(member.model, text):
            targets_BT = rows.targets_BT.to(member.model.device)
            parts = prediction.parts(targets_BT)
            if parts.of == "score" and len(members) == 1:
                why = f"{model.family} has a softmax of scores, which regard trace splits into terms"
                raise UserError(f"`explain` is for probabilities that are sums; {why}")
            weight_BT = torch.full(
                targets_BT.shape, member.weight, dtype=torch.float64, device=targets_BT.device
            )
            name = member.prefix.rstrip(".")
            for part in parts.scaled(weight_BT, name, prediction.nll(targets_BT)):
                _add(terms, rows, part, member.prefix)
    return terms


def _add(terms: list[tuple[Term, ...]], rows: Rows, part: Part, prefix: str) -> None:
    """Add one term at every token of the rows. A term that is spread over positions is summed."""
    value_BT = part.value if part.value.dim() == 2 else part.value.sum(2)
    scored_BT = rows.places_BT >= 0
    details = {name: values_BT.cpu()[scored_BT].tolist() for name, values_BT in (part.details or {}).items()}
    values, name = (
        value_BT.cpu()[scored_BT].tolist(),
        part.name if part.name in prefix else prefix + part.name,
    )
    for number, (place, value) in enumerate(zip(rows.places_BT[scored_BT].tolist(), values, strict=True)):
        terms[place] += (Term(name, value, {key: row[number] for key, row in details.items()}),)


def main(arguments: list[str]) -> None:
    call = parse(score, arguments)
    tokens = score(**call.values).tokens()
    written = _json(tokens) if call.json else _text(tokens)
    first = next(written)  # a mistake is noticed before anything is written
    sys.stdout.writelines(chain([first], written))


def _json(tokens: Iterator[tuple[ScoredToken, bool]]) -> Iterator[str]:
    """Yield the parts of one JSON object: a large text is not kept in memory."""
    before = '{"documents": [['
    for token, is_last in tokens:
        yield before + json.dumps(token.to_json(), ensure_ascii=False)
        before = "], [" if is_last else ", "
    yield "]]}\n"


def _text(tokens: Iterator[tuple[ScoredToken, bool]]) -> Iterator[str]:
    for token, is_last in tokens:
        yield from _lines(token)
        if is_last:
            yield "\n"


def _lines(token: ScoredToken) -> list[str]:
    lines = [f"{show_token(token.token)}\t{token.log_prob:.6f}\n"]
    for term in token.terms or ():
        details = ""
        if "seen" in term.details:
            seen = "seen" if term.details["seen"] else "unseen"
            details = f" {seen:<6} own {term.details['own']:<10.4g} backoff {term.details['backoff']:<10.4g}"
        lines.append(f"    {term.name:<12}{details} share {term.value:.4g}\n")
    return lines
