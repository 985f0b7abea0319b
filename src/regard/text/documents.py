"""Cuts a text into documents. A model's context never crosses the end of a document."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Document = Literal["file", "row", "line", "blank"]

ROW = "\0"  # ends a row of JSON lines or Parquet; no text holds this character
PIECE = 1 << 20  # characters of a text that are split and encoded at a time
ENDS = {"row": ROW, "line": "\n"}  # the character that an end token stands for
BLANK_LINES = re.compile(r"\n(?:[ \t\r\f\v]*\n)+")


def split(text: str, document: Document) -> list[str]:
    """Cut a text into documents. Joined together, the documents are the text.

    "line" leaves out the newline and "row" the end of the row, because the end of the document stands for
    it.

    >>> split("a b\\n\\nc\\n", "line")
    ['a b', '', 'c']
    >>> split("a b\\n\\nc\\n", "blank")
    ['a b\\n\\n', 'c\\n']
    """
    if document == "file":
        return [text]
    if document != "blank":
        parts = text.split(ENDS[document])
        return parts if parts[-1] else parts[:-1]
    cuts = [0, *(match.end() for match in BLANK_LINES.finditer(text)), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(cuts) if a < b]


@dataclass(frozen=True)
class Piece:
    """A piece of a text, in documents."""

    documents: list[str]
    unfinished: bool  # the last document goes on in the next piece, with at least one character or its end


Cut = Callable[[str, int], int]  # (text, first place) -> a place where a document may be cut, or -1


def split_pieces(strings: Iterable[str], document: Document, cut: Cut) -> Iterator[Piece]:
    """Cut a text that comes as a sequence of strings into pieces of about PIECE characters.

    The parts of each document, joined, are the documents of `split`. `cut` says where a document may be cut:
    at a place with a character on both sides, and never inside white space.
    """
    rest = ""
    for string in strings:
        rest += string
        while len(rest) > PIECE and (place := cut(rest, PIECE)) > 0:
            yield _piece(rest[:place], document)
            rest = rest[place:]
    if rest:
        yield Piece(split(rest, document), unfinished=False)


def _piece(text: str, document: Document) -> Piece:
    """Return a piece that another one follows."""
    if document == "file":
        return Piece([text], unfinished=True)
    if document != "blank":
        parts = text.split(ENDS[document])
        unfinished = parts[-1] != ""
        return Piece(parts if unfinished else parts[:-1], unfinished)
    ends = [match.end() for match in BLANK_LINES.finditer(text)]
    return Piece(split(text, document), unfinished=not ends or ends[-1] < len(text))
