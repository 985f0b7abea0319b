"""Encoded sentence pairs, and batches of pairs with similar lengths, for training and measuring translators.

Captions of images (captions.py) are read in the same way: what a pair's state begins with is an image.

Shape legend: B rows, S source positions, T target positions, N tokens of all sentences, P pairs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.text.parallel import Parallel
from regard.tokens.batches import Batch, Rows, shift_right
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.schedule import Schedule, epoch_generator


class GivenExamples(ABC):
    """Encoded texts, each with what its state begins with. Example i is document i of the target."""

    target: Encoded

    def __len__(self) -> int:
        return len(self.target.ends_D)

    @property
    @abstractmethod
    def lengths_P(self) -> Tensor:
        """The number of positions that each example takes in a batch, on its longer side."""


@final
@dataclass(frozen=True)
class EncodedPairs(GivenExamples):
    """Sentence pairs. Pair i is document i of the source, and document i of the target."""

    source: Encoded
    target: Encoded
    too_long: int = 0  # the number of pairs that were left out because a side has too many tokens

    @property
    def lengths_P(self) -> Tensor:
        return torch.maximum(self.source.lengths_D, self.target.lengths_D)


def encode_lines(tokenizer: Tokenizer, lines: list[str]) -> Encoded:
    """Encode lines as documents."""
    return tokenizer.encode_whole(lines, sum(len(line.encode()) + 1 for line in lines))


def encode_pairs(
    pairs: Parallel, source: Tokenizer, target: Tokenizer, limit: int, noun: str = "pair"
) -> tuple[EncodedPairs, Parallel]:
    """Encode the pairs. Return the encoded pairs and their text.

    Pairs with more than `limit` tokens on a side are left out and counted. `noun` names a pair in the error
    message.
    """
    both = [encode_lines(source, pairs.sources), encode_lines(target, pairs.targets)]
    fits_P = ((both[0].lengths_D) <= limit) & ((both[1].lengths_D) <= limit)
    if bool(fits_P.all()):
        return EncodedPairs(both[0], both[1]), pairs
    short = pairs.part(fits_P.nonzero().squeeze(1).tolist())
    if not len(short):
        raise UserError(
            f"{pairs.name}: every {noun} has more than {limit} tokens on a side; raise `longest` or `context`"
        )
    encoded = EncodedPairs(
        encode_lines(source, short.sources), encode_lines(target, short.targets), int((~fits_P).sum())
    )
    return encoded, short


def source_rows(source: Encoded, places_B: Tensor, padding: int) -> Tensor:
    """(B, S): source sentences with their end tokens, padded on the right."""
    return gather(source, places_B, padding)[0]


def target_rows(target: Encoded, places_B: Tensor, start: int, padding: int) -> Rows:
    """Return target sentences. The inputs begin with the start mark, the targets end with the end token."""
    targets_BT, places_BT = gather(target, places_B, -1)
    tokens_BT = torch.where(places_BT >= 0, shift_right(targets_BT, start), padding)
    return Rows(tokens_BT, targets_BT, places_BT)


def gather(text: Encoded, places_B: Tensor, filler: int) -> tuple[Tensor, Tensor]:
    """Return sentences as rows of ids, padded with `filler`, and the place of each id in the text.

    The place of padding is -1.
    """
    start_B, end_B = text.starts_D[places_B], text.ends_D[places_B]
    place_BT = start_B.unsqueeze(1) + torch.arange(int((end_B - start_B).max()))
    place_BT = torch.where(place_BT < end_B.unsqueeze(1), place_BT, -1)
    return torch.where(place_BT >= 0, text.ids_N[place_BT.clamp(min=0)].long(), filler), place_BT


def cut_into_batches(pairs: GivenExamples, budget: int, order_P: Tensor) -> list[Tensor]:
    """Divide the pairs, in this order, into batches. Longest side times rows is at most the budget."""
    length_P = pairs.lengths_P[order_P]
    batches, first, longest = [], 0, 0
    for place, length in enumerate(length_P.tolist()):
        if place > first and max(longest, length) * (place - first + 1) > budget:
            batches.append(order_P[first:place])
            first, longest = place, 0
        longest = max(longest, length)
    return [*batches, order_P[first:]]


def batches_by_length(pairs: GivenExamples, budget: int) -> Iterator[Tensor]:
    """Yield batches of pairs, as indices, for measuring and aligning. Every pair is in one batch."""
    length_P = pairs.lengths_P + pairs.target.lengths_D
    yield from cut_into_batches(pairs, budget, length_P.argsort(stable=True))


def pair_batches(
    pairs: GivenExamples, given_rows: Callable[[Tensor], Tensor], *, start: int, padding: int, budget: int
) -> Iterator[Batch]:
    """Yield batches of pairs. `given_rows(places_B)` begins the states, and the targets are the rows."""
    for places_B in batches_by_length(pairs, budget):
        rows = target_rows(pairs.target, places_B, start, padding)
        yield Batch(given_rows(places_B), iter([rows]))


# Pairs are sorted by length within a pool of this many batches. Batches then need little padding, and still
# differ from epoch to epoch.
POOL = 32


class ExampleSchedule(Schedule, ABC):
    """A schedule whose steps are examples. Each example is a row with a state of its own."""

    examples: GivenExamples

    @abstractmethod
    def chosen(self, epoch: int, step: int) -> Tensor:
        """Return the examples of a step."""

    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        chosen_B = self.chosen(epoch, step)
        return gather(self.examples.target, chosen_B, 0)[1], torch.ones(len(chosen_B), dtype=torch.bool)


@final
class PairSchedule(ExampleSchedule):
    """Batches of shuffled pairs. Pairs are sorted by length within pools, and batches are shuffled again."""

    def __init__(self, pairs: GivenExamples, budget: int, seed: int):
        self.examples, self._budget, self._seed = pairs, budget, seed
        self._epoch = -1
        self._length_P = pairs.lengths_P
        self._batches = list[Tensor]()

    def _batches_of(self, epoch: int) -> list[Tensor]:
        """Return the batches of an epoch, as indices of pairs."""
        if epoch != self._epoch:
            generator = epoch_generator(self._seed, epoch)
            order_P = torch.randperm(len(self.examples), generator=generator)
            pool = max(1, POOL * self._budget // max(1, int(self._length_P.float().mean())))
            parts = [part[self._length_P[part].argsort(stable=True)] for part in order_P.split(pool)]
            batches = [
                batch for part in parts for batch in cut_into_batches(self.examples, self._budget, part)
            ]
            shuffled = torch.randperm(len(batches), generator=generator).tolist()
            self._batches = [batches[number] for number in shuffled]
            self._epoch = epoch
        return self._batches

    def steps(self, epoch: int) -> int:
        return len(self._batches_of(epoch))

    def chosen(self, epoch: int, step: int) -> Tensor:
        return self._batches_of(epoch)[step]
