"""Options from typed dataclasses, by tyro, with every mistake told in one line."""

import dataclasses
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from difflib import get_close_matches
from typing import Annotated, TypeVar

import tyro

from regard.errors import UserError

EditFile = Annotated[
    str | None, tyro.conf.arg(metavar="FILE", help="Change what the model does on the way: a JSON file of edits, or the JSON itself.")
]
T = TypeVar("T")
RunPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN", help="A run folder, an ARPA file, or a GPT-2 checkpoint.")]


def parse(kind: type[T], arguments: list[str], verb: str, elsewhere: Mapping[str, str] | None = None) -> T:
    """The options as an instance of a dataclass. `elsewhere` says who has an option that this verb lacks."""
    _known(kind, arguments, verb, elsewhere or {})
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(kind, args=arguments, prog=f"regard {verb}", config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(f"{_one_line(complaint.getvalue())}; see regard {verb} --help") from None


def option_names(kind: type) -> list[str]:
    """What the fields of a dataclass are called on the command line; a flag that is on by default is switched off by --no-NAME."""
    return [f"--{'no-' if field.default is True else ''}{field.name.replace('_', '-')}" for field in dataclasses.fields(kind)]


def names(given: Sequence[str]) -> list[str]:
    """Names with spaces or commas between."""
    return [name for one in given for name in one.split(",") if name]


def option_fields(arguments: list[str]) -> set[str]:
    """The fields that a command line names."""
    names = {argument.split("=")[0][2:] for argument in arguments if argument.startswith("--")}
    return {name.removeprefix("no-").replace("-", "_") for name in names}


def _known(kind: type, arguments: list[str], verb: str, elsewhere: Mapping[str, str]) -> None:
    names = [*option_names(kind), "--help", "-h"]
    for argument in arguments:
        name = argument.split("=")[0].replace("_", "-")
        if not name.startswith("--") or name == "--" or name in names:
            continue
        if name in elsewhere:
            raise UserError(f"{name} is not an option of regard {verb}; it belongs to {elsewhere[name]}")
        near = [known for known in names if known.startswith(name)] or get_close_matches(name, [*option_names(kind)], n=1)
        hint = f"did you mean {near[0]}?" if near else f"see regard {verb} --help"
        raise UserError(f"regard {verb} has no option {name}; {hint}")


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
