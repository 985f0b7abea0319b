"""regard lesson: the lectures' worked examples, step by step."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from regard.commands.parsing import parse
from regard.commands.printing import print_json
from regard.errors import UserError
from regard.lessons.lesson import LESSONS, about, inputs_of, lesson
from regard.lessons.lesson import parse as parse_setting
from regard.lessons.notebook import notebook


@dataclass(frozen=True, kw_only=True)
class LessonOptions:
    """Run one of the lectures' worked examples; without a name, list them."""

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME", help="The lesson.")] = None
    set: tuple[str, ...] = ()
    """Other inputs: q=0,10 sets the numbers of q; rows are parted by ; and sentences by /."""
    notebook: Path | None = None
    """Write it as a notebook instead (.ipynb)."""
    json: bool = False
    """One JSON object on standard output, every number a number."""


def main(arguments: list[str]) -> None:
    options = parse(LessonOptions, arguments, "lesson")
    if options.name is None:
        _list(options.json)
        return
    shown = lesson(options.name, **dict(parse_setting(options.name, setting) for setting in options.set))
    if options.notebook is not None:
        if options.notebook.suffix != ".ipynb":
            raise UserError(f"{options.notebook}: a notebook's name ends with .ipynb")
        options.notebook.write_text(notebook(shown), encoding="utf-8")
    if options.json:
        print_json(shown.to_json())
        return
    print(f"{shown.name}: {shown.about}")
    for number, step in enumerate(shown.steps, 1):
        print(f"\n{number}. {step.title}\n   {step.formula}")
        for text in (step.says, step.picture):
            if text:
                print("\n".join(f"   {line}" for line in text.splitlines()))
        for name, value in step.values.items():
            print(f"   {name}: {_shown(value)}")
    print(f"\nto be set: {', '.join(inputs_of(shown.name))}" if options.notebook is None else f"\n{options.notebook} holds it.")


def _list(json: bool) -> None:
    if json:
        print_json({"lessons": {name: about(name) for name in LESSONS}})
        return
    for name in LESSONS:
        print(f"{name:<16} {about(name)}")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return f"[{', '.join(_shown(part) for part in value)}]"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return str(value)
