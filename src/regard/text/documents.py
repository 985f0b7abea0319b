"""Cuts a text into documents. A model's context never crosses the end of a document."""

import itertools
import re
from typing import Literal

Document = Literal["file", "line", "blank"]

BLANK_LINES = re.compile(r"\n(?:[ \t\r\f\v]*\n)+")


def split(text: str, document: Document) -> list[str]:
    """Cut a text into documents. Joined together, the documents are the text.

    Only "line" leaves something out: the newline, because the end of the document stands for it.

    >>> split("a b\\n\\nc\\n", "line")
    ['a b', '', 'c']
    >>> split("a b\\n\\nc\\n", "blank")
    ['a b\\n\\n', 'c\\n']
    """
    if document == "file":
        return [text]
    if document == "line":
        lines = text.split("\n")
        return lines if lines[-1] else lines[:-1]
    cuts = [0, *(match.end() for match in BLANK_LINES.finditer(text)), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(cuts) if a < b]


def hold_out(text: str, share: float = 0.1) -> tuple[str, str]:
    """Split a text into its first part, for training, and the last `share`, for validation.

    The cut moves to the next end of a line, or else of a word, if there is one within half of the share.
    """
    cut = int(len(text) * (1 - share))
    limit = cut + int(len(text) * share / 2)
    ends = [place + 1 for mark in "\n " if (place := text.find(mark, cut, limit)) >= 0]
    cut = ends[0] if ends else cut
    return text[:cut], text[cut:]
