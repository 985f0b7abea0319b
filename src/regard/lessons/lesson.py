"""A lesson is a function of its inputs that returns steps: formula, question, numbers, picture, and prose.

All prose that depends on the inputs is computed from them.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.lessons.drawing import Picture, plain, shows
from regard.lessons.inputs import checked, defaults_of, parse_setting
from regard.lessons.question import Exercise, Question
from regard.tables import Table, TableRows, as_html, html_table

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Entry:
    """A lesson of the course: its function, and the lessons that it builds on."""

    function: str
    builds_on: tuple[str, ...] = ()


COURSE = "regard.lessons"
LESSONS = {  # in the order of the course
    "embedding": Entry("embeddings:embedding"),
    "counting": Entry("counts:counting"),
    "averaging": Entry("averages:averaging", ("counting",)),
    "window": Entry("averages:window", ("averaging",)),
    "recurrence": Entry("recurrent:recurrence", ("window",)),
    "forgetting": Entry("forgetful:forgetting", ("recurrence",)),
    "directions": Entry("directions:directions", ("recurrence",)),
    "bottleneck": Entry("translations:bottleneck", ("recurrence",)),
    "kernels": Entry("kernels:kernels", ("averaging",)),
    "attention": Entry("attention:attention", ("averaging", "bottleneck")),
    "scores": Entry("scores:scores", ("attention",)),
    "attentive": Entry("recurrent:attentive", ("recurrence", "attention")),
    "copying": Entry("copies:copying", ("attentive",)),
    "translation": Entry("translations:translation", ("bottleneck", "attention")),
    "regions": Entry("regions:regions", ("bottleneck", "attention")),
    "self-attention": Entry("self_attention:self_attention", ("attention", "scores")),
    "positions": Entry("places:positions", ("self-attention",)),
    "heads": Entry("multihead:heads", ("self-attention",)),
    "masking": Entry("masked:masking", ("self-attention",)),
    "walk": Entry("walks:walk", ("positions", "heads", "masking")),
    "backpack": Entry("sense_vectors:backpack", ("self-attention",)),
}


@dataclass(frozen=True)
class Step:
    """One step. The reader sees title, formula, introduction and question before the numbers."""

    title: str
    formula: str = ""  # as plain text
    says: str = ""  # the meaning of the numbers
    values: dict[str, Any] = field(default_factory=dict)  # numbers, and lists of them
    picture: Picture | None = None
    latex: str = ""  # the formula
    intro: str = ""  # before the numbers
    question: Question | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "formula": self.formula,
            "latex": self.latex,
            "intro": self.intro,
            "question": None if self.question is None else self.question.to_json(),
            "values": self.values,
            "picture": None if self.picture is None else self.picture.to_json(),
            "says": self.says,
        }

    def _repr_html_(self) -> str:
        """The numbers of the step for a notebook: picture, values and their meaning."""
        drawn = "" if self.picture is None else f"<div>{self.picture.svg()}</div>"
        return f"{drawn}{html_values(self)}<p>{as_html(self.says)}</p>"


@dataclass(frozen=True)
class Lesson(Table):
    """The steps of one lesson."""

    name: str
    about: str
    inputs: dict[str, Any]
    steps: list[Step]
    exercise: Exercise
    builds_on: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "lesson": self.name,
            "about": self.about,
            "builds_on": list(self.builds_on),
            "inputs": self.inputs,
            "steps": [step.to_json() for step in self.steps],
            "exercise": self.exercise.to_json(),
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
        parts = [f"<h3>{as_html(self.name)}</h3><p>{as_html(self.about)}</p>"]
        for number, step in enumerate(self.steps, 1):
            parts.append(
                f"<h4>{number}. {as_html(step.title)}</h4><p><code>{as_html(step.formula)}</code></p>"
            )
            parts.append(f"<p>{as_html(step.intro)}</p>{step._repr_html_()}")
        return "".join(parts)


def html_values(step: Step) -> str:
    """Make a table of the short values of a step that its picture does not show. JSON has all values."""
    drawn = step.picture
    new = {name: value for name, value in step.values.items() if drawn is None or not shows(drawn, value)}
    shown = {name: short_text(value) for name, value in new.items() if is_short(value)}
    return html_table([shown]) if shown else ""


def is_short(value: Any) -> bool:
    return len(short_text(value)) <= 100


def short_text(value: Any) -> str:
    """Write numbers with four digits; lists in brackets.

    >>> short_text([1 / 3, 2])
    '[0.3333, 2]'
    """
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(short_text, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{name} {short_text(part)}" for name, part in value.items())
    return str(value)


def vector(values: Any, digits: int = 3) -> str:
    """Write a vector in prose.

    >>> vector([0.5, 0.5])
    '[0.5, 0.5]'
    """
    return f"[{', '.join(plain(float(value), digits) for value in values)}]"


def numbers(tensor: "Tensor") -> Any:
    """Convert a tensor to numbers."""
    return tensor.detach().tolist()


def listed(words: list[str], joint: str = "and") -> str:
    """Write words as a list in prose.

    >>> listed(["x", "y", "z"])
    'x, y and z'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"


def find(name: str) -> Callable[..., list[Step]]:
    if name not in LESSONS:
        from difflib import get_close_matches

        near = get_close_matches(name, LESSONS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"unknown lesson {name!r}; {hint}there are: {', '.join(LESSONS)}")
    module, _, function = LESSONS[name].function.partition(":")
    return getattr(import_module(f"{COURSE}.{module}"), function)


def about(name: str) -> str:
    return inspect.getdoc(find(name)) or ""


def inputs_of(name: str) -> dict[str, Any]:
    """Return the inputs of a lesson with their defaults."""
    return defaults_of(find(name))


def parse(name: str, setting: str) -> tuple[str, Any]:
    """Read `q=0,10` as a name and a value in the shape of the lesson's own input."""
    return parse_setting(name, inputs_of(name), setting)


def run_lesson(name: str, **inputs: Any) -> Lesson:
    """Run a lesson. Inputs that are given replace the defaults.

    >>> run_lesson("averaging").value("average")
    [0.75, 0.25]
    """
    from regard.lessons.exercises import EXERCISES

    chosen = checked(name, inputs_of(name), inputs)
    steps = find(name)(**chosen)
    return Lesson(name, about(name), chosen, steps, EXERCISES[name], LESSONS[name].builds_on)
