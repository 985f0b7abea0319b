"""The command line of `regard train`: the options of a family in groups, and the progress line."""

import sys
import time
from typing import Any

from regard.errors import UserError
from regard.machine import streams
from regard.models import family_class, family_names
from regard.models.model import Model
from regard.training.options import families_with_option, option_classes, refuse_unused, unused_options
from regard.training.recipes import find_recipe
from regard.training.task import Listener, Report
from regard.verbs.options import JSON, Option, field_options
from regard.verbs.parsing import Call, option_fields, parse_options

MACHINE = (
    "precision",
    "compile",
    "resume",
    "tensorboard",
    "size",
    "memory",
    "engine",
)  # the group "machine" in --help
FIRST = (  # the options that are needed most, in this order
    "text",
    "source",
    "target",
    "pairs",
    "images",
    "captions",
    "labelled",
    "columns",
    "out",
    "tokens",
    "document",
    "seed",
    "encoder",
    "pool",
    "layers",
    "width",
    "order",
    "steps",
    "minutes",
    "batch",
    "segment",
    "learning_rate",
    "size",
    "resume",
)
METAVARS = dict.fromkeys(("text", "valid", "test", "labelled"), "PATH") | {
    **dict.fromkeys(("source", "target", "pairs", "valid_source", "valid_target", "vocabulary"), "FILE"),
    **dict.fromkeys(("captions", "boxes", "features", "valid_captions"), "FILE"),
    **dict.fromkeys(("out", "images"), "FOLDER"),
    "columns": "LABEL,TEXT",
    "vectors": "RUN",
    "memory": "SIZE",
    "engine": "ADDRESS",
}
USAGE = """usage: regard train FAMILY [OPTIONS]
       regard train --recipe NAME [--data FOLDER] [OPTIONS]

Train a model of a family, and keep it in a folder.

  $ regard train transformer
  $ regard train lstm --text book.txt --minutes 5 --out runs/book
  $ regard train lstm --out runs/book --resume

FAMILY: {families}

regard train FAMILY --help lists the options; regard list shows the recipes."""


def print_usage() -> None:
    import textwrap

    families = textwrap.fill(", ".join(family_names()), 70, subsequent_indent=" " * 8, break_on_hyphens=False)
    print(USAGE.format(families=families))


def parse_train(arguments: list[str]) -> Call:
    """The options that were typed, and the family or the recipe."""
    recipe, data, rest = _recipe(arguments)
    chosen: dict[str, Any] = {}
    if recipe is not None:
        family, chosen = find_recipe(recipe).family, {"recipe": recipe, "data": data}
    else:
        family, rest = rest[0], rest[1:]
        if family.startswith("-"):
            there = ", ".join(family_names())
            raise UserError(f"name the family first: regard train FAMILY {family} ...; there are: {there}")
        chosen = {"family": family}
    kind = family_class(family)
    refuse_unused(kind, sorted(option_fields(rest)))
    examples = [f"regard train {family}", f"regard train {family} --out runs/mine --seed 2"]
    about = f"Train a model of the family {family}."
    call = parse_options(
        train_options(kind), rest, f"train {family}", about, examples, _elsewhere(family, rest)
    )
    values = {name: value for name, value in call.values.items() if name in call.given}
    return Call(chosen | values, call.json, call.given)


def _recipe(arguments: list[str]) -> tuple[str | None, str, list[str]]:
    """Return (recipe, data, other arguments). --recipe and --data replace the family."""
    rest = list[str]()
    for argument in arguments:
        rest += argument.split("=", 1) if argument.startswith(("--recipe=", "--data=")) else [argument]
    values: dict[str, str] = {}
    for name in ("--recipe", "--data"):
        if name in rest:
            place = rest.index(name)
            if place + 1 == len(rest):
                raise UserError(f"{name} needs a value; regard list shows the recipes")
            values[name] = rest[place + 1]
            rest = rest[:place] + rest[place + 2 :]
    if "--data" in values and "--recipe" not in values:
        raise UserError("--data goes with --recipe; name a family's text with --text FILE")
    if "--recipe" in values and rest and not rest[0].startswith("-"):
        raise UserError(f"a recipe has its own family: leave out {rest[0]}")
    return values.get("--recipe"), values.get("--data", "data"), rest


def _elsewhere(family: str, arguments: list[str]) -> dict[str, str]:
    """Return, for each typed option that only other families have, the commands that have it."""
    names = [argument.split("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")]
    owners = {
        name: families_with_option(name.removeprefix("--").removeprefix("no-").replace("-", "_"))
        for name in names
    }
    return {
        name: f"regard train {', '.join(others)}"
        for name, others in owners.items()
        if others and family not in others
    }


def train_options(family: type[Model]) -> list[Option]:
    """All options of a family in groups: text, model, training, machine."""
    data, tokens, model, *training = option_classes(family)
    unused = unused_options(family)
    options = [option for kind in (data, tokens) for option in field_options(kind, "text", METAVARS)]
    options += field_options(model, "model", METAVARS)
    for kind in training:
        options += field_options(kind, "training", METAVARS, (*unused, *MACHINE))
        loop = field_options(kind, "machine", METAVARS)
        options += [option for option in loop if option.name in MACHINE]
    groups = ["text", "model", "training", "machine", JSON.group]
    return sorted([*options, JSON], key=lambda option: (groups.index(option.group), _rank(option.name)))


def _rank(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def live_line(quiet: bool) -> Listener:
    """Return a listener that prints progress to standard error: one live line, or a line every 10 seconds."""
    last = [0.0]

    def show(report: Report) -> None:
        terminal = sys.stderr.isatty()
        if quiet or (not terminal and time.monotonic() - last[0] < 10):
            return
        last[0] = time.monotonic()
        line = report_line(report)
        streams.tell(f"\r{line}\x1b[K" if terminal else line, end="" if terminal else "\n")

    return show


def report_line(report: Report) -> str:
    """A report of a training as one line."""
    steps = f"/{report.steps}" if report.steps else ""
    if report.doing != "training":
        return f"step {report.step}{steps}  {report.doing} ..."
    valid = f"  valid {report.valid_loss:.4f}" if report.valid_loss is not None else ""
    return (
        f"step {report.step}{steps}  loss {report.loss:.4f}{valid}  {report.tokens_per_second:,.0f} tokens/s"
        f"  {report.peak_share:.0%} of peak  {report.seconds_left:.0f} s left"
    )
