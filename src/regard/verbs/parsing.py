"""Command-line options from the signature of a verb. tyro reads them; every mistake is told in one line.

The help of an option is its line under "Args:" in the verb's docstring.
"""

import dataclasses
import inspect
import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from regard.errors import UserError
from regard.parts.edits import Edit
from regard.runs.run import Run


@dataclass(frozen=True)
class Argument:
    """How a parameter is read from the command line, if that differs from its type in Python. In an Annotated type."""

    type: Any
    positional: bool = False
    metavar: str | None = None


RunLike = Annotated[Run | str | Path, Argument(str, positional=True, metavar="RUN")]
OtherRun = Annotated[Run | str | Path | None, Argument(str | None, metavar="RUN")]
Files = Annotated[str | Path | Sequence[str | Path], Argument(tuple[str, ...], metavar="PATH")]
File = Annotated[str | Path | None, Argument(str | None, metavar="FILE")]
Out = Annotated[str | Path | None, Argument(Path | None, metavar="FILE")]
Names = Annotated[str | Sequence[str], Argument(tuple[str, ...], metavar="NAME")]
Edits = Annotated[Sequence[Edit] | str | Path | None, Argument(str | None, metavar="FILE")]
Numbers = Annotated[Sequence[int] | None, Argument(tuple[int, ...] | None, metavar="N")]
PYTHON_ONLY = ("listener", "finished")  # parameters that the command line does not have


@dataclass(frozen=True)
class Call:
    """A verb as it was typed: the arguments of its function, and whether JSON is wanted."""

    values: dict[str, Any]
    json: bool
    given: frozenset[str]  # the names that were typed


def parse(verb: Callable[..., Any], arguments: list[str], name: str | None = None) -> Call:
    """The arguments of a verb's function from a command line."""
    name = name or verb.__name__
    kind = _dataclass_of(verb)
    options = parse_dataclass(kind, arguments, name)
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(kind)}
    values = {
        parameter: _names(value) if _splits(verb, parameter) else value for parameter, value in values.items()
    }
    json = values.pop("json")
    return Call(values, json, frozenset(option_fields(arguments)))


def _dataclass_of(verb: Callable[..., Any]) -> type:
    """A dataclass with a field for each parameter of the verb, and `json`."""
    import tyro

    helps, hints = argument_helps(verb), get_type_hints(verb, include_extras=True)
    fields = list[tuple[str, Any, Any]]()
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name in PYTHON_ONLY or parameter.kind is parameter.VAR_KEYWORD:
            continue
        kind, marker = _command_line_type(hints[parameter.name])
        text = helps.get(parameter.name, "")
        told = _switch_off(text) if parameter.default is True else text
        kind = Annotated[kind, tyro.conf.arg(help=told, metavar=None if marker is None else marker.metavar)]
        if marker is not None and marker.positional:
            kind = tyro.conf.Positional[kind]  # type: ignore[misc, valid-type]
        default = dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
        field = dataclasses.field() if default is dataclasses.MISSING else dataclasses.field(default=default)
        fields.append((parameter.name, kind, field))
    help_json = tyro.conf.arg(help="Write one JSON object to standard output, and nothing else.")
    fields.append(("json", Annotated[bool, help_json], dataclasses.field(default=False)))
    summary = (inspect.getdoc(verb) or "").split("\n\n")[0]
    return dataclasses.make_dataclass(
        "Options", fields, frozen=True, kw_only=True, namespace={"__doc__": summary}
    )


def _command_line_type(hint: Any) -> tuple[Any, Argument | None]:
    if get_origin(hint) is Annotated:
        kind, *more = get_args(hint)
        marker = next((one for one in more if isinstance(one, Argument)), None)
        return (marker.type, marker) if marker is not None else (kind, None)
    return hint, None


def _splits(verb: Callable[..., Any], parameter: str) -> bool:
    """Whether commas may stand between the values of an option: between names, not between files."""
    return get_type_hints(verb, include_extras=True).get(parameter) == Names


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for part in given for name in part.split(",") if name)


def _switch_off(text: str) -> str:
    """The help of a --no- flag."""
    return f"Switch this off: {text[:1].lower()}{text[1:]}"


def argument_helps(verb: Callable[..., Any]) -> dict[str, str]:
    """The lines under "Args:" of a docstring."""
    _, _, arguments = (inspect.getdoc(verb) or "").partition("\nArgs:\n")
    arguments = re.split(r"\n(?=\S)", arguments)[0]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def parse_dataclass(
    kind: type, arguments: list[str], verb: str, elsewhere: Mapping[str, str] | None = None
) -> Any:
    """The options as an instance of a dataclass. `elsewhere` says who has an option that this verb lacks."""
    import tyro

    _refuse_unknown(kind, arguments, verb, elsewhere or {})
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(
                kind,
                args=arguments,
                prog=f"regard {verb}",
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(f"{_one_line(complaint.getvalue())}; see regard {verb} --help") from None


def flag(name: str) -> str:
    """The flag of a field."""
    return f"--{name.replace('_', '-')}"


def option_names(kind: type) -> list[str]:
    """The flags of a dataclass's fields, those of nested dataclasses included. A field that is on by default has --no-NAME."""
    names = []
    for field in dataclasses.fields(kind):
        inner = _nested(field.type)
        names += (
            option_names(inner)
            if inner
            else [flag(f"no_{field.name}" if field.default is True else field.name)]
        )
    return names


def _nested(hint: Any) -> type | None:
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return kind if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def option_fields(arguments: list[str]) -> set[str]:
    """The fields that a command line names."""
    names = {argument.split("=")[0][2:] for argument in arguments if argument.startswith("--")}
    return {name.removeprefix("no-").replace("-", "_") for name in names}


def _refuse_unknown(kind: type, arguments: list[str], verb: str, elsewhere: Mapping[str, str]) -> None:
    names = [*option_names(kind), "--help", "-h"]
    for argument in arguments:
        name = argument.split("=")[0].replace("_", "-")
        if not name.startswith("--") or name == "--" or name in names:
            continue
        if name in elsewhere:
            raise UserError(f"{name} is not an option of regard {verb}; it belongs to {elsewhere[name]}")
        near = _near(name, names)
        hint = f"did you mean {near}?" if near else f"see regard {verb} --help"
        raise UserError(f"regard {verb} has no option {name}; {hint}")


SHORT = {
    "--lr": "--learning-rate",
    "--bs": "--batch",
    "--epochs": "--steps",
    "--output": "--out",
    "--n": "--count",
}


def _near(name: str, names: list[str]) -> str | None:
    """The option that was probably meant: a usual short name, a beginning, or a near spelling."""
    if SHORT.get(name) in names:
        return SHORT[name]
    begins = [known for known in names if known.startswith(name)]
    return next(iter(begins or get_close_matches(name, names, n=1)), None)


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
