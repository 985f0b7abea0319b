"""Parses data from outside into frozen dataclasses.

Every mistake in the data is one line that names the field.

Data from outside are options (from Python or the command line), config files, plans and edits. pydantic
checks their types and ranges.
"""

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, get_args, get_type_hints, runtime_checkable

from annotated_types import BaseMetadata, GroupedMetadata
from pydantic import TypeAdapter, ValidationError

from regard.errors import UserError
from regard.machine.inputs import open_input

T = TypeVar("T")
P = ParamSpec("P")
MAX_DEPTH = 32  # nested brackets of a JSON text; files that this package writes have at most eight
MAX_BYTES = 1 << 28  # of a JSON file; the largest tokenizers have some 20 MB
# A string may lack its end, so that the search never goes back: its time is linear in the length of the text.
MARKS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
MESSAGES = {  # for pydantic's error types
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a whole number below 2 ** 63",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be True or False",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "missing": "is missing",
    "unexpected_keyword_argument": "is not known here",
    "extra_forbidden": "is not known here",
}
BOUNDS = {  # for pydantic's error types
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    _configure(kind)
    return TypeAdapter(kind)


def _configure(kind: Any) -> None:
    """Make pydantic refuse unknown keys, infinities and NaN in a dataclass and in those of its fields."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        kind.__pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # type: ignore[attr-defined]
        for hint in get_type_hints(kind).values():
            _configure(hint)
    for part in get_args(kind):
        _configure(part)


def build(kind: Callable[..., T], values: Mapping[str, Any]) -> T:
    """Make a frozen dataclass from named values. Each value is checked against the type of its field."""
    try:
        return _adapter(kind).validate_json(json.dumps(values, default=_json_value), strict=True)
    except ValidationError as error:
        raise UserError(_mistake(error)) from None


def _json_value(value: Any) -> Any:
    """Convert a value that JSON lacks: a path to a string, a number of NumPy or torch to a plain number."""
    return value.item() if isinstance(value, SupportsItem) else str(value)


@runtime_checkable
class SupportsItem(Protocol):
    def item(self) -> Any: ...


def check_ranges(verb: Callable[P, T]) -> Callable[P, T]:
    """Check the numbers of a verb's arguments against the ranges in their types, before the verb runs."""

    @cache
    def numbers() -> Any:
        hints, parameters = get_type_hints(verb, include_extras=True), inspect.signature(verb).parameters
        bounded = [
            (name, hints[name], parameters[name].default) for name in parameters if _bounded(hints[name])
        ]
        return dataclasses.make_dataclass(verb.__name__, bounded, frozen=True, kw_only=True)

    @wraps(verb)
    def checked(*arguments: P.args, **named: P.kwargs) -> T:
        given = inspect.signature(verb).bind(*arguments, **named).arguments
        names = {field.name for field in dataclasses.fields(numbers())}
        build(numbers(), {name: value for name, value in given.items() if name in names})
        return verb(*arguments, **named)

    return checked


def _bounded(hint: Any) -> bool:
    """Whether a type has a range, or one of its parts has."""
    return isinstance(hint, BaseMetadata | GroupedMetadata) or any(map(_bounded, get_args(hint)))


def read_json(path: Path, where: str) -> Any:
    """Read a JSON file as plain Python values. Its length and its nesting are checked before it is parsed."""
    text = read_bytes(path, where)
    check_depth(text, where)
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"{where}: is not JSON ({error})") from None


def read_bytes(path: Path, where: str) -> bytes:
    """Read a file of JSON, if it is not far too long."""
    with open_input(path) as file:
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise UserError(f"{where}: has more than {MAX_BYTES:,} bytes")
    return text


def parse_json(kind: Callable[..., T], text: bytes, where: str) -> T:
    """Make a frozen dataclass from JSON. An error is one line with the file, the field and the mistake."""
    check_depth(text, where)
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        raise UserError(f"{where}: {quote_fields(_mistake(error))}") from None
    except UserError as error:  # of a __post_init__
        raise UserError(f"{where}: {quote_fields(str(error))}") from None


def quote_fields(mistake: str) -> str:
    """Replace backticks in the message about a file: the command line must not spell its fields as flags."""
    return mistake.replace("`", "'")


def check_depth(text: bytes, where: str) -> None:
    """Refuse JSON with so many nested brackets that a parser could overflow its stack."""
    depth = 0
    for mark in MARKS.finditer(text):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(mark.group(), 0)
        if depth > MAX_DEPTH:
            raise UserError(f"{where}: has more than {MAX_DEPTH} nested brackets")


def _mistake(error: ValidationError) -> str:
    """One line for the first of pydantic's errors."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"] if not str(part).startswith("function"))
    name = f"`{field}` " if field else ""
    kind, context = first["type"], first.get("ctx", {})
    if kind == "json_invalid":
        return f"is not JSON ({context.get('error', first['msg'])})"
    if kind in ("missing", "unexpected_keyword_argument", "extra_forbidden"):
        return f"{name}{MESSAGES[kind]}"
    value = _shortened(first["input"])
    if kind == "literal_error":
        return f"{name}must be one of {_choices(context['expected'])}; not {value}"
    if kind in BOUNDS:
        return f"{name}{BOUNDS[kind].format(**context)}; not {value}"
    said = MESSAGES.get(kind, " ".join(first["msg"].split()))  # it may quote a value
    return f"{name}{said}; not {value}"


def _choices(expected: str) -> str:
    return ", ".join(re.findall(r"'([^']*)'", expected)) or expected


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
