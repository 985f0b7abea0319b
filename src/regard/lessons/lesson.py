"""A lesson is a function of its inputs that returns steps: formulas, numbers and small pictures."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.tables import Table, TableRows, html_table

if TYPE_CHECKING:
    from torch import Tensor

LESSONS = {
    "embedding": "regard.lessons.embeddings:embedding",
    "counting": "regard.lessons.counts:counting",
    "averaging": "regard.lessons.recurrent:averaging",
    "recurrence": "regard.lessons.recurrent:recurrence",
    "attention": "regard.lessons.attention:attention",
    "attentive": "regard.lessons.recurrent:attentive",
    "scores": "regard.lessons.attention:scores",
    "self-attention": "regard.lessons.attention:self_attention",
    "masking": "regard.lessons.attention:masking",
    "positions": "regard.lessons.attention:positions",
    "copying": "regard.lessons.copies_and_senses:copying",
    "backpack": "regard.lessons.copies_and_senses:backpack",
    "translation": "regard.lessons.copies_and_senses:translation",
}


@dataclass(frozen=True)
class Step:
    title: str
    formula: str = ""
    says: str = ""
    values: dict[str, Any] = field(default_factory=dict)  # numbers, and lists of them
    picture: str = ""


@dataclass(frozen=True)
class Lesson(Table):
    """The steps of one worked example."""

    name: str
    about: str
    inputs: dict[str, Any]
    steps: list[Step]

    def to_json(self) -> dict[str, Any]:
        return {
            "lesson": self.name,
            "about": self.about,
            "inputs": self.inputs,
            "steps": [
                {"title": step.title, "formula": step.formula, "says": step.says, "values": step.values}
                for step in self.steps
            ],
        }

    def value(self, name: str) -> Any:
        """Return the value of a name in the last step that has it."""
        return next(step.values[name] for step in reversed(self.steps) if name in step.values)

    def rows(self) -> TableRows:
        """A row for each named value, with its step and formula."""
        return [
            {"step": step.title, "formula": step.formula, "name": name, "value": value}
            for step in self.steps
            for name, value in step.values.items()
        ]

    def _repr_html_(self) -> str:
        parts = [f"<h3>{escape(self.name)}</h3><p>{escape(self.about)}</p>"]
        for number, step in enumerate(self.steps, 1):
            parts.append(f"<h4>{number}. {escape(step.title)}</h4><p><code>{escape(step.formula)}</code></p>")
            parts.append(f"<p>{escape(step.says)}</p>")
            parts.append(f"<pre>{escape(step.picture)}</pre>" if step.picture else html_values(step.values))
        return "".join(parts)


def html_values(values: dict[str, Any]) -> str:
    """Make a table of the values of a step for a notebook."""
    return html_table([{name: short_text(value) for name, value in values.items()}])


def short_text(value: Any) -> str:
    """Write numbers with four digits; lists in brackets.

    >>> short_text([1 / 3, 2])
    '[0.3333, 2]'
    """
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return f"[{', '.join(map(short_text, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{name} {short_text(part)}" for name, part in value.items())
    return str(value)


def numbers(tensor: "Tensor") -> Any:
    """Convert a tensor to numbers."""
    return tensor.detach().tolist()


def grid(values: list[list[float]], rows: list[str], columns: list[str]) -> str:
    """Make a small table of numbers with names."""
    width = max(7, *(len(name) + 1 for name in columns))
    side = max(map(len, rows))
    lines = [" " * side + "".join(f"{name:>{width}}" for name in columns)]
    lines += [
        f"{name:<{side}}" + "".join(f"{value:{width}.3f}" for value in row)
        for name, row in zip(rows, values, strict=True)
    ]
    return "\n".join(lines)


def shaded(values: list[list[float]], rows: list[str]) -> str:
    """Make a small picture of numbers. Darker marks are larger; the smallest number is blank."""
    flat = [value for row in values for value in row]
    low, span = min(flat), (max(flat) - min(flat)) or 1.0
    side = max(map(len, rows))
    marks = ["".join(" ░▒▓█"[min(4, int((value - low) / span * 5))] * 2 for value in row) for row in values]
    return "\n".join(f"{name:<{side}} {line}" for name, line in zip(rows, marks, strict=True))


def find(name: str) -> Callable[..., list[Step]]:
    if name not in LESSONS:
        from difflib import get_close_matches

        near = get_close_matches(name, LESSONS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"unknown lesson {name!r}; {hint}there are: {', '.join(LESSONS)}")
    module, _, function = LESSONS[name].partition(":")
    return getattr(import_module(module), function)


def about(name: str) -> str:
    return inspect.getdoc(find(name)) or ""


def inputs_of(name: str) -> dict[str, Any]:
    """Return the inputs of a lesson with their defaults."""
    parameters = inspect.signature(find(name)).parameters
    return {input_name: parameter.default for input_name, parameter in parameters.items()}


def run_lesson(name: str, **inputs: Any) -> Lesson:
    """Run a lesson. Inputs that are given replace the defaults.

    >>> run_lesson("averaging").value("average")
    [0.75, 0.25]
    """
    chosen = inputs_of(name)
    for input_name, value in inputs.items():
        if input_name not in chosen:
            raise UserError(f"{name} has no {input_name!r} to set; {_inputs(name)}")
        if _shape(value) != _shape(chosen[input_name]):
            example = _example(chosen[input_name])
            raise UserError(f"{name}: {input_name} is written like {example}; {_inputs(name)}")
        _check(name, input_name, value)
        chosen[input_name] = value
    return Lesson(name, about(name), chosen, find(name)(**chosen))


def parse(name: str, setting: str) -> tuple[str, Any]:
    """Read `q=0,10` as a name and a value in the shape of the lesson's own input."""
    input_name, equals, text = setting.partition("=")
    defaults = inputs_of(name)
    if not equals or input_name not in defaults:
        raise UserError(f"`set` {setting!r}: {_inputs(name)}")
    try:
        return input_name, _read(text, defaults[input_name])
    except ValueError:
        example = _example(defaults[input_name])
        raise UserError(f"`set` {setting!r}: {input_name} is written like {example}") from None


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


def _check(name: str, input_name: str, value: Any) -> None:
    """Refuse empty texts, numbers that are not finite, and counts below 1."""
    if isinstance(value, list | tuple):
        for part in value:
            _check(name, input_name, part)
    if value in ("", ()) or (isinstance(value, str) and not value.strip()):
        raise UserError(f"{name}: {input_name} is empty; {_inputs(name)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name}: {input_name} must be made of finite numbers")
    if isinstance(value, int) and value < 1:
        raise UserError(f"{name}: {input_name} must be 1 or more")


def need(right: bool, message: str) -> None:
    """Raise an error with this message if a condition of a lesson's inputs is not met."""
    if not right:
        raise UserError(message)


def _example(value: Any) -> str:
    if isinstance(value, tuple):
        joint = ";" if isinstance(value[0], tuple) else "/" if isinstance(value[0], str) else ","
        return joint.join(_example(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _inputs(name: str) -> str:
    settings = (f"{input_name}={_example(value)}" for input_name, value in inputs_of(name).items())
    return f"its inputs are: {', '.join(settings)}"
