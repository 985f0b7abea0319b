"""The probabilities of all tokens of a text under an n-gram model in a file, which is read in order.

A chunk of the text is looked up in one pass over every tensor, so that memory holds only a part of the model.
The results are those of `Ngram.forward` and `NgramPrediction.nll`, to the bit.

Shape legend: N tokens of a chunk, A tokens whose context of an order was counted, H tokens whose n-gram of
an order was counted, D documents.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from regard.machine.columns import tensor_columns
from regard.tokens.contract import Encoded


@final
class FileScorer:
    """Reads the tensors of a model from its safetensors file."""

    def __init__(self, file: Path, vocabulary_size: int, order: int, size: int):
        """`size` tokens are scored at a time, and as many numbers of a tensor are in memory."""
        self._tensors, self._words = tensor_columns(file), vocabulary_size
        self._order, self._size = order, size

    def losses(self, text: Encoded) -> Iterator[Tensor]:
        """Yield -log P of the tokens of a text."""
        for first in range(0, len(text), self._size):
            last = min(first + self._size, len(text))
            begin = max(0, first - self._order + 1)  # the first token's n-grams begin here
            read_N = text.ids_N[max(0, begin - 1) : last].long()
            if begin == 0:
                read_N = torch.cat([read_N.new_tensor([self._words]), read_N])
            inside = torch.searchsorted(text.ends_D, torch.tensor([begin, last])).tolist()
            starts_D = text.ends_D[slice(*inside)] - begin  # a document ends there, and the next begins
            text.release()
            yield -self._log_probs(read_N[1:], read_N[:-1].clone(), starts_D)[first - begin :].double()

    def _log_probs(self, word_N: Tensor, before_N: Tensor, starts_D: Tensor) -> Tensor:
        """Return log P of tokens after the tokens before them. New documents begin at `starts_D`."""
        before_N[starts_D] = self._words  # the start mark
        new_N = torch.zeros(len(word_N) + 1, dtype=torch.bool)
        new_N[starts_D] = True
        new_N[-1] = True
        log_prob_N = self._take("log_prob_1", word_N)
        place_A, node_A = torch.arange(len(word_N)), before_N  # every token has a context of one token
        for order in range(2, self._order + 1):
            log_prob_N[place_A] += self._take(f"backoff_{order - 1}", node_A)
            key_A = node_A * self._words + word_N[place_A]
            node_A = self._tensors[f"key_{order}"].find(key_A, self._size)
            hits = (node_A >= 0).nonzero().squeeze(1)
            place_H, node_H = place_A[hits], node_A[hits]
            log_prob_N[place_H] = self._take(f"log_prob_{order}", node_H)
            place_H += 1  # these n-grams are contexts, unless the document ends
            inside = (~new_N[place_H]).nonzero().squeeze(1)
            place_A, node_A = place_H[inside], node_H[inside]
        return log_prob_N

    def _take(self, name: str, place_M: Tensor) -> Tensor:
        return self._tensors[name].take(place_M, self._size)
