"""The formats of a run, one object for each: recognise, read, write. The first that recognises a path reads it."""

from pathlib import Path

from regard.errors import UserError
from regard.runs.formats.arpa import Arpa
from regard.runs.formats.folder import RunFolder
from regard.runs.formats.format import Format
from regard.runs.formats.gpt2 import Gpt2
from regard.runs.run import Run

FORMATS: tuple[Format, ...] = (Arpa(), Gpt2(), RunFolder())


def load(path: str | Path) -> Run:
    """Open a run: a folder that `regard train` wrote, an ARPA file, or a GPT-2 checkpoint. Weights are memory-mapped, not copied.

    >>> run = regard.load("runs/ngram")  # doctest: +SKIP
    """
    place = Path(path)
    if not place.exists():
        raise UserError(f"{place}: no such run; regard train makes one")
    for form in FORMATS:
        if form.recognises(place):
            return form.read(place)
    raise UserError(f"{place}: not a run; there are: {', '.join(form.about for form in FORMATS)}")


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
