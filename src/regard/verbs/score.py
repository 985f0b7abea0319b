"""regard score RUN: the log-probability of every token of a text."""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, starmap
from typing import Any

import torch
from torch import Tensor

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

AT_A_TIME = 1 << 16  # tokens of a stretch


@dataclass(frozen=True)
class Term:
    """One term of a token's probability."""

    name: str
    value: float
    details: dict[str, float]  # for an order of an n-gram: whether it was seen, its own share, its backoff

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, **self.details}


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
            data["terms"] = [term.to_json() for term in self.terms]
        return data


@dataclass(frozen=True)
class Total:
    """The sum of the natural-log probabilities of the tokens of a document, and their number."""

    log_prob: float
    tokens: int

    def to_json(self) -> dict[str, Any]:
        return {"log_prob": self.log_prob if math.isfinite(self.log_prob) else None, "tokens": self.tokens}


@dataclass(frozen=True)
class Stretch:
    """Consecutive tokens of a text."""

    ids_N: Tensor
    log_prob_N: Tensor
    lasts: list[int]  # the indices of the tokens that end documents
    terms: list[tuple[Term, ...]] | None


@dataclass(frozen=True)
class Scores(Table):
    """The scored documents of a text. Each iteration scores the text again, in bounded memory."""

    run: Run
    sources: list[Source]
    explain: bool = False
    only_totals: bool = False

    def __iter__(self) -> Iterator[list[ScoredToken]]:
        document = list[ScoredToken]()
        for token, is_last in self.tokens():
            document.append(token)
            if is_last:
                yield document
                document = []

    def tokens(self) -> Iterator[tuple[ScoredToken, bool]]:
        """Yield every token, and whether it is the last of its document."""
        name = cache(self.run.tokenizer.name)
        for part in self.stretches():
            lasts = set(part.lasts)
            for place, (token, log_prob) in enumerate(
                zip(part.ids_N.tolist(), part.log_prob_N.tolist(), strict=True)
            ):
                terms = None if part.terms is None else part.terms[place]
                yield ScoredToken(name(token), log_prob, terms), place in lasts

    def totals(self) -> Iterator[Total]:
        """Yield the sum of each document."""
        return starmap(Total, chain.from_iterable(self.sums()))

    def sums(self) -> Iterator[list[tuple[float, int]]]:
        """Yield the sums of many documents at a time, as tuples: log-probability, number of tokens."""
        log_prob, tokens = 0.0, 0  # of the document that has begun
        for part in self.stretches():
            ends = [last + 1 for last in part.lasts]
            cuts = torch.tensor([0, *ends, len(part.ids_N)]).diff()
            sums = torch.segment_reduce(part.log_prob_N, "sum", lengths=cuts, initial=0.0).tolist()
            numbers = cuts.tolist()
            sums[0] += log_prob
            numbers[0] += tokens
            log_prob, tokens = sums.pop(), numbers.pop()
            yield [*zip(sums, numbers, strict=True)]

    def stretches(self) -> Iterator[Stretch]:
        """Yield all tokens in order, thousands at a time."""
        for source in self.sources:
            yield from _scored(self.run, source, self.explain)

    def rows(self) -> TableRows:
        """A row for each token: its document (from 0), the token, its log-probability and its terms. Or a
        row for each document, if totals were asked for.
        """
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        if self.only_totals:
            yield from ({"document": number, **one.to_json()} for number, one in enumerate(self.totals()))
            return
        for number, document in enumerate(self):
            for token in document:
                yield {"document": number, **token.to_json()}

    def _repr_html_(self) -> str:
        return html_table(self._rows())


