"""Print results: one JSON object for programs, aligned lines for people."""

import json
import sys
from typing import Any

from regard.errors import MachineError
from regard.machine import streams
from regard.tables import as_text, harmless, visible


def print_json(data: dict[str, Any]) -> None:
    """Print one JSON object. Infinite numbers must be None before: JSON has no infinity."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise MachineError(
            "a figure is not a number: the model's numbers are too large; use another"
        ) from None
    print(text)


def print_lines(data: dict[str, Any]) -> None:
    """Print a line for each figure."""
    width = max(map(len, data))
    for name, value in data.items():
        show(f"{name.replace('_', ' '):<{width}}  {as_text(value)}")


def print_result(result: Any, json: bool) -> None:
    """Print a result that has `to_json`."""
    (print_json if json else print_lines)(result.to_json())


def tell(text: str) -> None:
    """Print a line on standard error."""
    streams.tell(harmless(text))


def escaped(token: str) -> str:
    """Write tabs, newlines and other control characters of a token as escapes: a token stays on one line."""
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in token)


def _escape(letter: str) -> str:
    return "\\u007f" if letter == "\x7f" else json.dumps(letter)[1:-1]


def show_token(token: str) -> str:
    """Write a token for standard output: with visible spaces in a terminal, with its own spaces in a pipe."""
    return visible(token) if sys.stdout.isatty() else escaped(token)


def show_text(text: str) -> str:
    """Write running text for standard output: in a terminal, control characters have codes and do nothing."""
    return harmless(text) if sys.stdout.isatty() else text


def show(text: str) -> None:
    """Print lines with names or texts of the user."""
    print(show_text(text))


def print_table(rows: list[dict[str, str]]) -> None:
    """Print the table of a comparison, with the names of the columns above."""
    from rich.console import Console
    from rich.table import Column as Heading
    from rich.table import Table
    from rich.text import Text

    family, *figures = rows[0]
    headings = [
        Heading(family, no_wrap=True),
        *(Heading(name, justify="right", no_wrap=True) for name in figures),
    ]
    table = Table(*headings, box=None, padding=(0, 1))
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row.values()))
    Console().print(table)
