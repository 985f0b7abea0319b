"""What a lesson is: a function of its inputs that gives steps, each with a formula, numbers and perhaps a small picture."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

LESSONS = {
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
class Lesson:
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
        """The last number of that name."""
        return next(step.values[name] for step in reversed(self.steps) if name in step.values)


def numbers(tensor: "Tensor") -> Any:
    """A tensor as numbers."""
    return tensor.detach().tolist()


def grid(values: list[list[float]], rows: list[str], columns: list[str]) -> str:
    """A small table of numbers with names."""
    width = max(7, *(len(name) + 1 for name in columns))
    side = max(map(len, rows))
    lines = [" " * side + "".join(f"{name:>{width}}" for name in columns)]
    lines += [
        f"{name:<{side}}" + "".join(f"{value:{width}.3f}" for value in row)
        for name, row in zip(rows, values, strict=True)
    ]
    return "\n".join(lines)


def shaded(values: list[list[float]], rows: list[str]) -> str:
    """A small picture of numbers: the fuller, the larger; the smallest is blank."""
    flat = [value for row in values for value in row]
    low, span = min(flat), (max(flat) - min(flat)) or 1.0
    side = max(map(len, rows))
    marks = [["".join(" ░▒▓█"[min(4, int((value - low) / span * 5))] * 2 for value in row)] for row in values]
    return "\n".join(f"{name:<{side}} {line[0]}" for name, line in zip(rows, marks, strict=True))


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
    """What can be set, and what it is otherwise."""
    return {input_name: parameter.default for input_name, parameter in inspect.signature(find(name)).parameters.items()}


def run_lesson(name: str, **inputs: Any) -> Lesson:
    """Run a lesson, with other inputs where they are given.

    >>> run_lesson("attention").value("output in base 3")
    [0.5, 0.5]
    """
    chosen = inputs_of(name)
    for input_name, value in inputs.items():
        if input_name not in chosen:
            raise UserError(f"{name} has no {input_name!r} to set; {_said(name)}")
        if _shape(value) != _shape(chosen[input_name]):
            raise UserError(f"{name}: {input_name} is written like {_example(chosen[input_name])}; {_said(name)}")
        _check(name, input_name, value)
        chosen[input_name] = value
    return Lesson(name, about(name), chosen, find(name)(**chosen))


def parse(name: str, setting: str) -> tuple[str, Any]:
    """`q=0,10` as a name and a value, in the shape that the lesson's own input has."""
    input_name, equals, text = setting.partition("=")
    defaults = inputs_of(name)
    if not equals or input_name not in defaults:
        raise UserError(f"--set {setting!r}: {_said(name)}")
    try:
        return input_name, _read(text, defaults[input_name])
    except ValueError:
        raise UserError(f"--set {setting!r}: {input_name} is written like {_example(defaults[input_name])}") from None


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
    """Words, numbers, vectors of them, and matrices, whose rows are alike; how many there may be, a lesson says itself."""
    if isinstance(value, list | tuple):
        if value and isinstance(value[0], list | tuple):
            return "matrix" if len({len(row) for row in value}) == 1 else "ragged"
        return "words" if value and isinstance(value[0], str) else "numbers"
    return "word" if isinstance(value, str) else "number"


def _check(name: str, input_name: str, value: Any) -> None:
    """What no lesson can do anything with."""
    if isinstance(value, list | tuple):
        for part in value:
            _check(name, input_name, part)
    if value in ("", ()) or (isinstance(value, str) and not value.strip()):
        raise UserError(f"{name}: {input_name} is empty; {_said(name)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name}: {input_name} must be made of finite numbers")
    if isinstance(value, int) and value < 1:
        raise UserError(f"{name}: {input_name} must be 1 or more")


def need(right: bool, message: str) -> None:
    """What a lesson asks of its inputs."""
    if not right:
        raise UserError(message)


def _example(value: Any) -> str:
    if isinstance(value, tuple):
        joint = ";" if isinstance(value[0], tuple) else "/" if isinstance(value[0], str) else ","
        return joint.join(_example(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _said(name: str) -> str:
    return (
        f"what can be set: {', '.join(f'{input_name}={_example(value)}' for one, value in inputs_of(name).items())}"
    )