def score(
    run: RunLike, text: Files = (), *, totals: bool = False, explain: bool = False, edit: Edits = None
) -> Scores:
    """Compute the natural-log probability of every token of a text, a document at a time.

    The printed list has an empty line after each document.

    >>> for document in regard.score("runs/ngram", text="other.txt"):  # doctest: +SKIP
    ...     print(document[0].token, document[0].log_prob)

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        text: The text. Without it, the run's own test or validation text.
        totals: Print a line for each document instead: its log-probability and its number of tokens.
        explain: Add the terms of each probability: the orders of an n-gram, the gate and copies, a mixture.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    if totals and explain:
        raise UserError("`totals` leaves out the tokens that `explain` explains: leave out one of them")
    opened = require_plain_text(edited(run, edit))
    to_best_device(opened.language_model)
    return Scores(opened, opened.read(text) or opened.own_text(), explain, totals)


def _scored(run: Run, source: Source, explain: bool) -> Iterator[Stretch]:
    """Score the tokens of one text."""
    model = run.language_model
    encoded = encode_sources(run.tokenizer, [source])
    terms = _terms(model, encoded) if explain else None
    first = 0
    for nll_N in chain.from_iterable(nll_N.split(AT_A_TIME) for nll_N in losses_in_order(model, encoded)):
        last = first + len(nll_N)
        ids_N = encoded.ids_N[first:last].clone()
        inside = torch.searchsorted(encoded.ends_D, torch.tensor([first, last]), right=True).tolist()
        lasts = (encoded.ends_D[slice(*inside)] - (first + 1)).tolist()
        encoded.release()
        yield Stretch(ids_N, -nll_N, lasts, None if terms is None else terms[first:last])
        first = last


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
    scores = score(**call.values)
    if scores.only_totals:
        written = _json_totals(scores.totals()) if call.json else _text_totals(scores)
    else:
        written = _json(scores) if call.json else _text(scores)
    first = next(written)  # a mistake is noticed before anything is written
    sys.stdout.writelines(chain([first], written))


def _json(scores: Scores) -> Iterator[str]:
    """Yield the parts of one JSON object: a large text is not kept in memory."""
    name = cache(lambda token: json.dumps(scores.run.tokenizer.name(token), ensure_ascii=False))
    before = '{"documents": [['
    for part in scores.stretches():
        tokens = [
            f'{{"token": {token}, "log_prob": {"null" if log_prob == -math.inf else log_prob}'
            for token, log_prob in zip(map(name, part.ids_N.tolist()), part.log_prob_N.tolist(), strict=True)
        ]
        for place, terms in enumerate(part.terms or ()):
            tokens[place] += f', "terms": {json.dumps([term.to_json() for term in terms])}'
        between = [before, *["}, "] * len(tokens)]
        for last in part.lasts:
            between[last + 1] = "}], ["
        before = between.pop()
        yield "".join(chain.from_iterable(zip(between, tokens, strict=True)))
    yield "}]]}\n"


def _json_totals(totals: Iterator[Total]) -> Iterator[str]:
    before = '{"documents": ['
    for total in totals:
        yield before + json.dumps(total.to_json())
        before = ", "
    yield "]}\n"


def _text(scores: Scores) -> Iterator[str]:
    name = cache(lambda token: show_token(scores.run.tokenizer.name(token)))
    for part in scores.stretches():
        lines = [
            f"{token}\t{log_prob:.6f}\n"
            for token, log_prob in zip(map(name, part.ids_N.tolist()), part.log_prob_N.tolist(), strict=True)
        ]
        for place, terms in enumerate(part.terms or ()):
            lines[place] += "".join(map(_line, terms))
        for last in part.lasts:
            lines[last] += "\n"
        yield "".join(lines)


def _text_totals(scores: Scores) -> Iterator[str]:
    for sums in scores.sums():
        yield "".join([f"{log_prob:.6f}\t{tokens}\n" for log_prob, tokens in sums])


def _line(term: Term) -> str:
    details = ""
    if "seen" in term.details:
        seen = "seen" if term.details["seen"] else "unseen"
        details = f" {seen:<6} own {term.details['own']:<10.4g} backoff {term.details['backoff']:<10.4g}"
    return f"    {term.name:<12}{details} share {term.value:.4g}\n"
