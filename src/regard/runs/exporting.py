"""A run in another form: an n-gram model as an ARPA file, an ARPA file as a run folder."""

import os
from pathlib import Path

from regard.errors import UserError
from regard.models import arpa
from regard.models.ngram import Ngram
from regard.runs.folder import Run, load, save
from regard.tokens.words import WordTokenizer


def export(run: Run | str | Path, to: str | Path) -> Path:
    """Write a run as `FILE.arpa`, `FILE.arpa.gz` or a run folder.

    >>> regard.export("runs/ngram", "model.arpa.gz")  # doctest: +SKIP
    """
    opened, out = run if isinstance(run, Run) else load(run), Path(to)
    if not arpa.is_arpa(out):
        return save(opened, out).folder or out
    if out.exists():
        raise UserError(f"{out}: exists already; choose another --to or remove it")
    if not isinstance(opened.model, Ngram):
        raise UserError(f"an ARPA file holds an n-gram model; this run is of the family {opened.model.family}")
    if not isinstance(opened.tokenizer, WordTokenizer):
        raise UserError(f"an ARPA file holds words; this run reads --tokens {opened.tokenizer.kind}")
    beside = out.with_name(f".{os.getpid()}.{out.name}")
    try:
        arpa.write(opened.model, opened.tokenizer, beside)
        os.rename(beside, out)
    finally:
        beside.unlink(missing_ok=True)
    return out
