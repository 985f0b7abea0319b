"""Language models: tokens in, predictions out. This file is the only registry of families.

A family is named in one of three ways:

    lstm                 a family of regard: one line in FAMILIES
    mine                 a family of an installed package, under the entry-point group `regard.families`
    my_module:Family     a class in any module that Python can import

`family_class` answers all three, and is for names that the person gave. `known_family` answers the first two, and is for
names that a file gives, such as a run's config.json: a name in a file never makes Python import a module.
"""

import inspect
import os
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.models.contract import LanguageModel

FAMILIES = {
    "ngram": "regard.models.ngram:Ngram",
    "dan": "regard.models.dan:Dan",
    "window": "regard.models.window:Window",
    "rnn": "regard.models.recurrent:Rnn",
    "lstm": "regard.models.recurrent:Lstm",
    "gru": "regard.models.recurrent:Gru",
    "attentive": "regard.models.attentive:Attentive",
    "transformer": "regard.models.transformer:Transformer",
    "backpack": "regard.models.backpack:Backpack",
    "recurrent-translator": "regard.models.recurrent_translator:RecurrentTranslator",
    "transformer-translator": "regard.models.transformer_translator:TransformerTranslator",
}
GROUP = "regard.families"
PAGE = "docs/your-own-family.md"


def family_class(name: "str | type[LanguageModel]") -> "type[LanguageModel]":
    """The family that the person named: by a registered name, as MODULE:CLASS, or by its class.

    A name that leads to no family is the user's mistake.
    """
    if not isinstance(name, str):
        return _checked(name, name.__qualname__)
    known = known_family(name)
    if known is not None:
        return known
    if ":" in name:
        return _checked(_from_module(name), name)
    near = get_close_matches(name, FAMILIES, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UserError(f"unknown family {name!r}; {hint}there are: {', '.join(family_names())}; or MODULE:CLASS")


def known_family(name: str) -> "type[LanguageModel] | None":
    """The family of regard, or of an installed package, that has this name; None if there is none."""
    if name in FAMILIES:
        return _attribute(FAMILIES[name])
    for point in _installed():
        if name in (point.name, point.value):
            try:
                family = point.load()
            except (ImportError, AttributeError) as error:
                raise UserError(f"the installed family {point.name} cannot be imported ({error})") from error
            return _checked(family, name)
    return None


def family_names() -> list[str]:
    """The families of regard, then those of installed packages."""
    return [*FAMILIES, *(point.name for point in _installed() if point.name not in FAMILIES)]


def family_name(family: "type[LanguageModel]") -> str:
    """The name by which a family is named again: its registered name, or MODULE:CLASS."""
    path = f"{family.__module__}:{family.__qualname__}"
    for name, place in FAMILIES.items():
        if place == path:
            return name
    for point in _installed():
        if point.value == path or (point.module in sys.modules and point.load() is family):
            return point.name
    return path


def families_that_read(reads: str) -> list[str]:
    """The families of regard that are trained on this kind of data: text, or pairs."""
    return [name for name, path in FAMILIES.items() if _attribute(path).reads == reads]


def _installed() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


def _attribute(path: str):
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def _from_module(name: str) -> object:
    """The attribute of a module that the person named. The module may lie in the current folder."""
    module, _, attribute = name.partition(":")
    if not {"", os.getcwd()} & {*sys.path}:  # the installed command `regard` begins without it
        sys.path.append(os.getcwd())
    try:
        namespace = vars(import_module(module))
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise UserError(f"{name}: {module} needs the module {error.name}, which is missing") from error
        here = "name a module that is installed or lies in this folder, as MODULE:CLASS"
        raise UserError(f"{name}: there is no module {module}; {here}") from None
    except Exception as error:
        raise UserError(f"{name}: {module} cannot be imported ({type(error).__name__}: {error})") from error
    if attribute not in namespace:
        near = get_close_matches(attribute, namespace, n=1)
        hint = f"did you mean {module}:{near[0]}?" if near else f"see {PAGE}"
        raise UserError(f"{name}: {module} has no {attribute!r}; {hint}")
    return namespace[attribute]


def _checked(family: object, name: str) -> "type[LanguageModel]":
    """The class, if it is a language model that can be built."""
    from regard.models.contract import LanguageModel

    if not (isinstance(family, type) and issubclass(family, LanguageModel)):
        raise UserError(f"{name} is not a subclass of LanguageModel; {PAGE} shows one")
    missing = [*family.__abstractmethods__] if inspect.isabstract(family) else []
    names = {field for base in family.__mro__ for field in vars(base)}
    missing += [field for field in ("family", "Config") if field not in names]
    if missing:
        raise UserError(
            f"{name} is not a whole language model: it lacks {', '.join(sorted(missing))}; see {PAGE}"
        )
    return family
