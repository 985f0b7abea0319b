"""The options of a verb, read from the signature and the docstring of its function, or from dataclasses.

In a docstring each option has one line in a section. "Args:" holds the options that are needed most; every
other section ("Text:", "Output:") is a group of its own in --help.
"""

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

PYTHON_ONLY = ("listener", "finished")  # parameters that the command line does not have
OUTPUT = "output"  # the group of --json
NEVER = ("None", "()", "False", "''")  # defaults that mean "not given": --help does not print them


@dataclass(frozen=True)
class Argument:
    """The type on the command line of a parameter whose Python type tyro cannot read (in Annotated)."""

    type: Any
    positional: bool = False
    metavar: str | None = None
    commas: bool = False  # several values may have commas between them


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a verb."""

    name: str  # of the parameter or field, such as learning_rate
    type: Any
    default: Any = MISSING
    about: str = ""  # the help, for the flag as it is typed
    metavar: str | None = None
    positional: bool = False
    commas: bool = False  # several values may have commas between them
    group: str = ""  # the heading in --help; the first group has none

    @property
    def flag(self) -> str:
        """The flag as it is typed: an option that is on by default has a --no- flag alone."""
        return flag(f"no_{self.name}" if self.default is True else self.name)

    def value_name(self) -> str:
        """The name of the value in --help: nothing for a switch."""
        kind, several = _value_type(self.type)
        if kind is bool:
            return ""
        names = {int: "N", float: "NUMBER", str: "TEXT"}
        return (self.metavar or names.get(kind, "NAME")) + (" ..." if several else "")

    def help(self) -> str:
        """The help, the choices and the default."""
        kind, _ = _value_type(self.type)
        parts = [self.about]
        if get_origin(kind) is Literal:
            parts.append(f"One of: {', '.join(map(str, get_args(kind)))}.")
        if self.default is MISSING:
            parts.append("Required.")
        elif self.default is not True and repr(self.default) not in NEVER:
            parts.append(f"Default: {self.default}.")
        return " ".join(part for part in parts if part)


JSON = Option(
    name="json",
    type=bool,
    default=False,
    about="Write one JSON object to standard output, and nothing else there.",
    group=OUTPUT,
)


def flag(name: str) -> str:
    """The flag of a parameter or field."""
    return f"--{name.replace('_', '-')}"


def _value_type(hint: Any) -> tuple[Any, bool]:
    """(type of one value, whether there may be several), without None."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        hint = next(part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Annotated:  # Count | None
        hint = get_args(hint)[0]
    return (get_args(hint)[0], True) if get_origin(hint) in (tuple, list) else (hint, False)


def verb_options(verb: Callable[..., Any]) -> list[Option]:
    """The options of a verb's function, those of the docstring's first section first."""
    hints, parameters = get_type_hints(verb, include_extras=True), inspect.signature(verb).parameters
    helps = {
        name: (group, text)
        for group, lines in docstring_sections(verb).items()
        for name, text in lines.items()
    }
    options = list[Option]()
    for parameter in parameters.values():
        if parameter.name in PYTHON_ONLY or parameter.kind is parameter.VAR_KEYWORD:
            continue
        marker = _argument(hints[parameter.name])
        group, about = helps.get(parameter.name, ("", ""))
        options.append(
            Option(
                name=parameter.name,
                type=marker.type,
                default=MISSING if parameter.default is parameter.empty else parameter.default,
                about=_of_flag(about, parameter.default),
                metavar=marker.metavar,
                positional=marker.positional,
                commas=marker.commas,
                group=group,
            )
        )
    return sorted([*options, JSON], key=_section_order([*docstring_sections(verb), OUTPUT]))


def _section_order(groups: list[str]) -> Callable[[Option], int]:
    return lambda option: 0 if option.group == "" else 1 + groups.index(option.group)


def _argument(hint: Any) -> Argument:
    if get_origin(hint) is Annotated:
        kind, *markers = get_args(hint)
        return next((marker for marker in markers if isinstance(marker, Argument)), Argument(kind))
    return Argument(hint)


def docstring_sections(verb: Callable[..., Any]) -> dict[str, dict[str, str]]:
    """The lines of each section of a docstring by parameter. "Args:" is the section without a heading."""
    sections: dict[str, dict[str, str]] = {}
    text = inspect.getdoc(verb) or ""
    for title, body in re.findall(r"^([A-Z][A-Za-z ]*):\n((?: {4}.*(?:\n|\Z))+)", text, re.MULTILINE):
        lines = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", body, re.MULTILINE)
        sections["" if title == "Args" else title.lower()] = {
            name: " ".join(about.split()) for name, about in lines
        }
    return sections


def _of_flag(about: str, default: Any) -> str:
    """The help of the flag: if the option is on by default, the text after "Off:", which the flag does."""
    return about.partition("Off: ")[2] if default is True else about


def field_options(
    kind: type, group: str, metavars: dict[str, str], unused: Iterable[str] = ()
) -> list[Option]:
    """The options in the fields of a dataclass; the help of a field is the string under it in the source."""
    helps: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        helps |= _strings_under_fields(base)
    return [
        Option(
            name=field.name,
            type=field.type,
            default=field.default,
            about=_of_flag(helps.get(field.name, ""), field.default),
            metavar=metavars.get(field.name),
            group=group,
        )
        for field in dataclasses.fields(kind)
        if field.name not in unused
    ]


def _strings_under_fields(kind: type) -> dict[str, str]:
    if kind.__module__ == "builtins" or not dataclasses.is_dataclass(kind):
        return {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):  # the class was made at run time: its base class has the source
        return {}
    assert isinstance(tree, ast.ClassDef)
    helps = {}
    for field, text in itertools.pairwise(tree.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(about))):
                helps[name] = " ".join(about.split())
    return helps
