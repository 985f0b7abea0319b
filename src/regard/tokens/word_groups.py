"""The groups of tokens that are words, and weights over words from weights over tokens.

Shape legend: Q rows, K columns, R groups of rows, C groups of columns.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from regard.tokens.contract import Tokenizer

MARKS = ("<s>", "</s>", "<pad>")
BLANKS = " \t\n\r\v\f"  # a no-break space does not separate words


def word_groups(tokens: Sequence[str], kind: str = "bpe") -> list[range]:
    """Return the tokens of each word, from the names of the tokens and the kind of their tokenizer."""
    if kind == "word":
        return [range(place, place + 1) for place in range(len(tokens))]
    return [range(first, last) for first, last in pairwise([*word_starts(tokens), len(tokens)])]


def line_groups(line: str, tokenizer: Tokenizer) -> list[range]:
    """Return the tokens of each word of a line."""
    is_char = tokenizer.kind == "char"
    names = list(line) if is_char else [tokenizer.name(token) for token in tokenizer.prompt(line)]
    return word_groups(names, tokenizer.kind)


def word_starts(tokens: Sequence[str]) -> list[int]:
    """Return the index of the first token of each word.

    A word begins with the blanks before it. Marks such as <s> and line ends are words of their own, and so
    are blanks at the end. A line then has as many words as `parallel.words` counts.
    """
    starts = list[int]()
    blanks: int | None = None  # the first token of a run of blanks
    separated = True  # whether the next letter begins a word
    for place, token in enumerate(tokens):
        blank = not token.strip(BLANKS)
        if token in MARKS or (blank and "\n" in token):
            starts.append(place)
            blanks, separated = None, True
        elif blank:
            blanks = place if blanks is None else blanks
        else:
            if separated or blanks is not None or token[0] in BLANKS:
                starts.append(place if blanks is None else blanks)
            blanks, separated = None, token[-1] in BLANKS
    return [0, *starts[1:]]


def group_weights(
    weights_HQK: Tensor, rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]
) -> Tensor:
    """(H, R, C): averages the rows of each group, and adds the columns of each group.

    A row that sums to 1 before sums to 1 afterwards if the groups contain all columns.
    """
    average_RQ = torch.zeros(len(rows), weights_HQK.shape[-2], dtype=weights_HQK.dtype)
    for number, group in enumerate(rows):
        for row in group:
            average_RQ[number, row] += 1 / len(group)
    member_KC = torch.zeros(weights_HQK.shape[-1], len(columns), dtype=weights_HQK.dtype)
    for number, group in enumerate(columns):
        member_KC[list(group), number] = 1
    return average_RQ @ weights_HQK @ member_KC
