"""What a verb says: one JSON object for programs, aligned lines for people."""

import json
from typing import Any


def print_json(data: dict[str, Any]) -> None:
    """Numbers are numbers; what JSON has no number for (infinity) is null before it comes here."""
    print(json.dumps(data, ensure_ascii=False, allow_nan=False))


def print_lines(data: dict[str, Any]) -> None:
    width = max(map(len, data))
    for name, value in data.items():
        print(f"{name.replace('_', ' '):<{width}}  {_for_people(value)}")


def _for_people(value: Any) -> str:
    match value:
        case None:
            return "none"
        case dict():
            return ", ".join(f"{name} {_for_people(item)}" for name, item in value.items() if item is not None)
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.4f}"
        case _:
            return str(value)


def escaped(token: str) -> str:
    """A token on one line of a table: tabs, newlines and the like written out."""
    return json.dumps(token, ensure_ascii=False)[1:-1] if not token.isprintable() else token
