"""Results that show themselves: rows for programs, tables for notebooks, readable tokens."""

import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, final

MOST_ROWS = 60  # a notebook shows so many rows
TableRows = list[dict[str, Any]]


class Table(ABC):
    """A result with rows. A notebook shows it as a table."""

    @abstractmethod
    def rows(self) -> TableRows:
        """Return the result as a list of dicts, one for each row of the table."""

    def _repr_html_(self) -> str:
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
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    style = ' style="text-align:right;font-variant-numeric:tabular-nums"' if number else ""
    return f"<td{style}>{html.escape(visible(as_text(value)))}</td>"


def visible(text: str) -> str:
    """Make a token readable: outer spaces and line ends have signs, control characters have codes.

    >>> visible(" cat"), visible("two words"), visible("\\x9b")
    ('␣cat', 'two words', '<9b>')
    """
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    marked = "␣" * before + inner + "␣" * (len(text) - before - len(inner))
    marked = marked.replace("\n", "↵").replace("\t", "⇥")
    return "".join(letter if letter.isprintable() else f"<{ord(letter):x}>" for letter in marked)


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
