"""regard list: families, recipes with the figure of each, lessons, puzzles, benchmarks."""

from collections.abc import Sequence
from typing import Any, final

from regard.benchmarks import NAMES
from regard.lessons.lesson import LESSONS
from regard.models import FAMILIES, KINDS, family_names
from regard.tables import Table, TableRows
from regard.text.puzzles import PUZZLES
from regard.training.recipes import RECIPES
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json


@final
class Names(dict[str, Any], Table):
    """The names of all families, recipes, lessons, puzzles and benchmarks."""

    def rows(self) -> TableRows:
        """A row for each name, with its kind."""
        return [{"kind": kind, "name": name} for kind, names in self.items() for name in names]


def list() -> Names:
    """List the names of all families, recipes, lessons, puzzles and benchmarks.

    >>> regard.list()["families"][0]
    'ngram'
    """
    return Names(
        families=family_names(),
        recipes=[*RECIPES],
        lessons=[*LESSONS],
        puzzles=[*PUZZLES],
        benchmarks=[*NAMES],
    )


def main(arguments: Sequence[str]) -> None:
    call = parse(list, [*arguments])
    if call.json:
        print_json(list())
        return
    installed = [name for name in family_names() if name not in FAMILIES]
    for kind, names in {**KINDS, "families of installed packages": installed}.items():
        if names:
            print(f"{kind}: {', '.join(names)}")
    print()
    print("recipes (regard train --recipe NAME --data FOLDER), each with its figure:")
    for name, make in RECIPES.items():
        print(f"  {name:<30} {make().figure}")
    print(f"\nlessons (regard lesson NAME): {', '.join(LESSONS)}")
    print(f"\npuzzles (regard puzzle NAME): {', '.join(PUZZLES)}")
    print(f"\nbenchmarks (regard bench NAME): {', '.join(NAMES)}")
