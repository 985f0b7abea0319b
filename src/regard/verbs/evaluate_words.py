"""The figures of a word embedding: its loss on a text, and its agreement with people's judgements."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from regard.inside.word_questions import Similarity, similarities
from regard.inside.word_tables import tables_of
from regard.models.embedding import Embedding
from regard.models.model import as_kind
from regard.probabilities.neighbours import neighbour_loss, reconstructed
from regard.runs.run import Run
from regard.tables import Table, TableRows
from regard.text.files import Source
from regard.text.word_pairs import read_word_pairs
from regard.tokens.neighbours import Words
from regard.verbs.arguments import File


@dataclass(frozen=True)
class EmbeddingMeasure(Table):
    """The figures of a word embedding. A figure that the kind of embedding does not have is None."""

    loss: float | None  # nats a word, or the l2 norm of input - output
    reconstructed: float | None  # one-hot: the share of words whose own output is the largest
    words: int  # of the vocabulary
    tokens: int  # of the text
    unknown_tokens: int
    similarity: Similarity | None

    def to_json(self) -> dict[str, Any]:
        listed = None if self.similarity is None else self.similarity.to_json()
        return {**asdict(self), "similarity": listed}

    def rows(self) -> TableRows:
        """One row with every figure."""
        agreement = {} if self.similarity is None else self.similarity.to_json()
        return [{**asdict(self), "similarity": agreement.get("spearman"), **agreement}]


def evaluate_words(run: Run, sources: Sequence[Source], similarity: File) -> EmbeddingMeasure:
    """Measure an embedding on a text, which may be empty."""
    model, tokenizer = as_kind(run.model, Embedding), run.tokenizer
    encoded = tokenizer.encode_texts([source.text for source in sources]) if sources else None
    loss: float | None = None
    right: float | None = None
    if model.config.kind == "one-hot":
        marks = (tokenizer.end, tokenizer.unknown)
        ids = [token for token in range(tokenizer.size) if token not in marks]
        loss, right = reconstructed(model, torch.tensor(ids))
    elif model.config.kind != "given" and encoded is not None:
        loss = neighbour_loss(model, Words.of(encoded, tokenizer))
    tables = tables_of(run)
    listed = None if similarity is None else similarities(tables, read_word_pairs(similarity))[0]
    return EmbeddingMeasure(
        loss,
        right,
        len(tables[0].words),
        0 if encoded is None else len(encoded),
        0 if encoded is None else encoded.unknown,
        listed,
    )
