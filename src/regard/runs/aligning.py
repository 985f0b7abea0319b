"""Word alignments of parallel text: from a translator's attention, or counted without one; measured where the truth is known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.aligners import CountedName, count_links
from regard.inside.alignment import Symmetry, agreement, check_links, from_weights, parse_links, symmetrised, to_words
from regard.inside.record import Record
from regard.inside.words import line_groups
from regard.probabilities import translating
from regard.runs.folder import Run, as_run
from regard.runs.translations import encoded_pairs, held_out, tokenizers_of, translator_of
from regard.text import parallel
from regard.text.files import read_file
from regard.text.parallel import Links, Parallel, words
from regard.tokens.pairs import EncodedPairs, in_order_of_length

CHOSEN_ON = 50  # sentences on which the best layer and head are chosen
Way = Literal["shifted", "naive"]
By = Literal["attention", "model-1", "hmm"]
Maps = dict[tuple[str, int], list[Tensor]]  # (site, head): the weights of every pair, (target words, source words)


@dataclass(frozen=True)
class Aligned:
    """Word alignments of sentence pairs, and what they were made by."""

    pairs: Parallel
    links: list[Links]
    by: By
    baseline: list[Links]  # IBM Model 1's
    site: str | None = None
    head: int | None = None
    weights: list[Tensor] | None = None  # of each pair, where attention was read: (target words, source words)
    chosen_on: int = 0  # so many pairs, the first, chose the head by their known links: they are not measured on

    def measured(self) -> dict[str, float]:
        """How it compares with IBM Model 1, and with the truth where that is known."""
        told = {"agreement_with_model_1": 1 - agreement(self.links, self.baseline).aer}
        if self.pairs.alignments is None:
            return told
        sure, possible = self.pairs.alignments[self.chosen_on :], (self.pairs.possible or self.pairs.alignments)[self.chosen_on :]
        told |= vars(agreement(self.links[self.chosen_on :], sure, possible))
        return told | {"model_1_aer": agreement(self.baseline[self.chosen_on :], sure, possible).aer, "measured_on": len(sure)}

    def record(self, number: int) -> Record:
        """One pair as something to look at: weights, or links where nothing was weighed; what is right beside them."""
        source, target = words(self.pairs.sources[number]), words(self.pairs.targets[number])
        if self.weights is None:
            map_JI = torch.zeros(len(target), len(source))
            for i, j in self.links[number]:
                map_JI[j, i] = 1
        else:
            map_JI = self.weights[number]
            source += ["</s>"] * (map_JI.shape[1] - len(source))  # the end, where it may be looked at
        right = None if self.pairs.alignments is None else frozenset((j, i) for i, j in self.pairs.alignments[number])
        size = len(target)
        return Record(
            target, [None] * size, [[] for _ in target], list(range(size)), heads=None if self.head is None else [self.head], last=size,
            weights={self.site or self.by: map_JI.unsqueeze(0)}, columns=source, right=right,
        )  # fmt: skip


def align(
    run: Run | str | Path | None = None,
    pairs: Parallel | None = None,
    *,
    by: By = "attention",
    way: Way = "shifted",
    mask_sinks: bool = True,
    reverse: Run | str | Path | None = None,
    symmetry: Symmetry | None = None,
) -> Aligned:
    """Word alignments from attention under forced decoding, or counted without a network (`by` model-1 or hmm).

    Without pairs: those held out when the run was trained, or the built-in ones. The layer and head are those that agree best with the
    known links of the first sentences, or with Model 1 where none are known. A symmetry puts both directions together: with attention
    the other one is a run of its own, `reverse`.

    >>> regard.align("runs/recurrent-translator").measured()["aer"]  # doctest: +SKIP
    >>> regard.align(by="hmm", symmetry="grow-diag").links[0]  # doctest: +SKIP
    """
    if by == "attention":
        if run is None:
            raise UserError("attention needs a run (regard align RUN); --by model-1 and --by hmm need none")
        if symmetry is not None and reverse is None:
            raise UserError("--symmetry puts two directions together: name a run of the other one with --reverse, or count --by hmm")
        return _attended(as_run(run), pairs, way, mask_sinks, reverse, symmetry or "grow-diag")
    if reverse is not None:
        raise UserError(f"--by {by} counts both directions itself: give --symmetry without --reverse")
    pairs = pairs or (parallel.built_in() if run is None else held_out(as_run(run)))
    return Aligned(pairs, _counted(pairs, by, symmetry), by, _counted(pairs))


def _counted(pairs: Parallel, by: CountedName = "model-1", symmetry: Symmetry | None = None) -> list[Links]:
    return count_links([words(line) for line in pairs.sources], [words(line) for line in pairs.targets], by, symmetry)


def _attended(
    run: Run, pairs: Parallel | None, way: Way, mask_sinks: bool, reverse: Run | str | Path | None, symmetry: Symmetry
) -> Aligned:
    if not translator_of(run).crossing:
        raise UserError("this translator has no attention (--score none): there is nothing to align by")
    encoded, pairs = encoded_pairs(run, pairs or held_out(run))
    baseline = _counted(pairs)
    maps = _forced(run, encoded, pairs, way, mask_sinks)
    sizes = [len(words(line)) for line in pairs.sources]
    found = {one: [from_weights(*both) for both in zip(weights, sizes, strict=True)] for one, weights in maps.items()}
    (site, head), some = _chosen(found, pairs.alignments or baseline)
    links, chosen_on = found[site, head], some
    if reverse is not None:
        back = _attended(_backwards(reverse, pairs), pairs.turned(), way, mask_sinks, None, symmetry)
        if len(back.pairs) != len(pairs):
            raise UserError(f"{reverse}: reads shorter sentences than {run.folder}; leave the longest pairs out")
        links, chosen_on = symmetrised(links, back.links, symmetry), max(some, back.chosen_on)
    chosen_on = chosen_on if pairs.alignments is not None and chosen_on < len(pairs) else 0
    return Aligned(pairs, links, "attention", baseline, site, head, maps[site, head], chosen_on)


def _chosen(found: dict[tuple[str, int], list[Links]], gold: Sequence[Links]) -> tuple[tuple[str, int], int]:
    """The layer and head that agree best with the first sentences, and how many those were; none where there is no choice."""
    some = 0 if len(found) == 1 else min(CHOSEN_ON, (len(gold) + 1) // 2)
    return min(found, key=lambda one: agreement(found[one][:some], gold[:some]).aer), some


def _backwards(reverse: Run | str | Path, pairs: Parallel) -> Run:
    """A run of the other direction; one of the same would hardly know a word."""
    run = as_run(reverse)
    tokenizer = tokenizers_of(run)[0]
    ids = [token for line in pairs.targets for token in tokenizer.prompt(line)]
    if sum(token == tokenizer.unknown for token in ids) > len(ids) / 2:
        raise UserError(f"{reverse}: knows few of the target's words; --reverse is a run that translates back")
    return run


def _forced(run: Run, encoded: EncodedPairs, pairs: Parallel, way: Way, mask_sinks: bool) -> Maps:
    model, (source_tokenizer, tokenizer) = translator_of(run), tokenizers_of(run)
    found: Maps = {}
    for places_B in in_order_of_length(encoded, 1 << 12):
        for site, weights_BHTS in translating.forced(model, encoded.source, encoded.target, places_B).items():
            for row, place in enumerate(places_B.tolist()):
                source, target = line_groups(pairs.sources[place], source_tokenizer), line_groups(pairs.targets[place], tokenizer)
                end = source[-1].stop
                cut_HTS = weights_BHTS[row, :, : target[-1].stop + 1, : end + 1]
                columns = source if mask_sinks else [*source, range(end, end + 1)]
                for head, weights_TS in enumerate(cut_HTS):
                    kept = found.setdefault((site, head), [torch.empty(0)] * len(encoded))
                    kept[place] = to_words(weights_TS, columns, target, way == "shifted")
    return found


def with_gold(pairs: Parallel, name: str, index: int) -> Parallel:
    """Pairs with the right links of a file, which has a line for each of them, or for each line of the text they are from."""
    right = read_links(name, index)
    places = range(len(pairs)) if pairs.places is None or len(right) == len(pairs) else pairs.places
    if len(right) not in (len(pairs), pairs.lines):
        raise UserError(f"{name} has {len(right)} lines for {len(pairs)} sentence pairs")
    chosen = [right[place] for place in places]
    for place, (sure, possible), source, target in zip(places, chosen, pairs.sources, pairs.targets, strict=True):
        check_links(sure | possible, source, target, f"{name}: line {place + 1}", index)
    return replace(pairs, alignments=[sure for sure, _ in chosen], possible=[sure | possible for sure, possible in chosen])


def score_links(found: str, gold: str, index: int = 0, gold_index: int = 0, pairs: Parallel | None = None) -> dict[str, Any]:
    """Precision, recall and error rate of one alignment file against another; where sentences are given, no link lies outside its own."""
    one, right = read_links(found, index), read_links(gold, gold_index)
    if len(one) != len(right):
        raise UserError(f"{found} has {len(one)} lines and {gold} {len(right)}: give alignments of the same sentences")
    if pairs is not None and len(one) != pairs.lines:
        raise UserError(f"{found} has {len(one)} lines and the text {pairs.lines}: give alignments of the same sentences")
    for name, links, first in ((found, one, index), (gold, right, gold_index)):
        lines = [] if pairs is None else list(zip(pairs.places or range(len(pairs)), pairs.sources, pairs.targets, strict=True))
        for place, source, target in lines:
            check_links(links[place][0] | links[place][1], source, target, f"{name}: line {place + 1}", first)
    return vars(agreement([sure | possible for sure, possible in one], [sure for sure, _ in right], [possible for _, possible in right]))


def read_links(name: str, index: int) -> list[tuple[Links, Links]]:
    if index not in (0, 1):
        raise UserError("--index and --gold-index are 0 or 1: the number of the first word")
    empty = Path(name).is_file() and Path(name).stat().st_size == 0  # an alignment of no sentences is one too
    return parse_links("" if empty else read_file(name).text, name, index)
