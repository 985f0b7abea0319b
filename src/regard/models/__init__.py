"""Models: tokens in, predictions out. This file is the only registry of families.

A family is named in one of three ways:

    lstm                 a family of regard: a line in FAMILIES
    mine                 a family of an installed package, under the entry-point group `regard.families`
    my_module:Family     a class in any module that Python can import

`family_class` accepts all three forms, and is for names from the user. `known_family` accepts the first two
forms, and is for names from files, such as a run's config.json. A name in a file therefore never makes Python
import a module.
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
    from regard.models.model import Model

# The families by the kind of model, in the order in which they are listed.
KINDS = {
    "language models": {
        "ngram": "regard.models.ngram:Ngram",
        "dan": "regard.models.dan:Dan",
        "window": "regard.models.window:Window",
        "rnn": "regard.models.recurrent:Rnn",
        "lstm": "regard.models.recurrent:Lstm",
        "gru": "regard.models.recurrent:Gru",
        "attentive": "regard.models.attentive:Attentive",
        "transformer": "regard.models.transformer:Transformer",
        "backpack": "regard.models.backpack:Backpack",
    },
    "word embeddings": {
        "embedding": "regard.models.embedding:Embedding",
    },
    "translators": {
        "recurrent-translator": "regard.models.recurrent_translator:RecurrentTranslator",
        "transformer-translator": "regard.models.transformer_translator:TransformerTranslator",
    },
    "classifiers": {"classifier": "regard.models.classifier:Classifier"},
    "masked readers": {"reader": "regard.models.reader:Reader"},
    "captioners": {
        "captioner": "regard.models.captioner:Captioner",
        "transformer-captioner": "regard.models.transformer_captioner:TransformerCaptioner",
    },
}
FAMILIES = {name: place for families in KINDS.values() for name, place in families.items()}
GROUP = "regard.families"
PAGE = "docs/your-own-family.md"


def family_class(name: "str | type[Model]") -> "type[Model]":
    """Return the family with this name (a registered name or MODULE:CLASS), or the class itself.

    Raises a UserError if there is no such family, or if the class is not a complete model.
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


def known_family(name: str) -> "type[Model] | None":
    """Return the family of regard or of an installed package with this name, or None."""
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
    """Return the names of regard's families, then those of installed packages."""
    return [*FAMILIES, *(point.name for point in _installed() if point.name not in FAMILIES)]


def family_name(family: "type[Model]") -> str:
    """Return the registered name of a family, or MODULE:CLASS."""
    path = f"{family.__module__}:{family.__qualname__}"
    for name, place in FAMILIES.items():
        if place == path:
            return name
    for point in _installed():
        if point.value == path or (point.module in sys.modules and point.load() is family):
            return point.name
    return path


def families_that_read(reads: str) -> list[str]:
    """Return the names of regard's families that are trained on this kind of data (such as text or pairs)."""
    return [name for name, path in FAMILIES.items() if _attribute(path).reads == reads]


def _installed() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


def _attribute(path: str):
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def _from_module(name: str) -> object:
    """Return the object MODULE:ATTRIBUTE. The module may lie in the current folder."""
    module, _, attribute = name.partition(":")
    if not {"", os.getcwd()} & {*sys.path}:  # the path of the installed command `regard` lacks this folder
        sys.path.append(os.getcwd())
    try:
        namespace = vars(import_module(module))
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise UserError(f"{name}: {module} needs the module {error.name}, which is missing") from error
        advice = "name a module that is installed or lies in this folder, as MODULE:CLASS"
        raise UserError(f"{name}: there is no module {module}; {advice}") from None
    except Exception as error:
        raise UserError(f"{name}: {module} cannot be imported ({type(error).__name__}: {error})") from error
    if attribute not in namespace:
        near = get_close_matches(attribute, namespace, n=1)
        hint = f"did you mean {module}:{near[0]}?" if near else f"see {PAGE}"
        raise UserError(f"{name}: {module} has no {attribute!r}; {hint}")
    return namespace[attribute]


def _checked(family: object, name: str) -> "type[Model]":
    """Return the class if it is a complete model, or raise a UserError."""
    from regard.models.model import Model

    if not (isinstance(family, type) and issubclass(family, Model)):
        raise UserError(
            f"{name} is not a subclass of LanguageModel or RowModel; {PAGE} shows how to write a family"
        )
    missing = [*family.__abstractmethods__] if inspect.isabstract(family) else []
    names = {field for base in family.__mro__ for field in vars(base)}
    missing += [field for field in ("family", "Config") if field not in names]
    if missing:
        raise UserError(f"{name} is not a complete model: it lacks {', '.join(sorted(missing))}; see {PAGE}")
    return family
