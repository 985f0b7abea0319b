"""regard lesson: run the lectures' worked examples, step by step."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from regard.errors import UserError
from regard.inside.output import check_ending, write_picture
from regard.lessons.drawing import headed, shows, stacked
from regard.lessons.lesson import (
    LESSONS,
    Lesson,
    Step,
    about,
    inputs_of,
    is_short,
    run_lesson,
    short_text,
)
from regard.lessons.lesson import parse as parse_setting
from regard.lessons.notebook import notebook as as_notebook
from regard.lessons.page import page
from regard.lessons.question import Score, put
from regard.machine.disk import write_atomically
from regard.tables import Catalogue
from regard.verbs.arguments import Out
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show, tell

Name = Annotated[str | None, Argument(str | None, positional=True, metavar="NAME")]
Settings = Annotated[dict[str, Any] | tuple[str, ...], Argument(tuple[str, ...], metavar="NAME=VALUE")]
NOTEBOOK = ".ipynb"
ENDINGS = (".svg", ".png", ".html", NOTEBOOK)
WIDTH = 96  # of a line of prose


def lesson(
    name: Name = None, *, set: Settings = (), quiz: bool = False, out: Out = None, notebook: Out = None
) -> Lesson | Catalogue:
    """Run one of the lectures' worked examples. Without a name, list them in the order of the course.

    >>> regard.lesson("attention", set={"q": (0.0, 10.0)}).value("scores")
    [0.0, 0.0, 10.0, 0.0]

    Args:
        name: The lesson.
        set: Other inputs. q=0,10 sets the numbers of q; a semicolon separates rows, / separates sentences.
        quiz: Ask the lesson's questions, each before its numbers are shown.
        out: Write the lesson as a page (.html), its pictures (.svg, .png), or a notebook (.ipynb).
        notebook: Write the lesson as a notebook (.ipynb).
    """
    if name is None:
        return Catalogue({known: about(known) for known in LESSONS})
    if out is not None:
        check_ending(Path(out), ENDINGS)
    if notebook is not None and Path(notebook).suffix != NOTEBOOK:
        raise UserError(f"{notebook}: the name of a notebook ends with {NOTEBOOK}")
    inputs = set if isinstance(set, dict) else dict(parse_setting(name, setting) for setting in set)
    shown = run_lesson(name, **inputs)
    for file in (out, notebook):
        if file is not None:
            _write(shown, Path(file))
    if quiz:
        print_quiz(shown)
    return shown


def _write(shown: Lesson, file: Path) -> None:
    if file.suffix == NOTEBOOK:
        write_atomically(file, as_notebook(shown).encode())
    elif file.suffix == ".html":
        write_atomically(file, page(shown).encode())
    else:
        drawn = [
            (f"{number}. {step.title}", step.picture.svg())
            for number, step in enumerate(shown.steps, 1)
            if step.picture is not None
        ]
        titles, pictures = zip(*drawn, strict=True)
        write_picture(stacked(pictures, titles), file)


def main(arguments: list[str]) -> None:
    call = parse(lesson, arguments)
    values = call.values
    quiz = values.pop("quiz")
    shown = lesson(**values)
    if isinstance(shown, dict):
        _print_course(shown, call.json)
        return
    if quiz:
        score = print_quiz(shown, told=tell if call.json else show)
        if call.json:
            print_json(shown.to_json() | {"quiz": {"asked": score.asked, "right": score.right}})
        return
    if call.json:
        print_json(shown.to_json())
        return
    _print(shown)
    names = ", ".join(inputs_of(shown.name))
    written = [str(file) for file in (values["out"], values["notebook"]) if file is not None]
    show(f"\nwritten: {', '.join(written)}" if written else f"\ninputs that --set changes: {names}")


def _print_course(names: Catalogue, json: bool) -> None:
    if json:
        print_json({"lessons": names})
        return
    for name, text in names.items():
        before = LESSONS[name].builds_on
        after = f" (after {', '.join(before)})" if before else ""
        show(f"{name:<16} {text}{after}")


def _print(shown: Lesson) -> None:
    show(f"{shown.name}: {shown.about}")
    if shown.builds_on:
        show(f"Builds on: {', '.join(shown.builds_on)}.")
    if any(step.question for step in shown.steps):
        show(
            f"Questions come before their numbers: regard lesson {shown.name} --quiz waits for your answers."
        )
    for number, step in enumerate(shown.steps, 1):
        _print_head(number, step)
        if step.question is not None:
            _indent(f"Before you look: {step.question}", wrap=False)
            show("")
        _print_result(step)
    show("")
    _indent(f"Exercise. {shown.exercise.task}")
    show(f"\nA solution of the exercise is in --out {shown.name}.html and --out {shown.name}.ipynb.")


def _print_head(number: int, step: Step) -> None:
    show(f"\n{number}. {step.title}")
    if step.formula:
        show(f"   {step.formula}")
    _indent(step.intro)


def _print_result(step: Step) -> None:
    """Print picture, values and their meaning. Values that the picture shows, and long ones, are left out."""
    if step.picture is not None:
        _indent(headed(step.picture), wrap=False)
    for name, value in step.values.items():
        if step.picture is None or (is_short(value) and not shows(step.picture, value)):
            _indent(f"{name}: {short_text(value)}", wrap=False)
    _indent(step.says)


def _indent(text: str, wrap: bool = True) -> None:
    lines = textwrap.wrap(text, WIDTH) if wrap else text.splitlines()
    for line in lines:
        show(f"   {line}".rstrip())


def print_quiz(shown: Lesson, told: Callable[[str], None] = show) -> Score:
    """Ask the questions of a lesson on the terminal. The numbers of a step follow its answer."""
    asked = right = 0
    quiet = told is not show
    for number, step in enumerate(shown.steps, 1):
        if not quiet:
            _print_head(number, step)
        if step.question is not None:
            answer = put(step.question, _read, told)
            if answer is None:
                break
            asked, right = asked + 1, right + answer
        if not quiet:
            _print_result(step)
    told(f"\n{right} of {asked} right.")
    return Score(asked, right)


def _read(prompt: str) -> str:
    """Read an answer. The prompt goes to stderr, so that stdout stays what the lesson says."""
    print(prompt, end="", file=sys.stderr, flush=True)
    return input()
