"""A training can begin with the word vectors of another run or of a word2vec file.

Shape legend: N words, D width.
"""

import torch

from regard.errors import UserError
from regard.inside.word_tables import WordTable, input_table
from regard.inside.word_vectors import layers_that_read
from regard.models.model import Model
from regard.runs.formats import load
from regard.tokens.contract import Tokenizer


@torch.no_grad()
def begin_with_vectors(model: Model, tokenizer: Tokenizer, path: str) -> str:
    """Copy the vectors of the words that both vocabularies have. Return a note with their number.

    A word is looked up as it is, or else in lower case. The vectors are scaled, so that their mean length
    stays the one with which the family begins.
    """
    if tokenizer.kind != "word":
        raise UserError("`vectors` are those of words: give `tokens` word")
    theirs = input_table(load(path))
    own = layers_that_read(model)[0][0].weight
    if theirs.width != own.shape[1]:
        widths = f"its vectors have {theirs.width} features and the model has {own.shape[1]}"
        raise UserError(f"{path}: {widths}: give `width` {theirs.width}")
    ids, vectors = list[int](), list[torch.Tensor]()
    for token in range(tokenizer.size):
        known = None if token in (tokenizer.end, tokenizer.unknown) else _spelling(theirs, tokenizer, token)
        if known is not None:
            ids.append(token)
            vectors.append(theirs.vector(known))
    if not ids:
        raise UserError(
            f"{path}: has a vector of none of the words; name vectors of the same language and case"
        )
    vectors_ND = torch.stack(vectors).to(own)
    length = own[ids].norm(dim=1).mean() / vectors_ND.norm(dim=1).mean().clamp(min=1e-12)
    own[ids] = length * vectors_ND
    return f"{len(ids):,} of {tokenizer.size:,} tokens begin with their vectors in {path}"


def _spelling(theirs: WordTable, tokenizer: Tokenizer, token: int) -> str | None:
    """Return a word of this vocabulary as the table spells it, or None if the table lacks it."""
    return theirs.spelling(tokenizer.token_bytes(token, None).decode())
