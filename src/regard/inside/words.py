"""A record by words instead of subwords: no weight is lost and none is made.

Shape legend: H heads, Q rows, K columns, R groups of rows, C groups of columns.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.record import Record
from regard.tokens.contract import Tokenizer

MARKS = ("<s>", "</s>", "<pad>")
BLANKS = " \t\n\r\v\f"  # a no-break space does not part words


def by_words(record: Record) -> Record:
    """What looks at a word looks at all of its parts: columns add up. A word looks as its parts do on average: rows are averaged.

    A word's surprisal is the sum of its parts', by the chain rule; what comes next is what comes after its last part.
    """
    if record.rows != list(range(len(record.tokens))):
        raise UserError("words are put together of all their parts: look at all rows, of a text that fits the context")
    groups = word_groups(record.tokens)
    looked_at = groups if record.columns is None else word_groups(record.columns)
    keys = len(record.column_names())
    weights = {
        site: merged(weights_HQK, groups, [*looked_at, *([key] for key in range(keys, weights_HQK.shape[2]))])  # the vocabulary stays
        for site, weights_HQK in record.weights.items()
        if not site.endswith(".scores")
    }
    return replace(
        record,
        tokens=_joined(record.tokens, groups),
        columns=None if record.columns is None else _joined(record.columns, looked_at),
        surprisal=[_total([record.surprisal[place] for place in group]) for group in groups],
        likeliest=[record.likeliest[group[-1 if record.columns is None else 0]] for group in groups],  # after it, or instead of it
        rows=list(range(len(groups))),
        first=0,
        last=len(groups),
        weights=weights,
        values={},
        gate=None if record.gate is None else [record.gate[group[-1]] for group in groups],
        copied=None,
        chains=None,
        notes=[*record.notes, f"{len(record.tokens)} tokens are put together to {len(groups)} words"],
        seen={site: _rows_of(one) for site, one in weights.items()},
    )


def word_groups(tokens: list[str], kind: str = "bpe") -> list[range]:
    """Which tokens each word is made of; `kind` is the tokenizer's."""
    if kind == "word":
        return [range(place, place + 1) for place in range(len(tokens))]
    return [range(first, last) for first, last in pairwise([*word_starts(tokens), len(tokens)])]


def line_groups(line: str, tokenizer: Tokenizer) -> list[range]:
    """Which tokens each word of a line is made of."""
    names = list(line) if tokenizer.kind == "char" else [tokenizer.name(token) for token in tokenizer.prompt(line)]
    return word_groups(names, tokenizer.kind)


def _joined(tokens: list[str], groups: list[range]) -> list[str]:
    return ["".join(tokens[place] for place in group).strip() or tokens[group[0]] for group in groups]


def word_starts(tokens: list[str]) -> list[int]:
    """Where words begin: with the blanks before them. Marks like <s>, and line ends, stand alone; blanks behind the last word are its own.

    So a line has as many words as `parallel.words` counts.
    """
    starts, blanks, parted = list[int](), None, True  # where a run of blanks began; whether the next letter begins a word
    for place, token in enumerate(tokens):
        blank = not token.strip(BLANKS)
        if token in MARKS or (blank and "\n" in token):
            starts.append(place)
            blanks, parted = None, True
        elif blank:
            blanks = place if blanks is None else blanks
        else:
            if parted or blanks is not None or token[0] in BLANKS:
                starts.append(place if blanks is None else blanks)
            blanks, parted = None, token[-1] in BLANKS
    return [0, *starts[1:]]


def merged(weights_HQK: Tensor, rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]) -> Tensor:
    """Groups of rows averaged, groups of columns added up."""
    average_RQ = torch.zeros(len(rows), weights_HQK.shape[-2], dtype=weights_HQK.dtype)
    for number, group in enumerate(rows):
        for row in group:
            average_RQ[number, row] += 1 / len(group)
    member_KC = torch.zeros(weights_HQK.shape[-1], len(columns), dtype=weights_HQK.dtype)
    for number, group in enumerate(columns):
        member_KC[list(group), number] = 1
    return average_RQ @ weights_HQK @ member_KC


def _total(parts: list[float | None]) -> float | None:
    return None if None in parts else sum(part for part in parts if part is not None)


def _rows_of(weights_HQK: Tensor):
    return lambda rows=None: weights_HQK[None] if rows is None else weights_HQK[None][:, :, rows]
