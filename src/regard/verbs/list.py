"""regard list: families, recipes with the figure that each reached, lessons, puzzles."""

from collections.abc import Sequence
from typing import Any

from regard.lessons.lesson import LESSONS
from regard.models import family_names
from regard.text.puzzles import PUZZLES
from regard.training.recipes import RECIPES
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json


def list() -> dict[str, Any]:
    """The names of all families, recipes, lessons, puzzles and benchmarks.

    >>> regard.list()["families"][0]
    'ngram'
    """
    return {
        "families": family_names(),
        "recipes": [*RECIPES],
        "lessons": [*LESSONS],
        "puzzles": [*PUZZLES],
        "benchmarks": [],
    }


def main(arguments: Sequence[str]) -> None:
    call = parse(list, [*arguments])
    if call.json:
        print_json(list())
        return
    print(
        f"families: {', '.join(family_names())}\n\nrecipes (regard train --recipe NAME --data FOLDER), with the figure that each reached:"
    )
    for name, make in RECIPES.items():
        print(f"  {name:<30} {make().figure}")
    print(
        f"\nlessons (regard lesson NAME): {', '.join(LESSONS)}\n\npuzzles (regard puzzle NAME): {', '.join(PUZZLES)}"
    )
