"""regard train FAMILY: text to a run folder."""

import sys
from dataclasses import dataclass, fields
from typing import Any

from regard.commands.parsing import option_names, parse
from regard.commands.printing import print_json, print_lines
from regard.errors import UserError
from regard.models import FAMILIES, family_class
from regard.runs.training import TextOptions, train
from regard.tokens.choose import TokenOptions


@dataclass(frozen=True, kw_only=True)
class Output:
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("--help", "-h"):
        print(f"usage: regard train FAMILY [OPTIONS]\n\nFAMILY: {', '.join(FAMILIES)}\n\nregard train FAMILY --help lists the options.")
        return
    family, arguments = arguments[0], arguments[1:]
    if family.startswith("-"):
        raise UserError(f"name the family first: regard train FAMILY {family} ...; there are: {', '.join(FAMILIES)}")
    kind = _options(family)
    elsewhere = {
        name: f"regard train {other}" for other in FAMILIES if other != family for name in option_names(family_class(other).Config)
    }
    options: Any = parse(kind, arguments, f"train {family}", elsewhere)
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    as_json = values.pop("json")
    result = train(family, **values).to_json()
    if as_json:
        print_json(result)
    else:
        print_lines(result)
        print(f"\nnext: regard generate {result['out']}", file=sys.stderr)


def _options(family: str) -> type:
    """All options of a family in one dataclass: text, tokens, the model's own."""
    bases = (Output, family_class(family).Config, TokenOptions, TextOptions)
    return dataclass(frozen=True, kw_only=True)(type("Train", bases, {"__doc__": f"Train a model of the family {family}."}))
