"""regard list: what there is."""

from dataclasses import dataclass

from regard.commands.parsing import parse
from regard.commands.printing import print_json
from regard.models import FAMILIES


@dataclass(frozen=True, kw_only=True)
class List:
    """Families, recipes, lessons, puzzles and benchmarks."""

    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(List, arguments, "list")
    found: dict[str, list[str]] = {"families": list(FAMILIES), "recipes": [], "lessons": [], "puzzles": [], "benchmarks": []}
    if options.json:
        print_json(found)
        return
    for kind, names in found.items():
        if names:
            print(f"{kind}: {', '.join(names)}")
