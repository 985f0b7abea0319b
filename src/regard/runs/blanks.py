"""Texts with blanks, as a run's reader reads them."""

import re

from regard.errors import UserError
from regard.models.model import as_kind
from regard.models.reader import Filler
from regard.runs.run import Run

BLANK = re.compile("_{3,}")


def require_filler(run: Run) -> Filler:
    """Return the run's model if it fills blanks."""
    return as_kind(run.model, Filler)


def blank_ids(run: Run, text: str, needed: bool = True) -> list[int]:
    """Return the ids of a text, with its end and with a blank for each ___.

    A blank stands for one token. Of subwords, the space before a blank belongs to the blank.
    """
    model, pieces = require_filler(run), BLANK.split(text.strip())
    if needed and len(pieces) == 1:
        raise UserError(f"there is no blank in {text.strip()!r}: write ___ for each word to fill in")
    ids = list[int]()
    for number, piece in enumerate(pieces):
        ids += [model.blank] if number else []
        if piece.strip() or (piece and run.tokenizer.kind in ("char", "byte")):
            ids += run.tokenizer.prompt(piece.removesuffix(" ") if run.tokenizer.kind == "bpe" else piece)
    ids.append(run.tokenizer.end)
    if model.context is not None and len(ids) > model.context:
        raise UserError(f"the text has {len(ids)} tokens and the model reads {model.context}: shorten it")
    return ids
