"""Write a lesson as a notebook. Its cells run the lesson's code: change an input and run again."""

import json
from typing import Any

from regard.lessons.lesson import Lesson, inputs_of


def notebook(shown: Lesson) -> str:
    """Make a Jupyter notebook (format 4) of one lesson."""
    inputs = f", set={shown.inputs!r}" if shown.inputs else ""
    names = ", ".join(inputs_of(shown.name))
    cells = [
        _text(f"# {shown.name}\n\n{shown.about}\n\nChange an input and run again: {names}."),
        _code(f"import regard\n\nshown = regard.lesson({shown.name!r}{inputs})"),
    ]
    for number, step in enumerate(shown.steps):
        cells.append(_text(f"## {step.title}\n\n`{step.formula}`\n\n{step.says}"))
        cells.append(_code(f"step = shown.steps[{number}]\nprint(step.picture)\nstep.values"))
    meta = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return (
        json.dumps(
            {"cells": cells, "metadata": meta, "nbformat": 4, "nbformat_minor": 5},
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
    )


def _text(source: str) -> dict[str, Any]:
    return {
        "cell_type": "markdown",
        "id": f"t{abs(hash_of(source)):x}"[:12],
        "metadata": {},
        "source": source,
    }


def _code(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": f"c{abs(hash_of(source)):x}"[:12],
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": source,
    }


def hash_of(text: str) -> int:
    """Hash a text. The hash is the same in every process."""
    import zlib

    return zlib.crc32(text.encode())
