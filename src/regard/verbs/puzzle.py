"""regard puzzle: accuracy of families on puzzles at several lengths, and the weight on the right place."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from regard.boundary import check_ranges
from regard.errors import UserError
from regard.inside.charts import accuracies
from regard.inside.output import PICTURES, check_ending, write_chart
from regard.ranges import Count, Rows
from regard.tables import Catalogue, Table, TableRows
from regard.text.puzzles import PUZZLES, Puzzle
from regard.training.tasks.questions import (
    PuzzleResult,
    answer,
    check_length,
    measure_on_puzzle,
    puzzle_families,
    train_on_puzzle,
)
from regard.verbs.arguments import Names, Out
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show, tell

Name = Annotated[str | None, Argument(str | None, positional=True, metavar="NAME")]
Lengths = Annotated[Sequence[Count] | None, Argument(tuple[int, ...] | None, metavar="N")]
RIGHT = 0.95  # the share of right answers from which a family is said to be right
Finished = Callable[[list[PuzzleResult]], None]


@dataclass(frozen=True)
class Results(Table):
    """The accuracy of each family at each length."""

    puzzle: str
    results: list[PuzzleResult]
    steps: int

    def to_json(self) -> dict[str, Any]:
        return {"puzzle": self.puzzle, "results": self.rows(), "says": self.says()}

    def says(self) -> str:
        """Say which families still answer the longest questions, and how they answer the shortest."""
        measure = PUZZLES[self.puzzle].measure
        longest, shortest = (pick(row.length for row in self.results) for pick in (max, min))
        far = {row.family: row for row in self.results if row.length == longest}
        near = {row.family: row for row in self.results if row.length == shortest}
        right = [family for family, row in far.items() if row.accuracy >= RIGHT]
        wrong = [
            f"{family} falls from {near[family].accuracy:.2f} ({measure} {shortest}) to {row.accuracy:.2f}"
            if near[family].accuracy > row.high
            else f"{family} has {row.accuracy:.2f}"
            for family, row in far.items()
            if row.accuracy < RIGHT
        ]
        named = " and ".join(filter(None, [", ".join(right[:-1]), *right[-1:]])) or "no family"
        still = f"{named} {'are' if len(right) > 1 else 'is'} still right at least {RIGHT:.0%} of the time"
        return f"After {self.steps:,} steps, at {measure} {longest:,}: {'; '.join([still, *wrong])}."

    def rows(self) -> TableRows:
        """A row for each family and length."""
        return [asdict(result) for result in self.results]


@dataclass(frozen=True)
class Answers(Table):
    """The answer of each family to one question, and its probability."""

    puzzle: str
    question: str
    answers: dict[str, tuple[str, float]]

    def to_json(self) -> dict[str, Any]:
        answers = {
            family: {"answer": answer, "probability": p} for family, (answer, p) in self.answers.items()
        }
        return {"puzzle": self.puzzle, "question": self.question, "answers": answers}

    def rows(self) -> TableRows:
        """A row for each family: its answer and the probability of the answer."""
        return [
            {"family": family, "answer": answer, "probability": p}
            for family, (answer, p) in self.answers.items()
        ]


@check_ranges
def puzzle(
    name: Name = None,
    *,
    families: Names = (),
    steps: Count = 400,
    seeds: Rows = 1,
    tests: Lengths = None,
    ask: str | None = None,
    out: Out = None,
    listener: Finished = lambda rows: None,
) -> Results | Answers | Catalogue:
    """Train families on short questions whose right attention is known, and test them on longer questions.

    Without a name, list the puzzles.

    >>> regard.puzzle("ab", families=["dan", "transformer"], steps=50)  # doctest: +SKIP
    >>> sorted(regard.puzzle())[0]
    'ab'

    Args:
        name: The puzzle.
        families: Families, with spaces or commas between. Without them, all that can be trained on puzzles.
        steps: The number of training steps.
        seeds: The number of trainings of each family. Their answers are counted together.
        tests: Lengths (or loads) of the test questions. Without them, those of the puzzle.
        ask: One question of your own instead (AABA?, a3b7?b, abc=), which each family answers.
        out: Draw accuracy against length (.svg or .png).
        listener: A function that is called with the results of each family.
    """
    if name is None:
        return Catalogue({known: each.about for known, each in PUZZLES.items()})
    names = [families] if isinstance(families, str) else list(families)
    chosen = _checked(name, names)
    names = names or puzzle_families()
    if out is not None:
        check_ending(Path(out), PICTURES)
    if ask is not None:
        chosen.ids(ask)  # refuses an impossible question before any training
        trained = {family: train_on_puzzle(chosen, family, steps, 1) for family in names}
        return Answers(name, ask, {family: answer(chosen, model, ask) for family, model in trained.items()})
    lengths, every = tests or chosen.test_lengths, list[PuzzleResult]()
    for family in names:
        for length in lengths:
            check_length(chosen, family, length)
    for family in names:
        models = [train_on_puzzle(chosen, family, steps, seed) for seed in range(1, seeds + 1)]
        rows = [measure_on_puzzle(chosen, family, models, length) for length in lengths]
        listener(rows)
        every += rows
    if out is not None:
        write_chart(accuracies([asdict(row) for row in every], chosen.measure), Path(out))
    return Results(name, every, steps)


def _checked(name: str, families: list[str]) -> Puzzle:
    if name not in PUZZLES:
        raise UserError(f"unknown puzzle {name!r}; there are: {', '.join(PUZZLES)}")
    for family in families:
        if family not in puzzle_families():
            raise UserError(f"{family} does not solve puzzles; those that do: {', '.join(puzzle_families())}")
    return PUZZLES[name]


def main(arguments: list[str]) -> None:
    call = parse(puzzle, arguments)
    result = puzzle(**call.values, listener=(lambda rows: None) if call.json else _print)
    if isinstance(result, dict):
        if call.json:
            print_json(result)
            return
        for name, about in result.items():
            print(f"{name:<8} {about}")
        return
    if call.values["out"] is not None and isinstance(result, Results):
        tell(f"{call.values['out']} shows it.")
    if call.json:
        print_json(result.to_json())
    elif isinstance(result, Results):
        print(f"\n{result.says()}")
    else:
        for family, (reply, probability) in result.answers.items():
            show(f"{family:<12} {reply}  {probability:.3f}")


def _print(rows: list[PuzzleResult]) -> None:
    """Print a line for each family: its accuracy at each length, with the weight on the right place."""
    cells = []
    for row in rows:
        weight = "" if row.right_weight is None else f" ({row.right_weight:.2f})"
        cells.append(f"{row.length}: {row.accuracy:.2f} [{row.low:.2f}-{row.high:.2f}]{weight}")
    print(f"{rows[0].family:<12} " + "   ".join(cells), flush=True)
