"""Word embeddings: a vector for each word, learned from text without predicting the next word.

    skip-gram   a word predicts each of its neighbours       (parts/neighbours.py)
    CBOW        the mean of the neighbours predicts the word
    one-hot     a word in, a narrow layer, the same word out: x -> E x -> U E x, which is to be x again

The one-hot network is the lectures' first embedding. It has to tell words apart, and nothing tells it which
words are alike; so its vectors have no meaning. Neighbours give the vectors their meaning.

Shape legend: B rows, T positions, N words, V vocabulary, D width.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.errors import UserError
from regard.models.rows import RowModel
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.parts.neighbours import Band, cbow_loss, skip_gram_loss
from regard.ranges import Count, Share


@final
class Embedding(RowModel):
    family = "embedding"
    reads = "words"
    answers = "positions"
    purpose = "gives words vectors"
    verb = "words"
    compiles = False
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "word", "cutoff": 2}
    training_defaults: ClassVar[dict[str, Any]] = {
        "optimiser": "sgd",
        "learning_rate": 0.025,
        "floor": 0.004,
        "warmup": 0.0,
        "decay": "linear",
        "weight_decay": 0.0,
        "clip": None,
        "precision": "fp32",
        "batch": 24,
        "segment": 16,
        "epochs": 20.0,
        "evaluate_every": 5000,
    }

    @dataclass(frozen=True, kw_only=True)
    class Config:
        kind: Literal["skip-gram", "cbow", "one-hot", "given"] = "skip-gram"
        """Task: a word predicts its neighbours (skip-gram), its neighbours predict it (cbow), or it predicts
        itself (one-hot: the lectures' network, which learns no meaning). given: vectors from a file."""
        loss: Literal["cross-entropy", "l2"] | None = None
        """Loss of one-hot: cross-entropy, or the l2 norm of input - output (cross-entropy)."""
        width: Count = 100
        """Number of features of a word vector."""
        window: Count = 5
        """Largest distance of neighbours. The distance of each word is drawn from 1 to this number."""
        negatives: Count = 5
        """Number of negative samples for each prediction."""
        subsample: Share = 1e-3
        """Frequent words are left out at random: a word of this share of the text, or less, is always kept.
        0: leave none out."""

        def __post_init__(self) -> None:
            if self.window > 100:
                raise UserError("`window` must be 100 or less: words further away are no neighbours")
            if self.loss is not None and self.kind != "one-hot":
                raise UserError("`loss` is for `kind` one-hot; the others have the loss of negative samples")

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        sparse = config.kind in ("skip-gram", "cbow")
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width, sparse=sparse)
        outputs = 0 if config.kind == "given" else vocabulary_size
        self.outputs = nn.Embedding(outputs, config.width, sparse=sparse)
        with torch.no_grad():
            if sparse:  # as word2vec begins
                self.embedding.weight.uniform_(-0.5 / config.width, 0.5 / config.width)
                self.outputs.weight.zero_()
            else:
                self.embedding.weight.mul_(config.width**-0.5)
                self.outputs.weight.mul_(config.width**-0.5)

    def sites(self) -> dict[str, Site]:
        return declare(values_at("embedding"))

    def read(self, tokens_BT: Tensor, real_BT: Tensor, look: Look | None) -> Tensor:
        return at_site(look, "embedding", self.embedding(tokens_BT))

    def loss(self, **inputs: Tensor) -> Tensor:
        """Return the summed loss: of the words of bands with their neighbours, or of single words."""
        if self.config.kind == "one-hot":
            return self.reconstruction_loss(**inputs)
        band = Band(inputs["ids_BC"], inputs["left_BT"], inputs["right_BT"])
        loss = skip_gram_loss if self.config.kind == "skip-gram" else cbow_loss
        words_VD, outputs_VD = self.embedding.weight, self.outputs.weight
        return loss(words_VD, outputs_VD, band, inputs["negatives_K"], self.config.negatives)

    def reconstruction_loss(self, words_N: Tensor) -> Tensor:
        """Return the sum over words of -log P(word | word), or of || one-hot word - output ||."""
        output_NV = self.embedding(words_N) @ self.outputs.weight.T
        if self.config.loss != "l2":
            return cross_entropy(output_NV, words_N, reduction="sum")
        one_hot_NV = torch.zeros_like(output_NV).scatter_(1, words_N.unsqueeze(1), 1.0)
        return torch.linalg.vector_norm(one_hot_NV - output_NV, dim=1).sum()
