"""regard train FAMILY: text to a run folder."""

import sys
import time
from dataclasses import dataclass
from typing import Any

from regard.commands.parsing import option_fields, option_names, parse
from regard.commands.printing import print_json, print_lines
from regard.errors import UserError
from regard.models import FAMILIES, TRANSLATORS, family_class
from regard.runs.recipes import find_recipe, train_recipe
from regard.runs.training import train
from regard.training.loop import Listener, Report
from regard.training.options import option_kinds


@dataclass(frozen=True, kw_only=True)
class Output:
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("--help", "-h"):
        print(
            "usage: regard train FAMILY [OPTIONS]\n       regard train --recipe NAME [--data FOLDER] [OPTIONS]\n\n"
            f"FAMILY: {', '.join(FAMILIES | TRANSLATORS)}\n\nregard train FAMILY --help lists the options; regard list shows the recipes."
        )
        return
    recipe, data, arguments = _recipe(arguments)
    if recipe is not None:
        arguments = [find_recipe(recipe).family, *arguments]
    family, arguments = arguments[0], arguments[1:]
    if family.startswith("-"):
        raise UserError(f"name the family first: regard train FAMILY {family} ...; there are: {', '.join(FAMILIES | TRANSLATORS)}")
    kind = _options(family)
    options: Any = parse(kind, arguments, f"train {family}", _elsewhere(family))
    given = {name for name in option_fields(arguments) if name != "json"}
    values = {name: getattr(options, name) for name in given}
    listener = live_line(quiet=options.json)
    trained = train(family, listener=listener, **values) if recipe is None else train_recipe(recipe, data, listener=listener, **values)
    result = trained.to_json()
    for note in trained.run.config.get("notes", ()):
        print(note, file=sys.stderr)
    if options.json:
        print_json(result)
    else:
        print_lines(result)
        verb = "translate" if family in TRANSLATORS else "generate"
        print(f"\nnext: regard {verb} {result['out']}", file=sys.stderr)


def _recipe(arguments: list[str]) -> tuple[str | None, str, list[str]]:
    """--recipe and --data, which stand for a family, and what is left."""
    found: dict[str, str] = {}
    left = [
        part for argument in arguments for part in (argument.split("=", 1) if argument.startswith(("--recipe=", "--data=")) else [argument])
    ]
    for name in ("--recipe", "--data"):
        if name in left:
            place = left.index(name)
            if place + 1 == len(left):
                raise UserError(f"{name} needs a value; regard list shows the recipes")
            found[name] = left[place + 1]
            left = left[:place] + left[place + 2 :]
    if "--data" in found and "--recipe" not in found:
        raise UserError("--data goes with --recipe; name a family's text with --text FILE")
    if "--recipe" in found and left and not left[0].startswith("-"):
        raise UserError(f"a recipe has its own family: leave out {left[0]}")
    return found.get("--recipe"), found.get("--data", "data"), left


def _elsewhere(family: str) -> dict[str, str]:
    """Options that other families have."""
    owners: dict[str, list[str]] = {}
    for other in FAMILIES | TRANSLATORS:
        for kind in option_kinds(family_class(other)):
            for name in option_names(kind):
                owners.setdefault(name, []).append(other)
    return {name: f"regard train {', '.join(others)}" for name, others in owners.items() if family not in others}


def _options(family: str) -> type:
    """All options of a family in one dataclass: text, tokens, the model's own, training."""
    bases = (Output, *reversed(option_kinds(family_class(family))))
    return dataclass(frozen=True, kw_only=True)(type("Train", bases, {"__doc__": f"Train a model of the family {family}."}))


def live_line(quiet: bool) -> Listener:
    """One line on standard error that follows the training; where that is no terminal, a line every ten seconds."""
    last = [0.0]

    def show(report: Report) -> None:
        if quiet or (not sys.stderr.isatty() and time.monotonic() - last[0] < 10):
            return
        last[0] = time.monotonic()
        steps = f"/{report.steps}" if report.steps else ""
        valid = f"  valid {report.valid_loss:.4f}" if report.valid_loss is not None else ""
        line = (
            f"step {report.step}{steps}  loss {report.loss:.4f}{valid}  {report.tokens_per_second:,.0f} tokens/s"
            f"  {report.peak_share:.0%} of peak  {report.seconds_left:.0f} s left"
        )
        print(f"\r{line}\x1b[K" if sys.stderr.isatty() else line, end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

    return show
