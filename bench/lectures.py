"""Write docs/lectures.md: every item of the five lectures, the command that shows it, and its output.

python bench/lectures.py [--check]

Each command is run. `--check` compares the output with the file, numbers within a tolerance, and changes
nothing.
"""

import argparse
import io
import json
import re
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from lecture_items import LECTURES, Item

from regard.cli import main as regard_main
from regard.lessons.lesson import short_text
from regard.lessons.shipped import path_of

WRITTEN = Path(__file__).with_name("lectures-written.md")  # the end of the page, which no command makes
DOCS = Path(__file__).parent.parent / "docs"
RELATIVE, ABSOLUTE = 0.05, 0.02  # the tolerances of numbers: processors differ in the last bits
HEAD = """# The lectures, item by item

Every model, formula, number and experiment of the five lectures, the command that shows it, and what it says.
`bench/lectures.py` runs the commands and writes this page; `.ci/full` runs them again and compares. `LESSONS`
stands for `src/regard/lessons/runs`, where the trained runs of the lessons lie; every verb opens them. How a
lesson teaches: [lessons](lessons.md). At the end: [other introductions](#beside-four-other-introductions)
and [three readers](#three-readers).
"""


@cache
def run(command: str) -> dict[str, Any]:
    """Run a command of regard with --json."""
    arguments = shlex.split(command.replace("LESSONS/", f"{path_of('x').parent}/"))
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(printed):
        code = regard_main([*arguments, "--json"])
    if code:
        sys.exit(f"regard {command}: exit {code}")
    return json.loads(printed.getvalue())


def output(one: Item) -> str:
    """Return what the command says about the item."""
    data = run(one.command)
    if "lesson" not in data:
        return _of_verb(one, data)
    values = {name: value for step in data["steps"] for name, value in step["values"].items()}
    prose = (
        " ".join(f"{step['intro']} {step['says']}" for step in data["steps"]) + " " + data["exercise"]["task"]
    )
    parts = []
    for name in one.shows:
        if name.startswith("/"):
            found = re.search(name[1:], prose)
            if found is None:
                sys.exit(f"regard {one.command} does not say {name[1:]}")
            parts.append(found[0].rstrip("."))
        else:
            parts.append(f"{name}: {short_text(_rounded(values[name]))}")
    return "; ".join(parts)


def _of_verb(one: Item, data: dict[str, Any]) -> str:
    """Return parts of another verb's answer: `moved.0.divergence` is a path into its JSON."""
    parts = []
    for path in one.shows:
        value: Any = data
        for name in path.split("."):
            value = value[int(name)] if name.isdigit() else value[name]
        parts.append(f"{path}: {short_text(_rounded(value))}")
    return "; ".join(parts)


def _rounded(value: Any) -> Any:
    """Round numbers to three digits, which are the same on every processor."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.3g}") if isinstance(value, float) else value


def page() -> str:
    lines = [HEAD]
    for lecture, items in LECTURES.items():
        lines += [f"## {lecture}\n", "| item | command | output |", "| --- | --- | --- |"]
        for one in items:
            cells = (one.says, f"`regard {one.command}`", output(one))
            lines.append(
                "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
            )
        lines.append("")
    return "\n".join([*lines, WRITTEN.read_text(encoding="utf-8")])


def differences(made: str, kept: str) -> list[str]:
    """Return the lines that differ in more than the last digits of their numbers."""
    number = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
    made_lines, kept_lines = made.splitlines(), kept.splitlines()
    if len(made_lines) != len(kept_lines):
        return [f"{len(made_lines)} lines, and the file has {len(kept_lines)}"]
    found = []
    for new, old in zip(made_lines, kept_lines, strict=True):
        pairs = list(zip(map(float, number.findall(new)), map(float, number.findall(old)), strict=False))
        near = all(abs(a - b) <= ABSOLUTE + RELATIVE * max(abs(a), abs(b)) for a, b in pairs)
        if number.sub("#", new) != number.sub("#", old) or not near:
            found.append(f"- {old}\n+ {new}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, default=DOCS / "lectures.md")
    options = parser.parse_args()
    made = page()
    if not options.check:
        options.out.write_text(made, encoding="utf-8")
        return
    if found := differences(made, options.out.read_text(encoding="utf-8")):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
