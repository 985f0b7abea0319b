"""The inputs of a lesson: read from `--set NAME=VALUE`, and checked."""

import inspect
import math
from collections.abc import Callable
from typing import Any

from regard.errors import UserError

Defaults = dict[str, Any]


def defaults_of(lesson: Callable[..., Any]) -> Defaults:
    """Return the inputs of a lesson with their defaults."""
    parameters = inspect.signature(lesson).parameters
    return {input_name: parameter.default for input_name, parameter in parameters.items()}


def parse_setting(name: str, defaults: Defaults, setting: str) -> tuple[str, Any]:
    """Read `q=0,10` as a name and a value in the shape of the lesson's own input."""
    input_name, equals, text = setting.partition("=")
    if not equals or input_name not in defaults:
        raise UserError(f"`set` {setting!r}: {told(defaults)}")
    try:
        return input_name, _read(text, defaults[input_name])
    except ValueError:
        raise UserError(
            f"`set` {setting!r}: {input_name} is written like {example(defaults[input_name])}"
        ) from None


def checked(name: str, defaults: Defaults, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of a lesson, replaced by the given inputs."""
    chosen = dict(defaults)
    for input_name, value in inputs.items():
        if input_name not in chosen:
            raise UserError(f"{name} has no {input_name!r} to set; {told(defaults)}")
        if _shape(value) != _shape(chosen[input_name]):
            written = example(chosen[input_name])
            raise UserError(f"{name}: {input_name} is written like {written}; {told(defaults)}")
        _check(name, defaults, input_name, value)
        chosen[input_name] = value
    return chosen


def _read(text: str, like: Any) -> Any:
    if isinstance(like, str):
        return text
    if isinstance(like, int | float):
        return type(like)(text)
    if isinstance(like[0], tuple):
        return tuple(_read(row, like[0]) for row in text.split(";"))
    if isinstance(like[0], str):
        return tuple(part.strip() for part in text.split("/"))
    return tuple(float(part) for part in text.split(","))


def _shape(value: Any) -> Any:
    """Return the shape of an input: word, words, number, numbers, matrix or ragged."""
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], list | tuple):
            return "matrix" if len({len(row) for row in value}) == 1 else "ragged"
        return "words" if value and isinstance(value[0], str) else "numbers"
    return "word" if isinstance(value, str) else "number"


def _check(name: str, defaults: Defaults, input_name: str, value: Any) -> None:
    """Refuse empty texts, numbers that are not finite, and counts below 1."""
    if isinstance(value, list | tuple):
        for part in value:
            _check(name, defaults, input_name, part)
    if value in ("", ()) or (isinstance(value, str) and not value.strip()):
        raise UserError(f"{name}: {input_name} is empty; {told(defaults)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name}: {input_name} must be made of finite numbers")
    if isinstance(value, int) and value < 1:
        raise UserError(f"{name}: {input_name} must be 1 or more")


def need(right: bool, message: str) -> None:
    """Raise an error with this message if a condition of a lesson's inputs is not met."""
    if not right:
        raise UserError(message)


def example(value: Any) -> str:
    if isinstance(value, tuple):
        joint = ";" if isinstance(value[0], tuple) else "/" if isinstance(value[0], str) else ","
        return joint.join(example(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def told(defaults: Defaults) -> str:
    settings = (f"{input_name}={example(value)}" for input_name, value in defaults.items())
    return f"its inputs are: {', '.join(settings)}"
