"""A reader fills the blanks of a text, and a record of its sites and of the words in the blanks is made.

Shape legend: T positions, D features, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.observe import Reading, Wanted, default_sites, maps_of
from regard.inside.record import Record
from regard.parts.look import Look
from regard.probabilities.blanks import fill
from regard.runs.blanks import blank_ids, require_filler
from regard.runs.run import Run
from regard.tokens.contract import show_bytes


@torch.inference_mode()
def observe_blanks(run: Run, text: str, wanted: Wanted) -> Record:
    """Fill the blanks and make the record. A text without blanks is read, and nothing is predicted."""
    model, tokenizer = require_filler(run), run.tokenizer
    if not text.strip():
        raise UserError("there is nothing to look at: give some text")
    ids = blank_ids(run, text, needed=False)
    unknown = sum(token == tokenizer.unknown for token in ids)
    notes = [f"{unknown} of {len(ids)} tokens were never seen and are read as <unk>"] if unknown else []
    if model.blank not in ids:
        notes.append("the text has no blank, so no word is predicted: write ___ for a word to predict")
    look = Look(list(wanted.sites) or default_sites(model))
    if wanted.sites:
        look.check(model.sites())
    model(torch.tensor([ids], device=model.device), look)
    pieces = blank_pieces(run, ids)
    filled = iter(fill(model, torch.tensor(ids), wanted.top))
    likeliest = [
        [(tokenizer.name(word), p) for word, p in next(filled)] if token == model.blank else []
        for token in ids
    ]
    reading = Reading(ids, list(map(show_bytes, pieces)))
    return Record(
        tokens=reading.tokens,
        ids=ids,
        surprisal=[None] * len(ids),
        ranks=[None] * len(ids),
        likeliest=likeliest,
        fills=True,
        pieces=pieces,
        maps=maps_of(look, model.sites(), reading, wanted, 0, len(ids)),
        notes=notes,
    )


def blank_pieces(run: Run, ids: Sequence[int]) -> tuple[bytes, ...]:
    """Return the bytes of each token of a text with blanks."""
    # Of subwords, the space before a blank belongs to the blank.
    blank = b" ___" if run.tokenizer.kind == "bpe" else b"___"
    hidden = require_filler(run).blank
    return tuple(blank if token == hidden else run.tokenizer.piece(token) for token in ids)


@torch.inference_mode()
def blank_distribution(run: Run, text: str, place: int) -> Tensor:
    """(V): the probabilities of the words of the blank at a position, while all blanks are hidden."""
    model, ids = require_filler(run), blank_ids(run, text)
    if not (place < len(ids) and ids[place] == model.blank):
        raise UserError(f"there is no blank at position {place}")
    features_1TD = model(torch.tensor([ids], device=model.device))
    return model.words(features_1TD[:, place]).log_probs()[0, 0].exp().cpu()
