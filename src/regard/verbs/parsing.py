"""tyro reads the command line of a verb into the arguments of its function. Every mistake is one line."""

import dataclasses
import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

from regard.errors import UserError
from regard.ranges import check_size
from regard.verbs.help import print_help, summary
from regard.verbs.options import Option, verb_options

FAMILY = Option(
    name="family",
    type=str | None,
    default=None,
    about="The class of the run's family, if that is neither part of regard nor installed.",
    metavar="MODULE:CLASS",
)


@dataclass(frozen=True)
class Call:
    """A verb as it was typed: the arguments of its function, and whether JSON is wanted."""

    values: dict[str, Any]
    json: bool
    given: frozenset[str]  # the names that were typed


def parse(verb: Callable[..., Any], arguments: list[str], name: str | None = None) -> Call:
    """The arguments of a verb's function from a command line."""
    name, options = name or verb.__name__, verb_options(verb)
    about, examples = summary(verb)
    runs = [option for option in options if option.metavar == "RUN"]
    if not runs:
        return parse_options(options, arguments, name, about, examples)
    first = [option for option in options if not option.group]
    call = parse_options([*first, FAMILY, *options[len(first) :]], arguments, name, about, examples)
    return _with_family(call, runs)


def _with_family(call: Call, runs: list[Option]) -> Call:
    """The call with its runs opened, if `--family` names the class of their family."""
    # imported here: the lab reads its command line, and shows its page, before torch is imported
    from regard.runs.formats import is_from_outside, load

    values = dict(call.values)
    family = values.pop("family")
    for option in runs if family is not None else []:
        path = values[option.name]
        if path is not None and (option.positional or is_from_outside(path)):
            values[option.name] = load(path, family)
    return Call(values, call.json, call.given)


def parse_options(
    options: list[Option],
    arguments: list[str],
    verb: str,
    about: str,
    examples: Sequence[str] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> Call:
    """Options by name. `elsewhere` names the verb that has an option which this verb lacks."""
    if {"--help", "-h"} & set(arguments):
        print_help(verb, about, options, [*examples])
        raise SystemExit(0)
    _refuse_unknown(options, arguments, verb, elsewhere or {})
    typed = _read_with_tyro(options, arguments, verb)
    values = {option.name: getattr(typed, option.name) for option in options}
    for option in options:
        if option.commas:
            values[option.name] = _split_at_commas(values[option.name])
    json = values.pop("json")
    for name, value in values.items():
        for number in value if isinstance(value, tuple) else (value,):
            if name != "seed":
                check_size(name, number)
    return Call(values, json, frozenset(option_fields(arguments)))


def _read_with_tyro(options: list[Option], arguments: list[str], verb: str) -> Any:
    import tyro

    fields = list[tuple[str, Any, Any]]()
    for option in options:
        kind: Any = Annotated[option.type, tyro.conf.arg(metavar=option.metavar)]
        if option.positional:
            kind = tyro.conf.Positional[kind]  # type: ignore[misc]
        required = option.default is dataclasses.MISSING
        field = dataclasses.field() if required else dataclasses.field(default=option.default)
        fields.append((option.name, kind, field))
    kind = dataclasses.make_dataclass("Options", fields, frozen=True, kw_only=True)
    config = (tyro.conf.FlagCreatePairsOff,)
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(kind, args=arguments, prog=f"regard {verb}", config=config, add_help=False)
    except SystemExit:
        raise UserError(f"{_one_line(complaint.getvalue())}; see regard {verb} --help") from None


def _split_at_commas(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.split(",") if name)


def option_fields(arguments: list[str]) -> set[str]:
    """The parameters that a command line names."""
    names = {argument.split("=")[0][2:] for argument in arguments if argument.startswith("--")}
    return {name.removeprefix("no-").replace("-", "_") for name in names}


def _refuse_unknown(
    options: list[Option], arguments: list[str], verb: str, elsewhere: Mapping[str, str]
) -> None:
    names = [*(option.flag for option in options if not option.positional), "--help", "-h"]
    for argument in arguments:
        name = argument.split("=")[0].replace("_", "-")
        if (
            not argument.startswith("--") or name == "--" or name in names
        ):  # a text may begin with a blank: ___
            continue
        if name in elsewhere:
            raise UserError(f"{name} is not an option of regard {verb}; it belongs to {elsewhere[name]}")
        near = _near(name, names)
        hint = f"did you mean {near}?" if near else f"see regard {verb} --help"
        raise UserError(f"regard {verb} has no option {name}; {hint}")


SHORT = {  # short names that other tools have
    "--lr": "--learning-rate",
    "--bs": "--batch",
    "--batch-size": "--batch",
    "--output": "--out",
    "--n": "--count",
}


def _near(name: str, names: list[str]) -> str | None:
    """The option that was probably meant: a usual short name, a beginning, or a near spelling."""
    if SHORT.get(name) in names:
        return SHORT[name]
    longer = [known for known in names if known.startswith(name)]
    return next(iter(longer or get_close_matches(name, names, n=1)), None)


def _one_line(box: str) -> str:
    """The first paragraph of tyro's box, without its frame."""
    lines = list[str]()
    for line in box.splitlines()[1:]:
        text = line.strip("│╭╮╰╯ ")
        if re.fullmatch("[─-]*", text) or text.startswith("For full helptext"):
            if lines:
                break
            continue
        lines.append(text)
    return " ".join(lines).rstrip(".") or "the options cannot be read"
