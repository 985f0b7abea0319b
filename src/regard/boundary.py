"""The boundary: data from outside is parsed once into frozen dataclasses, and every mistake is one line that names the field.

Data from outside are options (from Python or the command line), config files, plans and edits. pydantic checks types and ranges.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol, TypeVar, get_args, get_type_hints, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from regard.errors import UserError

T = TypeVar("T")
DEEPEST = 32  # nested brackets of a JSON text: no file of ours has more than eight
KINDS = {  # pydantic's error types, in our words
    "int_type": "is a whole number",
    "int_from_float": "is a whole number",
    "int_parsing_size": "is a whole number below 2 ** 63",
    "float_type": "is a number",
    "finite_number": "is a finite number",
    "bool_type": "is True or False",
    "string_type": "is a text",
    "tuple_type": "is a list",
    "list_type": "is a list",
    "dict_type": "is an object",
    "missing": "is missing",
    "unexpected_keyword_argument": "is not known here",
    "extra_forbidden": "is not known here",
}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    _configure(kind)
    return TypeAdapter(kind)


def _configure(kind: Any) -> None:
    """Make pydantic refuse unknown keys, infinities and NaN in a dataclass and in the dataclasses of its fields."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        kind.__pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # type: ignore[attr-defined]
        for hint in get_type_hints(kind).values():
            _configure(hint)
    for part in get_args(kind):
        _configure(part)


def build(kind: Callable[..., T], values: Mapping[str, Any]) -> T:
    """A frozen dataclass from named values, every one checked against the type of its field."""
    try:
        return _adapter(kind).validate_json(json.dumps(values, default=_plain), strict=True)
    except ValidationError as error:
        raise UserError(_mistake(error)) from None


def _plain(value: Any) -> Any:
    """Values that JSON does not have, as those that it has: paths, and NumPy's and torch's numbers."""
    return value.item() if isinstance(value, SupportsItem) else str(value)


@runtime_checkable
class SupportsItem(Protocol):
    def item(self) -> Any: ...


def parse_json(kind: Callable[..., T], text: bytes, where: str) -> T:
    """A frozen dataclass from JSON, or one line that says where and what is wrong."""
    check_depth(text, where)
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        raise UserError(f"{where}: {quote_fields(_mistake(error))}") from None


def quote_fields(mistake: str) -> str:
    """A mistake in a file. Its fields are no options: the command line must not spell them as flags."""
    return mistake.replace("`", "'")


def check_depth(text: bytes, where: str) -> None:
    """Refuse JSON that is nested so deeply that a parser could run out of stack."""
    depth = 0
    for mark in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(mark.group(), 0)
        if depth > DEEPEST:
            raise UserError(f"{where}: is nested more than {DEEPEST} brackets deep")


def _mistake(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"] if not str(part).startswith("function"))
    name = f"`{field}` " if field else ""
    kind, context = first["type"], first.get("ctx", {})
    if kind == "json_invalid":
        return f"is not JSON ({context.get('error', first['msg'])})"
    if kind == "literal_error":
        return f"{name}is one of {_choices(context['expected'])}; not {_shown(first['input'])}"
    if kind in ("missing", "unexpected_keyword_argument", "extra_forbidden"):
        return f"{name}{KINDS[kind]}"
    bounds = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
    if kind in bounds:
        words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}[bounds[kind]]
        return f"{name}must be {words} {context[bounds[kind]]}; not {_shown(first['input'])}"
    return f"{name}{KINDS.get(kind, first['msg'])}; not {_shown(first['input'])}"


def _choices(expected: str) -> str:
    return ", ".join(re.findall(r"'([^']*)'", expected)) or expected


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
