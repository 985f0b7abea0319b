"""Tables of word vectors: the input embeddings of any model, the senses of a Backpack.

Shape legend: V vocabulary, N words that can be answers, D width.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.errors import UserError
from regard.inside.sense_table import SENSES, sense_vectors
from regard.inside.word_vectors import layers_that_read
from regard.runs.run import Run
from regard.tokens.contract import Tokenizer

SUBWORDS = (
    "a word of several subwords has the mean of their vectors; neighbours are sought among the {many:,} "
    "subwords that are whole words"
)
LETTERS = "a word has the mean of the vectors of its {kind}s; neighbours are single {kind}s"


@final
@dataclass(frozen=True)
class WordTable:
    """A vector for each word."""

    name: str
    tokenizer: Tokenizer
    vectors_VD: Tensor

    @property
    def width(self) -> int:
        return self.vectors_VD.shape[1]

    @cached_property
    def ids_N(self) -> Tensor:
        """(N): the tokens that are words. Marks and parts of words are left out."""
        marks = {self.tokenizer.end, self.tokenizer.unknown}
        ids = [token for token in range(self.tokenizer.size) if token not in marks]
        if self.tokenizer.kind == "bpe":
            ids = [token for token in ids if _is_whole(self.tokenizer.name(token))]
        return torch.tensor(ids, dtype=torch.long)

    @cached_property
    def words(self) -> list[str]:
        """The words of `ids_N`, in this order."""
        names = map(self.tokenizer.name, self.ids_N.tolist())
        return [name.strip() for name in names] if self.tokenizer.kind == "bpe" else list(names)

    @cached_property
    def units_ND(self) -> Tensor:
        """(N, D): the vectors of the words, of length 1."""
        return normalize(self.vectors_VD[self.ids_N], dim=1)

    @cached_property
    def place_of(self) -> dict[str, int]:
        """The place of each word among `words`; the first place of a word that occurs twice."""
        return {word: place for place, word in reversed(list(enumerate(self.words)))}

    @property
    def how(self) -> str | None:
        """A sentence about the vectors of words that are several tokens."""
        match self.tokenizer.kind:
            case "word":
                return None
            case "bpe":
                return SUBWORDS.format(many=len(self.words))
            case kind:
                return LETTERS.format(kind={"char": "character"}.get(kind, kind))

    def spelling(self, word: str) -> str | None:
        """Return the word as the vocabulary spells it: as it is or else in lower case. None: it lacks it."""
        return next((form for form in (word, word.lower()) if self._ids(form)), None)

    def vector(self, word: str) -> Tensor:
        """(D): the vector of a word of the vocabulary; the mean of those of its tokens."""
        return self.vectors_VD[self._ids(word)].mean(0)

    def unit(self, word: str) -> Tensor:
        """(D): the vector of a word of the vocabulary, of length 1."""
        return normalize(self.vector(word), dim=0)

    def near_spellings(self, word: str) -> list[str]:
        return get_close_matches(word, self.place_of, n=3)

    def _ids(self, word: str) -> list[int]:
        """Return the tokens of a word, or nothing if the vocabulary lacks it."""
        ids = self.tokenizer.prompt(f" {word}" if self.tokenizer.kind == "bpe" else word) if word else []
        lacks = self.tokenizer.unknown in ids or (self.tokenizer.kind == "word" and len(ids) != 1)
        return [] if lacks else ids


def _is_whole(name: str) -> bool:
    """Whether a subword is a whole word: a space, then letters or digits."""
    return name.startswith(" ") and name[1:].isalnum()


def input_table(run: Run) -> WordTable:
    """Return the table of the vectors that the model reads, for words: not those of characters or bytes."""
    layers, _ = layers_that_read(run.model)
    if not layers:
        raise UserError(
            f"{run}: {run.model.family} has no word vectors; name a neural run or a word2vec file"
        )
    if run.tokenizer.kind not in ("word", "bpe"):
        raise UserError(f"{run}: has no vectors of words: its tokens are {run.tokenizer.kind}")
    return _table(run, "embedding", run.tokenizer, layers[0].weight.detach())


def tables_of(run: Run) -> list[WordTable]:
    """Return the tables of a run: its input embeddings, for each side of a translator, or each sense."""
    model = run.model
    if SENSES in model.sites():
        vectors_VLD = sense_vectors(run.language_model, torch.arange(run.tokenizer.size))
        named = [(f"sense {number}", run.tokenizer, own) for number, own in enumerate(vectors_VLD.unbind(1))]
    else:
        targets, sources = layers_that_read(model)
        named = _named("embedding" if model.source_size is None else "target", run.tokenizer, targets)
        if run.source is not None:
            named += _named("source", run.source, sources)
    if not named:
        raise UserError(f"{model.family} has no word vectors: give a neural model, or train an embedding")
    return [_table(run, *own) for own in named]


def _named(name: str, tokenizer: Tokenizer, layers: Iterable) -> list[tuple[str, Tokenizer, Tensor]]:
    weights = [layer.weight.detach() for layer in layers]
    names = [name] if len(weights) == 1 else [f"{name} {number}" for number in range(len(weights))]
    return [(own, tokenizer, weight_VD) for own, weight_VD in zip(names, weights, strict=True)]


def _table(run: Run, name: str, tokenizer: Tokenizer, vectors: Tensor) -> WordTable:
    vectors_VD = vectors[: tokenizer.size].float().cpu()
    if not bool(vectors_VD.isfinite().all()):
        raise UserError(f"{run}: its word vectors hold infinities or NaN; train the run again")
    return WordTable(name, tokenizer, vectors_VD)
