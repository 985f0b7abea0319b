"""The formats of a run, one object for each format: recognise, read, write.

The first format that recognises a path reads it.
"""

from pathlib import Path

from regard.errors import UserError
from regard.models import FAMILIES, family_class
from regard.models.model import Model
from regard.runs.formats.arpa import Arpa
from regard.runs.formats.folder import RunFolder, read_config
from regard.runs.formats.format import Format
from regard.runs.formats.gpt2 import Gpt2
from regard.runs.formats.word2vec import Word2vecBinary, Word2vecText
from regard.runs.run import Run

FORMATS: tuple[Format, ...] = (Arpa(), Gpt2(), Word2vecText(), Word2vecBinary(), RunFolder())


def load(path: str | Path, family: str | type[Model] | None = None) -> Run:
    """Open a run: a folder that `regard train` wrote, an ARPA file, a GPT-2 checkpoint, or a word2vec file.

    Weights are memory-mapped.

    A run whose family is neither part of regard nor installed needs `family`: the class, or its name
    "MODULE:CLASS".

    >>> run = regard.load("runs/ngram")  # doctest: +SKIP
    """
    named = None if family is None else family_class(family)
    place = Path(path)
    if not place.exists():
        raise UserError(f"{place}: no such run; regard train makes one")
    for form in FORMATS:
        if form.recognises(place):
            if named is not None and not form.any_family:
                raise UserError(f"{place}: is {form.about}, whose family is known; leave out `family`")
            return form.read(place, named)
    raise UserError(f"{place}: not a run; there are: {', '.join(form.about for form in FORMATS)}")


def is_from_outside(path: str | Path) -> bool:
    """Whether a path is a run folder of a family that is not regard's."""
    return (
        Path(path).is_dir()
        and RunFolder().recognises(Path(path))
        and read_config(Path(path)).family not in FAMILIES
    )


def as_run(run: Run | str | Path) -> Run:
    """A run, or the run at a path."""
    return run if isinstance(run, Run) else load(run)


def format_named(name: str) -> Format:
    for form in FORMATS:
        if form.name == name:
            return form
    raise UserError(f"no format is called {name!r}; there are: {', '.join(form.name for form in FORMATS)}")


def format_of(out: Path) -> Format | None:
    """The format that the ending of a path says."""
    return next((form for form in FORMATS if form.endings and out.name.endswith(form.endings)), None)
