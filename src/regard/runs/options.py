"""Options by name: which dataclass each belongs to, and whether what is given can be its value."""

import dataclasses
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from regard.errors import UserError
from regard.models import FAMILIES, TRANSLATORS, family_class
from regard.models.contract import LanguageModel
from regard.models.translation import Translator
from regard.runs.material import PairOptions, TextOptions
from regard.runs.optimisers import TrainingOptions
from regard.tokens.choose import TokenOptions


def option_kinds(family: type[LanguageModel]) -> list[type]:
    """The dataclasses that hold a family's options; training options with the family's own defaults."""
    if issubclass(family, Translator):
        lines = with_defaults(TokenOptions, {"tokens": "word", "document": "line"})
        return [PairOptions, lines, family.Config, with_defaults(TrainingOptions, family.training_defaults or {})]
    kinds: list[type] = [TextOptions, TokenOptions, family.Config]
    return [*kinds, with_defaults(TrainingOptions, family.training_defaults)] if family.training_defaults is not None else kinds


def with_defaults(kind: type, defaults: dict[str, Any]) -> type:
    """A dataclass with other defaults."""
    annotations = {field.name: field.type for field in dataclasses.fields(kind) if field.name in defaults}
    return dataclasses.dataclass(frozen=True, kw_only=True)(type(kind.__name__, (kind,), {**defaults, "__annotations__": annotations}))


def split_options(family: str, options: dict[str, Any], *kinds: type) -> list[Any]:
    """Options sorted into the dataclasses they belong to; a name that fits none, or a value that cannot be, is the user's mistake."""
    names = [{field.name for field in dataclasses.fields(kind)} for kind in kinds]
    unknown = set(options) - set().union(*names)
    if unknown:
        name = sorted(unknown)[0]
        others = [other for other in FAMILIES | TRANSLATORS if name in _option_names(other)]
        hint = f"it belongs to {', '.join(others)}" if others else f"there are: {', '.join(sorted(set().union(*names)))}"
        raise UserError(f"{family} has no option {name!r}; {hint}")
    for kind in kinds:
        for name, hint in get_type_hints(kind).items():
            if name in options:
                _check_value(name, options[name], hint)
    return [kind(**{name: value for name, value in options.items() if name in own}) for kind, own in zip(kinds, names, strict=True)]


def _check_value(name: str, value: Any, hint: Any) -> None:
    """From the command line a value is what it must be; from Python it may be anything."""
    allowed = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    if value is None and NoneType in allowed:
        return
    option = f"--{name.replace('_', '-')}"
    choices = [choice for one in allowed if get_origin(one) is Literal for choice in get_args(one)]
    if choices and value not in choices:
        raise UserError(f"{option} is one of {', '.join(map(str, choices))}; not {value!r}")
    numbers = {int: "a whole number", float: "a number"}
    wanted = next((kind for kind in (int, float, bool) if kind in allowed), None)
    if wanted is bool and not isinstance(value, bool):
        raise UserError(f"{option} is True or False; not {value!r}")
    if wanted in numbers and (isinstance(value, bool) or not isinstance(value, int | wanted)):
        raise UserError(f"{option} is {numbers[wanted]}; not {value!r}")


def _option_names(family: str) -> set[str]:
    return {field.name for kind in option_kinds(family_class(family)) for field in dataclasses.fields(kind)}
