"""Write a lesson as a notebook. Its cells run the lesson's code: change an input and run again."""

import json
from typing import Any

from regard.lessons.lesson import Lesson, inputs_of


def notebook(shown: Lesson) -> str:
    """Make a Jupyter notebook (format 4) of one lesson: formulas, questions, numbers, pictures, exercise."""
    inputs = f", set={_given(shown)!r}" if _given(shown) else ""
    names = ", ".join(inputs_of(shown.name))
    change = f"\n\nChange an input and run again: {names}." if names else ""
    before = f"\n\nBuilds on: {', '.join(shown.builds_on)}." if shown.builds_on else ""
    cells = [
        _text(f"# {shown.name}\n\n{shown.about}{before}{change}"),
        _code(f"import regard\n\nshown = regard.lesson({shown.name!r}{inputs})"),
    ]
    for number, step in enumerate(shown.steps):
        formula = f"\n\n$${step.latex}$$" if step.latex else f"\n\n`{step.formula}`" if step.formula else ""
        cells.append(_text(f"## {number + 1}. {step.title}{formula}\n\n{step.intro}"))
        if step.question is not None:
            choices = "".join(
                f"\n- ({letter}) {choice.text}"
                for letter, choice in zip(step.question.letters, step.question.choices, strict=True)
            )
            cells.append(_text(f"**Before you run the next cells:** {step.question.text}\n{choices}"))
            cells.append(
                _code(f'answer = ""  # your letter\nprint(shown.steps[{number}].question.check(answer))')
            )
        cells.append(_code(f"shown.steps[{number}]"))
    cells.append(_text(f"## Exercise\n\n{shown.exercise.task}"))
    cells.append(_code("# your solution\n"))
    cells.append(_text("A solution:"))
    cells.append(_code(shown.exercise.solution))
    meta = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    form = {
        "cells": [{"id": f"cell-{place}", **cell} for place, cell in enumerate(cells)],
        "metadata": meta,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(form, indent=1, ensure_ascii=False) + "\n"


def _given(shown: Lesson) -> dict[str, Any]:
    """Return the inputs that differ from the defaults."""
    defaults = inputs_of(shown.name)
    return {name: value for name, value in shown.inputs.items() if value != defaults[name]}


def _text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def _code(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": source,
    }
