"""The figures of a word embedding on a text: the loss of predicting neighbours, or reconstructed words.

Shape legend: N words, V vocabulary.
"""

import torch
from torch import Tensor

from regard.models.embedding import Embedding
from regard.tokens.neighbours import NeighbourSchedule, Words

ROWS, LENGTH = 8, 32  # of the batches
SEED = 0  # of the windows and negative samples: two measurements of a text read the same


@torch.no_grad()
def neighbour_loss(model: Embedding, words: Words) -> float | None:
    """Return the mean loss over the words of a text. None: no word has a neighbour in the vocabulary.

    Frequent words are left out, and negative samples drawn, by the counts of this text.
    """
    if len(words.known_ids()) < 2:
        return None
    config = model.config
    schedule = NeighbourSchedule(words, config.window, config.subsample, ROWS, LENGTH, SEED)
    summed, predicting = 0.0, 0
    for step in range(schedule.steps(0)):
        inputs = {name: tensor.to(model.device) for name, tensor in schedule.batch(0, step).items()}
        summed += float(model.loss(**inputs))
        predicting += schedule.predicting(0, step)
    return summed / predicting if predicting else None


@torch.no_grad()
def reconstructed(model: Embedding, words_N: Tensor) -> tuple[float, float]:
    """Return the mean loss of reconstructing each word, and the share whose own output is the largest."""
    parts = words_N.to(model.device).split(1 << 10)
    loss = sum(float(model.reconstruction_loss(part)) for part in parts)
    right = sum(
        int(((model.embedding(part) @ model.outputs.weight.T).argmax(1) == part).sum()) for part in parts
    )
    return loss / len(words_N), right / len(words_N)
