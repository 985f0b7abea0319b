"""Words with their neighbours, and negative samples: the schedule of word embeddings.

Each epoch leaves frequent words out at random, draws a window for each word, and reads the kept words in
lanes: row b of each batch continues row b of the batch before. Windows do not cross the end of a document.

A schedule is a function of seed, epoch and step only.

Shape legend: N tokens of the text, V vocabulary, M kept words, D documents, B rows, T words of a row, W
widest window, C = T + 2W, L words and empty places of all lanes, S steps, K negative samples.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.tokens.contract import Encoded, Tokenizer

SAMPLES = 32  # the negative samples that the words of a batch share
OFTEN = 2.0  # the largest mean number of times that a word stands in a batch
POWER = 0.75  # of the counts of words, in the distribution of negative samples (Mikolov et al. 2013)


@dataclass(frozen=True)
class Words:
    """The words of a text: its tokens without line ends and unknown words."""

    ids_N: np.ndarray
    document_N: np.ndarray  # the number of the document of each word
    counts_V: np.ndarray

    @classmethod
    def of(cls, text: Encoded, tokenizer: Tokenizer) -> "Words":
        ids, lengths = text.ids_N.numpy(), text.lengths_D.numpy()
        document = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        real = ids != tokenizer.end
        if tokenizer.unknown is not None:
            real &= ids != tokenizer.unknown
        return cls(ids[real], document[real], np.bincount(ids[real], minlength=tokenizer.size))

    def __len__(self) -> int:
        return len(self.ids_N)

    def known_ids(self) -> np.ndarray:
        """Return the tokens that occur."""
        return np.flatnonzero(self.counts_V)

    def kept_V(self, subsample: float) -> np.ndarray:
        """(V): the probability to keep each word: sqrt(t / f) + t / f, f the word's share, t `subsample`.

        This is the formula of the word2vec program, and of gensim.
        """
        ratio_V = subsample * len(self) / np.maximum(self.counts_V, 1)
        return np.minimum(1.0, np.sqrt(ratio_V) + ratio_V) if subsample else np.ones(len(self.counts_V))


@final
@dataclass(frozen=True)
class _Epoch:
    """The batches of an epoch."""

    ids: Tensor  # the kept words in lanes, with W empty places before and after
    left: Tensor
    right: Tensor
    negatives_SK: Tensor
    predicting_S: np.ndarray  # the number of words with neighbours
    lane: int  # the number of words of a lane


@final
class NeighbourSchedule:
    """Bands of words with the reach of each word's window, and negative samples."""

    def __init__(self, words: Words, window: int, subsample: float, rows: int, length: int, seed: int):
        if len(words.known_ids()) < 2:
            raise UserError(
                "the text has fewer than two different words to learn: give more text, or lower `cutoff`"
            )
        self._words, self._window, self._seed = words, window, seed
        # A vector moves by the sum of its gradients in a batch, and the vectors grow without bound if a word
        # stands there too often. So a batch has no more words than the text has different words in effect,
        # and the most frequent words are left out until they stand there OFTEN times on average.
        kept_V = words.kept_V(subsample)
        share_V = words.counts_V * kept_V / (words.counts_V * kept_V).sum()
        most = max(2, int(1 / np.square(share_V).sum()))
        self._length = min(length, most)
        self._rows = max(1, min(rows, most // self._length))
        often_V = share_V * self._rows * self._length
        self._kept_V = (kept_V * OFTEN / np.maximum(often_V, OFTEN)).astype(np.float32)
        weight_V = words.counts_V**POWER
        self._cumulated_V = np.cumsum(weight_V / weight_V.sum())
        self._epoch = lru_cache(maxsize=1)(self._make)

    def steps(self, epoch: int) -> int:
        return len(self._epoch(epoch).negatives_SK)

    def batch(self, epoch: int, step: int) -> dict[str, Tensor]:
        """Return the words of the bands, the reach of each word, and the negative samples."""
        made, first = self._epoch(epoch), step * self._length
        rows, length, lane = self._rows, self._length, made.lane
        band = made.ids.as_strided((rows, length + 2 * self._window), (lane, 1), first)
        left, right = (side.as_strided((rows, length), (lane, 1), first) for side in (made.left, made.right))
        return {
            "ids_BC": band.long(),
            "left_BT": left,
            "right_BT": right,
            "negatives_K": made.negatives_SK[step],
        }

    def predicting(self, epoch: int, step: int) -> int:
        """Return the number of words with neighbours in a batch."""
        return int(self._epoch(epoch).predicting_S[step])

    def read(self, epoch: int, step: int) -> int:
        """Return the number of words of the text up to the end of a batch, left-out words included."""
        return (step + 1) * len(self._words) // self.steps(epoch)

    def _make(self, epoch: int) -> _Epoch:
        random = np.random.default_rng([self._seed, epoch])
        ids_N = self._words.ids_N
        kept = random.random(len(ids_N), dtype=np.float32) < self._kept_V[ids_N]
        ids_M, document_M = ids_N[kept], self._words.document_N[kept]
        many = len(ids_M)
        count_D = np.bincount(document_M)
        end_M = np.repeat(np.cumsum(count_D), count_D)  # the place after the document of each word
        place_M = np.arange(many)
        window_M = random.integers(1, self._window + 1, many, dtype=np.int8)
        left_M = np.minimum(window_M, place_M - (end_M - np.repeat(count_D, count_D)))
        right_M = np.minimum(window_M, end_M - 1 - place_M)
        steps = max(1, -(-many // (self._rows * self._length)))
        lane = steps * self._length
        empty = self._rows * lane - many
        left_L, right_L = (np.pad(side.astype(np.int8), (0, empty)) for side in (left_M, right_M))
        predicting = ((left_L + right_L) > 0).reshape(self._rows, steps, self._length).sum((0, 2))
        draws = random.random((steps, SAMPLES))
        negatives = np.searchsorted(self._cumulated_V, draws, side="right").clip(max=len(self._kept_V) - 1)
        return _Epoch(
            torch.from_numpy(np.pad(ids_M.astype(np.int32), (self._window, self._window + empty))),
            torch.from_numpy(left_L),
            torch.from_numpy(right_L),
            torch.from_numpy(negatives),
            predicting,
            lane,
        )
