"""A training can begin with the word vectors of another run or of a word2vec file.

Shape legend: N words, D width.
"""

import torch

from regard.errors import UserError
from regard.inside.word_vectors import layers_that_read
from regard.models.model import Model
from regard.runs.formats import load
from regard.tokens.contract import Tokenizer


@torch.no_grad()
def begin_with_vectors(model: Model, tokenizer: Tokenizer, path: str) -> str:
    """Copy the vectors of the words that both vocabularies have. Return a note with their number.

    The vectors are scaled, so that their mean length stays the one with which the family begins.
    """
    source = load(path)
    tables = (layers_that_read(source.model)[0], layers_that_read(model)[0])
    if tokenizer.kind != "word" or source.tokenizer.kind != "word":
        raise UserError("`vectors` are those of words: both runs need `tokens` word")
    if not all(tables):
        raise UserError(
            f"{path}: {source.model.family} has no word vectors; name an embedding or a word2vec file"
        )
    theirs, own = (layers[0].weight for layers in tables)
    if theirs.shape[1] != own.shape[1]:
        widths = f"its vectors have {theirs.shape[1]} features and the model has {own.shape[1]}"
        raise UserError(f"{path}: {widths}: give `width` {theirs.shape[1]}")
    places = [(token, _place(source.tokenizer, tokenizer, token)) for token in range(tokenizer.size)]
    found = [(token, place) for token, place in places if place is not None]
    if not found:
        raise UserError(
            f"{path}: has a vector of none of the words; name vectors of the same language and case"
        )
    mine_N, theirs_N = torch.tensor(found).unbind(1)
    vectors_ND = theirs[theirs_N].to(own)
    length = own[mine_N].norm(dim=1).mean() / vectors_ND.norm(dim=1).mean().clamp(min=1e-12)
    own[mine_N] = length * vectors_ND
    return f"{len(found):,} of {tokenizer.size:,} tokens begin with their vectors in {path}"


def _place(theirs: Tokenizer, own: Tokenizer, token: int) -> int | None:
    """Return the other tokenizer's id of a word, or None if it does not know the word."""
    if token in (own.end, own.unknown):
        return None
    ids = theirs.prompt(own.token_bytes(token, None).decode())
    return ids[0] if len(ids) == 1 and ids[0] != theirs.unknown else None
