"""regard list: what there is."""

from dataclasses import dataclass

from regard.commands.parsing import parse
from regard.commands.printing import print_json
from regard.lessons.lesson import LESSONS
from regard.models import FAMILIES, TRANSLATORS
from regard.runs.recipes import RECIPES
from regard.text.puzzles import PUZZLES


@dataclass(frozen=True, kw_only=True)
class List:
    """Families, recipes with what each reached, lessons and puzzles."""

    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(List, arguments, "list")
    found: dict[str, list[str]] = {
        "families": list(FAMILIES | TRANSLATORS),
        "recipes": list(RECIPES),
        "lessons": list(LESSONS),
        "puzzles": list(PUZZLES),
        "benchmarks": [],
    }
    if options.json:
        print_json(found)
        return
    print(f"families: {', '.join(FAMILIES | TRANSLATORS)}\n\nrecipes (regard train --recipe NAME --data FOLDER), with what each reached:")
    for name, make in RECIPES.items():
        print(f"  {name:<30} {make().figure}")
    print(f"\nlessons (regard lesson NAME): {', '.join(LESSONS)}\n\npuzzles (regard puzzle NAME): {', '.join(PUZZLES)}")
