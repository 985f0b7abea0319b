"""What a verb prints: one JSON object for programs, aligned lines for people."""

import json
import sys
from typing import Any


def print_json(data: dict[str, Any]) -> None:
    """Numbers are numbers. JSON has no infinity: it became null before."""
    print(json.dumps(data, ensure_ascii=False, allow_nan=False))


def print_lines(data: dict[str, Any]) -> None:
    width = max(map(len, data))
    for name, value in data.items():
        print(f"{name.replace('_', ' '):<{width}}  {_for_people(value)}")


def print_result(result: Any, json: bool) -> None:
    """A result that has `to_json`."""
    (print_json if json else print_lines)(result.to_json())


def tell(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr, flush=True)


def _for_people(value: Any) -> str:
    match value:
        case None:
            return "none"
        case dict():
            return ", ".join(
                f"{name} {_for_people(item)}" for name, item in value.items() if item is not None
            )
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


def escaped(token: str) -> str:
    """A token on one line of a table: tabs, newlines and the like written out."""
    return json.dumps(token, ensure_ascii=False)[1:-1] if not token.isprintable() else token
