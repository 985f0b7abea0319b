"""The vectors of given words, from a run of word embeddings or a word2vec file: a start for other models.

Shape legend: N words, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.embedding import Embedding
from regard.runs.formats import as_run
from regard.runs.run import Run


@dataclass(frozen=True)
class WordVectors:
    """Vectors of words. A word that the run lacks has zeros."""

    vectors_ND: Tensor
    known_N: Tensor

    @property
    def width(self) -> int:
        return self.vectors_ND.shape[1]


def word_vectors(run: Run | str | Path, words: Sequence[str]) -> WordVectors:
    """Look words up, as they are or else in lower case."""
    opened = as_run(run)
    if not isinstance(opened.model, Embedding) or opened.tokenizer.kind != "word":
        kind = f"this run is of the family {opened.model.family}"
        raise UserError(
            f"{run}: `vectors` takes a run of words of the family embedding, or a word2vec file; {kind}"
        )
    unknown = opened.tokenizer.unknown

    def token_of(word: str) -> int | None:
        for form in (word, word.lower()):
            ids = opened.tokenizer.prompt(form) if form.strip() else []
            if len(ids) == 1 and ids[0] != unknown:
                return ids[0]
        return None

    tokens = [token_of(word) for word in words]
    known_N = torch.tensor([token is not None for token in tokens])
    ids_N = torch.tensor([token or 0 for token in tokens])
    vectors_ND = opened.model.embedding.weight.detach().cpu().float()[ids_N]
    return WordVectors(vectors_ND * known_N.unsqueeze(1), known_N)
