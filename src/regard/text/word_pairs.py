"""Word pairs with human scores of their similarity: SimLex-999, RG-65, WordSim-353, MEN and lists like them.

A line holds two words and a number. The columns lie between tabs, commas, semicolons or blanks. The first
line may name the columns. The score is the first number after the words: in SimLex-999, the part of speech
stands before it. Lines that begin with # are comments.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.text.parallel import read_lines

SEPARATORS = ("\t", ",", ";", None)  # None: any white space
FORM = "give lines of two words and a number: word TAB word TAB score"


@dataclass(frozen=True)
class WordPairs:
    """The pairs of a word list."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    scores: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.pairs)


def read_word_pairs(path: str | Path) -> WordPairs:
    """Read a word list. A list of another form raises a UserError with file and line."""
    lines = [
        (number, line)
        for number, line in enumerate(read_lines(str(path)), 1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines:
        raise UserError(f"{path}: holds no word pairs; {FORM}")
    separator = next(mark for mark in SEPARATORS if mark is None or mark in lines[-1][1])
    rows = [(number, [cell.strip() for cell in line.split(separator)]) for number, line in lines]
    if len(rows) > 1 and not any(_is_number(cell) for cell in rows[0][1]):
        rows = rows[1:]  # the names of the columns
    column = _score_column(path, rows)
    for number, cells in rows:
        if len(cells) <= column or not (cells[0] and cells[1] and _is_number(cells[column])):
            raise UserError(f"{path}, line {number}: is not a word pair with a score; {FORM}")
    return WordPairs(
        Path(path).name,
        tuple((cells[0], cells[1]) for _, cells in rows),
        tuple(float(cells[column]) for _, cells in rows),
    )


def _score_column(path: str | Path, rows: list[tuple[int, list[str]]]) -> int:
    number, first = rows[0]
    for column in range(2, len(first)):
        if _is_number(first[column]):
            return column
    raise UserError(f"{path}, line {number}: is not a word pair with a score; {FORM}")


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
