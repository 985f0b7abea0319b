"""Sentence pairs as integers, and batches of them: similar lengths together, a budget of tokens a batch, padded on the right.

Shape legend: B rows, S source positions, T target positions, N tokens of all sentences, P pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.text.parallel import Parallel
from regard.tokens.batches import Batch, Rows, shift_right
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.schedule import Schedule


@dataclass(frozen=True)
class EncodedPairs:
    """Documents are sentences, each with its end; pair i is document i of both."""

    source: Encoded
    target: Encoded
    too_long: int = 0  # pairs left out because a side has more tokens than the limit

    def __len__(self) -> int:
        return len(self.source.ends_D)


def encode_lines(tokenizer: Tokenizer, lines: list[str]) -> Encoded:
    ids, ends = tokenizer.encode_documents(lines)
    return tokenizer.encoded(ids, ends, sum(len(line.encode()) + 1 for line in lines))


def encode_pairs(
    pairs: Parallel, source: Tokenizer, target: Tokenizer, limit: int, what: str = "pair"
) -> tuple[EncodedPairs, Parallel]:
    """The pairs as integers, and the pairs that were taken. Pairs with more than `limit` tokens on a side are left out and counted."""
    both = [encode_lines(source, pairs.sources), encode_lines(target, pairs.targets)]
    fits_P = ((both[0].lengths_D) <= limit) & ((both[1].lengths_D) <= limit)
    if bool(fits_P.all()):
        return EncodedPairs(both[0], both[1]), pairs
    kept = pairs.part(fits_P.nonzero().squeeze(1).tolist())
    if not len(kept):
        raise UserError(
            f"{pairs.name}: every {what} has more than {limit} tokens on a side; raise `longest` or `context`"
        )
    encoded = EncodedPairs(
        encode_lines(source, kept.sources), encode_lines(target, kept.targets), int((~fits_P).sum())
    )
    return encoded, kept


def source_rows(source: Encoded, places_B: Tensor, padding: int) -> Tensor:
    """(B, S): whole sentences with their ends."""
    return gather(source, places_B, padding)[0]


def target_rows(target: Encoded, places_B: Tensor, start: int, padding: int) -> Rows:
    """Whole sentences with their ends as targets, behind the start mark."""
    targets_BT, places_BT = gather(target, places_B, -1)
    tokens_BT = torch.where(places_BT >= 0, shift_right(targets_BT, start), padding)
    return Rows(tokens_BT, targets_BT, places_BT)


def gather(text: Encoded, places_B: Tensor, filler: int) -> tuple[Tensor, Tensor]:
    """(ids_BT, place_BT): sentences as rows, padded on the right with `filler`; place -1 is padding."""
    start_B, end_B = text.starts_D[places_B], text.ends_D[places_B]
    place_BT = start_B.unsqueeze(1) + torch.arange(int((end_B - start_B).max()))
    place_BT = torch.where(place_BT < end_B.unsqueeze(1), place_BT, -1)
    return torch.where(place_BT >= 0, text.ids_N[place_BT.clamp(min=0)].long(), filler), place_BT


def cut_into_batches(pairs: EncodedPairs, budget: int, order_P: Tensor) -> list[Tensor]:
    """The pairs in this order, cut where the longest side of a batch times its rows would pass the budget."""
    length_P = torch.maximum(pairs.source.lengths_D, pairs.target.lengths_D)[order_P]
    cut, first, longest = [], 0, 0
    for place, length in enumerate(length_P.tolist()):
        if place > first and max(longest, length) * (place - first + 1) > budget:
            cut.append(order_P[first:place])
            first, longest = place, 0
        longest = max(longest, length)
    return [*cut, order_P[first:]]


def batches_by_length(pairs: EncodedPairs, budget: int) -> Iterator[Tensor]:
    """All pairs once, a batch at a time, for measuring and aligning."""
    length_P = pairs.source.lengths_D + pairs.target.lengths_D
    yield from cut_into_batches(pairs, budget, length_P.argsort(stable=True))


def pair_batches(
    pairs: EncodedPairs, *, start: int, padding: int, source_padding: int, budget: int
) -> Iterator[Batch]:
    """All pairs once: the state of a row begins with the source sentence, and the row is the target sentence."""
    for places_B in batches_by_length(pairs, budget):
        rows = target_rows(pairs.target, places_B, start, padding)
        yield Batch(source_rows(pairs.source, places_B, source_padding), iter([rows]))


POOL = 32  # batches among which lengths are sorted: nearly no padding, and no two epochs alike


@final
class PairSchedule(Schedule):
    """Shuffled pairs. Within a pool of many batches, pairs of similar length stand together; then the batches are shuffled."""

    def __init__(self, pairs: EncodedPairs, budget: int, seed: int, source_padding: int):
        self._pairs, self._budget, self._seed, self._epoch, self._padding = (
            pairs,
            budget,
            seed,
            -1,
            source_padding,
        )
        self._length_P = torch.maximum(pairs.source.lengths_D, pairs.target.lengths_D)
        self._batches = list[Tensor]()

    def _deal(self, epoch: int) -> list[Tensor]:
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
            order_P = torch.randperm(len(self._pairs), generator=generator)
            pool = max(1, POOL * self._budget // max(1, int(self._length_P.float().mean())))
            parts = [part[self._length_P[part].argsort(stable=True)] for part in order_P.split(pool)]
            dealt = [batch for part in parts for batch in cut_into_batches(self._pairs, self._budget, part)]
            self._batches = [
                dealt[number] for number in torch.randperm(len(dealt), generator=generator).tolist()
            ]
            self._epoch = epoch
        return self._batches

    def steps(self, epoch: int) -> int:
        return len(self._deal(epoch))

    def places(self, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        pairs_B = self._deal(epoch)[step]
        return gather(self._pairs.target, pairs_B, 0)[1], torch.ones(len(pairs_B), dtype=torch.bool)

    def sources(self, epoch: int, step: int) -> Tensor:
        return source_rows(self._pairs.source, self._deal(epoch)[step], self._padding)
