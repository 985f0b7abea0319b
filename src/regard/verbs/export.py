"""regard export RUN --to PATH: a run in another format."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from regard.errors import UserError
from regard.machine.disk import BEGUN, flush, flush_tree, lock_file
from regard.runs.formats import FORMATS, as_run, format_named, format_of
from regard.runs.formats.format import Format
from regard.runs.run import Run
from regard.verbs.arguments import RunLike
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, print_lines

To = Annotated[str | Path, Argument(str, metavar="PATH")]


def export(run: RunLike, to: To, *, format: str | None = None) -> Path:
    """Write a run in another format.

    An n-gram is written as an ARPA file, an ARPA file as a run folder, a transformer as a GPT-2 checkpoint.
    Word embeddings are written as word2vec files.

    >>> regard.export("runs/ngram", to="model.arpa.gz")  # doctest: +SKIP

    Args:
        run: A run folder, an ARPA file, a GPT-2 checkpoint, or a word2vec file.
        to: What to write. The ending .arpa, .arpa.gz, .vec, .txt (word2vec) or .bin (word2vec, binary) says
            the format; another path is a folder.
        format: The format of a folder: regard, or gpt2 (the default for a transformer).
    """
    opened, out = as_run(run), Path(to)
    form = _format(opened, out, format)
    check_new(out)
    with _whole(out, is_file=bool(form.endings)) as beside:
        form.write(opened, beside)
    return out


def check_new(out: Path) -> None:
    """Refuse a path that exists, as a link to nothing too: nothing is ever written over."""
    if os.path.lexists(out):
        raise UserError(f"{out}: exists already; choose another `to`, or remove it")


def _format(run: Run, out: Path, name: str | None) -> Format:
    by_ending = format_of(out)
    if name is not None:
        chosen = format_named(name)
        if by_ending not in (None, chosen) or (chosen.endings and by_ending is None):
            there = f"ends in {' or '.join(chosen.endings)}" if chosen.endings else "is a folder"
            raise UserError(f"{out}: {chosen.about} {there}; choose another `to` or `format`")
        return chosen
    if by_ending is not None:
        return by_ending
    folders = [form for form in FORMATS if not form.endings]
    return next((form for form in folders if form.default_for(run)), folders[-1])


@contextmanager
def _whole(out: Path, is_file: bool) -> Iterator[Path]:
    """A path beside the wanted one, renamed when everything is written. Only one process writes to a path."""
    out.parent.mkdir(parents=True, exist_ok=True)
    beginning = f"{BEGUN}{out.name[:100]}"
    folder = out.parent / f"{beginning}.{os.getpid()}.tmp"
    with lock_file(out.parent / f"{beginning}.lock", out):
        folder.mkdir()
        try:
            beside = folder / out.name
            if not is_file:
                beside.mkdir()
            yield beside
            flush_tree(beside)
            check_new(out)
            os.rename(beside, out)
            flush(out.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # this process made it, and it was not finished


def main(arguments: list[str]) -> None:
    call = parse(export, arguments)
    result = {"out": str(export(**call.values))}
    (print_json if call.json else print_lines)(result)
