"""Results that show themselves: rows for programs, tables for notebooks, readable tokens."""

import html
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, final

MOST_ROWS = 60  # a notebook shows so many rows
TableRows = list[dict[str, Any]]
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# letters and marks that are printable for Python but show nothing: fillers, joiners, variation selectors
SHAPELESS = frozenset(
    map(chr, [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, 0xFFA0])
) | frozenset(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))


class Table(ABC):
    """A result with rows. A notebook shows it as a table."""

    @abstractmethod
    def rows(self) -> TableRows:
        """Return the result as a list of dicts, one for each row of the table."""

    def _repr_html_(self) -> str | None:
        return html_table(self.rows())


@final
class Catalogue(dict[str, str], Table):
    """Names, each with one line about it."""

    def rows(self) -> TableRows:
        return [{"name": name, "about": about} for name, about in self.items()]


def html_table(rows: Iterable[dict[str, Any]]) -> str:
    """Make an HTML table of rows. A single row becomes a table of names and values."""
    shown = list(islice(rows, MOST_ROWS + 1))
    if not shown:
        return "<p>no rows</p>"
    if len(shown) == 1:
        return _table([], shown[0].items())
    names = list(dict.fromkeys(name for row in shown for name in row))
    more = f"<p>The first {MOST_ROWS} rows; rows() has all.</p>" if len(shown) > MOST_ROWS else ""
    return _table(names, ([row.get(name) for name in names] for row in shown[:MOST_ROWS])) + more


def _table(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{as_html(name.replace('_', ' '))}</th>" for name in names)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    style = ' style="text-align:right;font-variant-numeric:tabular-nums"' if number else ""
    return f"<td{style}>{html.escape(visible(as_text(value)))}</td>"


def visible(text: str) -> str:
    """Make a token readable: outer spaces and line ends have signs, what has no shape of its own has a code.

    >>> visible(" cat"), visible("two words"), visible("\x9b"), visible("\u202e")
    ('␣cat', 'two words', '<9b>', '<202e>')
    """
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    marked = "␣" * before + inner + "␣" * (len(text) - before - len(inner))
    marked = marked.replace("\n", "↵").replace("\t", "⇥")
    shown = "".join(letter if _has_shape(letter) else f"<{ord(letter):x}>" for letter in marked)
    # A combining mark would join the letter before the token: it stands on a dotted circle.
    return f"◌{shown}" if shown and unicodedata.combining(shown[0]) else shown


def harmless(text: str, kept: str = "\n\t") -> str:
    r"""Give codes to characters of a text that would command a terminal or turn the order of letters.

    These are control characters (escape sequences begin with one), other line ends, and the marks that
    change the direction of writing. Text for programs (JSON, pipes) stays as it is.

    >>> harmless("\x1b[31mred"), harmless("a\u202eb"), harmless("two\nlines")
    ('<1b>[31mred', 'a<202e>b', 'two\nlines')
    """
    return "".join(
        letter if letter in kept or not _commands(letter) else f"<{ord(letter):x}>" for letter in text
    )


def as_html(text: str) -> str:
    """Write a text from outside in HTML or SVG: no mark of HTML, and no character that commands.

    >>> as_html("<b>\u202e")
    '&lt;b&gt;&lt;202e&gt;'
    """
    return html.escape(harmless(text))


def _commands(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Zl", "Zp", "Cs") or letter in DIRECTIONS


def _has_shape(letter: str) -> bool:
    return letter.isprintable() and letter not in SHAPELESS


def cell_width(text: str) -> int:
    """The columns of a terminal that a text takes: two for a wide character, none for a combining mark.

    >>> cell_width("cat"), cell_width("猫"), cell_width("e\u0301")
    (3, 2, 1)
    """
    return sum(
        0 if unicodedata.category(letter) in ("Mn", "Me", "Cf")
        else 2 if unicodedata.east_asian_width(letter) in "WF"
        else 1
        for letter in text
    )  # fmt: skip


def fit(text: str, width: int, right: bool = False) -> str:
    """Cut or pad a text to a number of columns.

    >>> fit("cat", 5) + "|", fit("猫猫", 3) + "|", fit("7", 3, right=True)
    ('cat  |', '猫 |', '  7')
    """
    while cell_width(text) > width:
        text = text[:-1]
    space = " " * (width - cell_width(text))
    return space + text if right else text + space


def as_text(value: Any) -> str:
    """Write a value for people: numbers with few digits, dicts as names and values.

    >>> as_text(1234), as_text(0.123456), as_text({"size": 3, "theta": None})
    ('1,234', '0.1235', 'size 3')
    """
    match value:
        case None:
            return "none"
        case dict():
            return ", ".join(f"{name} {as_text(item)}" for name, item in value.items() if item is not None)
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
        case float():
            if abs(value) >= 1000:
                return f"{value:,.0f}"
            return f"{value:.4g}" if abs(value) >= 100 else f"{value:.4f}"
        case _:
            return str(value)
