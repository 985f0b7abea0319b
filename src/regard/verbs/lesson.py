"""regard lesson: run the lectures' worked examples, step by step."""

from pathlib import Path
from typing import Annotated, Any

from regard.errors import UserError
from regard.lessons.lesson import LESSONS, Lesson, about, inputs_of, run_lesson, short_text
from regard.lessons.lesson import parse as parse_setting
from regard.lessons.notebook import notebook as as_notebook
from regard.machine.disk import write_atomically
from regard.tables import Catalogue
from regard.verbs.arguments import Out
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show

Name = Annotated[str | None, Argument(str | None, positional=True, metavar="NAME")]
Settings = Annotated[dict[str, Any] | tuple[str, ...], Argument(tuple[str, ...], metavar="NAME=VALUE")]


def lesson(name: Name = None, *, set: Settings = (), notebook: Out = None) -> Lesson | Catalogue:
    """Run one of the lectures' worked examples. Without a name, list them.

    >>> regard.lesson("attention", set={"q": (0.0, 10.0)}).value("scores")
    [0.0, 0.0, 10.0, 0.0]

    Args:
        name: The lesson.
        set: Other inputs. q=0,10 sets the numbers of q; a semicolon separates rows, / separates sentences.
        notebook: Write the lesson as a notebook (.ipynb).
    """
    if name is None:
        return Catalogue({known: about(known) for known in LESSONS})
    if notebook is not None and Path(notebook).suffix != ".ipynb":
        raise UserError(f"{notebook}: the name of a notebook ends with .ipynb")
    inputs = set if isinstance(set, dict) else dict(parse_setting(name, setting) for setting in set)
    shown = run_lesson(name, **inputs)
    if notebook is not None:
        write_atomically(Path(notebook), as_notebook(shown).encode())
    return shown


def main(arguments: list[str]) -> None:
    call = parse(lesson, arguments)
    shown = lesson(**call.values)
    if isinstance(shown, dict):
        if call.json:
            print_json({"lessons": shown})
            return
        for name, text in shown.items():
            print(f"{name:<16} {text}")
        return
    if call.json:
        print_json(shown.to_json())
        return
    _print(shown)
    written = call.values["notebook"]
    names = ", ".join(inputs_of(shown.name))
    show(f"\ninputs that --set changes: {names}" if written is None else f"\nwritten: {written}")


def _print(shown: Lesson) -> None:
    print(f"{shown.name}: {shown.about}")
    for number, step in enumerate(shown.steps, 1):
        print(f"\n{number}. {step.title}\n   {step.formula}")
        for text in (step.says, step.picture):
            if text:
                show("\n".join(f"   {line}" for line in text.splitlines()))
        for name, value in step.values.items():
            show(f"   {name}: {short_text(value)}")
