"""A reader fills the blanks of a text, and a record of its sites and of the words in the blanks is made."""

import torch

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
    # Of subwords, the space before a blank belongs to the blank.
    blank = b" ___" if tokenizer.kind == "bpe" else b"___"
    pieces = tuple(blank if token == model.blank else tokenizer.piece(token) for token in ids)
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
