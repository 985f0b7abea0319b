"""regard puzzle: who can solve what, at which length, and whether attention goes where it must."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from regard.commands.parsing import names, parse
from regard.commands.printing import print_json
from regard.inside.charts import accuracies
from regard.inside.output import PICTURES, check_ending, write_chart
from regard.runs.puzzling import Solved, answers, puzzle
from regard.text.puzzles import PUZZLES


@dataclass(frozen=True, kw_only=True)
class PuzzleOptions:
    """Train families on small questions whose right attention is known, and test them at larger ones; without a name, list them."""

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME", help="The puzzle.")] = None
    families: tuple[str, ...] = ()
    """Which, with spaces or commas between; without it, all that can."""
    steps: int = 400
    """Steps of training."""
    seeds: int = 1
    """Trainings of each family; questions of all are counted together."""
    tests: tuple[int, ...] = ()
    """Lengths or loads to be tested at; without it, the puzzle's own."""
    ask: str | None = None
    """One question of your own instead (AABA?, a3b7?b, abc=): what each family answers."""
    out: Path | None = None
    """Draw accuracy against length: .svg or .png."""
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(PuzzleOptions, arguments, "puzzle")
    if options.name is None:
        (print_json if options.json else _list)({name: one.about for name, one in PUZZLES.items()})
        return
    if options.out is not None:
        check_ending(options.out, PICTURES)
    if options.ask is not None:
        _ask(options, options.name, options.ask)
        return
    quiet = options.json
    found = puzzle(
        options.name,
        names(options.families),
        steps=options.steps,
        seeds=options.seeds,
        tests=options.tests,
        finished=lambda rows: None if quiet else _print(rows),
    )
    if options.out is not None:
        write_chart(accuracies([asdict(row) for row in found], PUZZLES[options.name].measure), options.out)
        print(f"{options.out} shows it.", file=sys.stderr)
    if options.json:
        print_json({"puzzle": options.name, "results": [asdict(row) for row in found]})


def _ask(options: PuzzleOptions, name: str, question: str) -> None:
    found = answers(name, question, names(options.families), steps=options.steps)
    if options.json:
        print_json(
            {"puzzle": name, "question": question, "answers": {family: {"answer": a, "probability": p} for family, (a, p) in found.items()}}
        )
        return
    for family, (answer, probability) in found.items():
        print(f"{family:<12} {answer}  {probability:.3f}")


def _list(abouts: dict[str, str]) -> None:
    for name, about in abouts.items():
        print(f"{name:<8} {about}")


def _print(rows: list[Solved]) -> None:
    """A line a family: the share of right answers at each length, and in brackets the weight on the right place."""
    cells = [
        f"{row.length}: {row.accuracy:.2f} [{row.low:.2f}-{row.high:.2f}]"
        + ("" if row.right_weight is None else f" ({row.right_weight:.2f})")
        for row in rows
    ]
    print(f"{rows[0].family:<12} " + "   ".join(cells), flush=True)
