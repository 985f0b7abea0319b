"""Which tokens each word is made of, and maps over tokens as maps over words.

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
    """The tokens of each word, from the names of the tokens and the kind of their tokenizer."""
    if kind == "word":
        return [range(place, place + 1) for place in range(len(tokens))]
    return [range(first, last) for first, last in pairwise([*word_starts(tokens), len(tokens)])]


def line_groups(line: str, tokenizer: Tokenizer) -> list[range]:
    """The tokens of each word of a line."""
    names = (
        list(line)
        if tokenizer.kind == "char"
        else [tokenizer.name(token) for token in tokenizer.prompt(line)]
    )
    return word_groups(names, tokenizer.kind)


def word_starts(tokens: Sequence[str]) -> list[int]:
    """Where words begin: at the blanks before them. Marks such as <s> and line ends stand alone; blanks at the end are a word.

    So a line has as many words as `parallel.words` counts.
    """
    starts, blanks, parted = (
        list[int](),
        None,
        True,
    )  # blanks: where a run of blanks began; parted: the next letter begins a word
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


def group_weights(
    weights_HQK: Tensor, rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]
) -> Tensor:
    """Groups of rows averaged, groups of columns added up: no weight is lost and none is made."""
    average_RQ = torch.zeros(len(rows), weights_HQK.shape[-2], dtype=weights_HQK.dtype)
    for number, group in enumerate(rows):
        for row in group:
            average_RQ[number, row] += 1 / len(group)
    member_KC = torch.zeros(weights_HQK.shape[-1], len(columns), dtype=weights_HQK.dtype)
    for number, group in enumerate(columns):
        member_KC[list(group), number] = 1
    return average_RQ @ weights_HQK @ member_KC
