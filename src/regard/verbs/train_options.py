"""The command line of `regard train`: options by family, grouped, and the line that follows a training."""

import ast
import dataclasses
import inspect
import itertools
import sys
import textwrap
import time
from typing import Annotated, Any

from regard.errors import UserError
from regard.models import FAMILIES, family_class
from regard.models.contract import LanguageModel
from regard.training.options import families_with_option, option_classes, refuse_unused, unused_options
from regard.training.recipes import find_recipe
from regard.training.task import Listener, Report
from regard.verbs.parsing import Call, option_fields, parse_dataclass

MACHINE = (
    "precision",
    "compile",
    "resume",
    "tensorboard",
    "size",
)  # options of the loop that are shown in a group of their own
FIRST = (
    "steps",
    "minutes",
    "batch",
    "segment",
    "learning_rate",
    "text",
    "tokens",
    "source",
    "target",
    "pairs",
    "out",
)  # the common ones


def print_usage() -> None:
    print(
        "usage: regard train FAMILY [OPTIONS]\n       regard train --recipe NAME [--data FOLDER] [OPTIONS]\n\n"
        f"FAMILY: {', '.join(FAMILIES)}\n\nregard train FAMILY --help lists the options; regard list shows the recipes."
    )


def parse_train(arguments: list[str]) -> Call:
    """The options that were typed, and the family or the recipe."""
    recipe, data, rest = _recipe(arguments)
    chosen: dict[str, Any] = {}
    if recipe is not None:
        family, chosen = find_recipe(recipe).family, {"recipe": recipe, "data": data}
    else:
        family, rest = rest[0], rest[1:]
        if family.startswith("-"):
            there = ", ".join(FAMILIES)
            raise UserError(f"name the family first: regard train FAMILY {family} ...; there are: {there}")
        chosen = {"family": family}
    refuse_unused(family_class(family), sorted(option_fields(rest)))
    kind = _options(family_class(family))
    options = parse_dataclass(kind, rest, f"train {family}", _elsewhere(family, rest))
    given = option_fields(rest) - {"json"}
    groups = [getattr(options, field.name) for field in dataclasses.fields(kind) if field.name != "json"]
    values = {name: getattr(group, name) for group in groups for name in given if name in _names(group)}
    return Call(chosen | values, options.json, frozenset(given))


def _names(group: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(group)}


def _recipe(arguments: list[str]) -> tuple[str | None, str, list[str]]:
    """(recipe, data, rest): --recipe and --data stand for a family."""
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
    """Options that were typed and that other families have."""
    names = [argument.split("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")]
    found = {
        name: families_with_option(name.removeprefix("--").removeprefix("no-").replace("-", "_"))
        for name in names
    }
    return {
        name: f"regard train {', '.join(others)}"
        for name, others in found.items()
        if others and family not in others
    }


def _options(family: type[LanguageModel]) -> type:
    """All options of a family in groups: text, model, training, machine."""
    import tyro

    data, tokens, model, *training = option_classes(family)
    unused = unused_options(family)
    groups = {"text": _fields(data) + _fields(tokens), "model": _fields(model)}
    for kind in training:
        loop = [field for field in _fields(kind) if field.name not in unused]
        groups["training"] = [field for field in loop if field.name not in MACHINE]
        groups["machine"] = [field for field in loop if field.name in MACHINE]
    helps = _helps(data, tokens, model, *training)
    fields = list[tuple[str, Any, Any]]()
    for name, options in groups.items():
        group = _group(name, options, helps)
        fields.append(
            (
                name,
                group,
                dataclasses.field(default_factory=group),
            )
        )
    help_json = tyro.conf.arg(help="Write one JSON object to standard output, and nothing else.")
    fields.append(("json", Annotated[bool, help_json], dataclasses.field(default=False)))
    about = {"__doc__": f"Train a model of the family {family.family}."}
    return dataclasses.make_dataclass("Train", fields, frozen=True, kw_only=True, namespace=about)


def _fields(kind: type) -> list[Any]:
    return sorted(
        dataclasses.fields(kind),
        key=lambda field: FIRST.index(field.name) if field.name in FIRST else len(FIRST),
    )


def _group(name: str, options: list[Any], helps: dict[str, str]) -> type:
    import tyro

    fields = list[tuple[str, Any, Any]]()
    for option in options:
        text = helps.get(option.name, "")
        if option.default is True:
            text = f"Switch this off: {text[:1].lower()}{text[1:]}"
        fields.append(
            (
                option.name,
                Annotated[option.type, tyro.conf.arg(help=text)],
                dataclasses.field(default=option.default),
            )
        )
    return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True, namespace={"__doc__": ""})


def _helps(*kinds: type) -> dict[str, str]:
    """The help of every field: the string under it in the source."""
    helps: dict[str, str] = {}
    for kind in kinds:
        for base in reversed(kind.__mro__):
            helps |= _strings_under_fields(base)
    return helps


def _strings_under_fields(kind: type) -> dict[str, str]:
    if kind.__module__ == "builtins" or not dataclasses.is_dataclass(kind):
        return {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):  # made at run time, with other defaults: its base class has the source
        return {}
    assert isinstance(tree, ast.ClassDef)
    helps = {}
    for field, text in itertools.pairwise(tree.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(about))):
                helps[name] = " ".join(about.split())
    return helps


def live_line(quiet: bool) -> Listener:
    """One line on standard error that follows the training; if that is no terminal, a line every ten seconds."""
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
        line = line if report.doing == "training" else f"step {report.step}{steps}  {report.doing} ..."
        terminal = sys.stderr.isatty()
        print(
            f"\r{line}\x1b[K" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True
        )

    return show
