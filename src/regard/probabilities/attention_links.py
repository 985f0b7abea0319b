"""Word alignments from the attention of a translator that reads the given translations (forced decoding).

Shape legend: H heads, T target positions, S source positions.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from regard.models.contract import LanguageModel
from regard.probabilities.ibm_models import count_links
from regard.probabilities.links import agreement, from_weights, to_words
from regard.probabilities.translation import crossing_sites, forced
from regard.text.parallel import Links, Parallel, words
from regard.tokens.contract import Tokenizer
from regard.tokens.pairs import EncodedPairs, batches_by_length
from regard.tokens.word_groups import line_groups

CHOSEN_ON = 50  # sentences on which the best layer and head are chosen
BUDGET = 1 << 12  # tokens of a batch
Way = Literal["shifted", "naive"]
Head = tuple[str, int]  # a site and a head of it


def attention_maps(
    model: LanguageModel,
    source: Tokenizer,
    target: Tokenizer,
    encoded: EncodedPairs,
    pairs: Parallel,
    way: Way = "shifted",
    mask_sinks: bool = True,
) -> dict[Head, list[Tensor]]:
    """For each layer and head, the weights of every pair: (target words, source words)."""
    maps: dict[Head, list[Tensor]] = {}
    for places_B in batches_by_length(encoded, BUDGET):
        for site, weights_BHTS in forced(model, encoded.source, encoded.target, places_B).items():
            for row, place in enumerate(places_B.tolist()):
                looked_at, written = (
                    line_groups(pairs.sources[place], source),
                    line_groups(pairs.targets[place], target),
                )
                end = looked_at[-1].stop
                cut_HTS = weights_BHTS[row, :, : written[-1].stop + 1, : end + 1]
                columns = looked_at if mask_sinks else [*looked_at, range(end, end + 1)]
                for head, weights_TS in enumerate(cut_HTS):
                    of_head = maps.setdefault((site, head), [torch.empty(0)] * len(encoded))
                    of_head[place] = to_words(weights_TS, columns, written, way == "shifted")
    return maps


def links_of_heads(maps: dict[Head, list[Tensor]], pairs: Parallel) -> dict[Head, list[Links]]:
    sizes = [len(words(line)) for line in pairs.sources]
    return {
        head: [from_weights(*both) for both in zip(weights, sizes, strict=True)]
        for head, weights in maps.items()
    }


def best_head(links: dict[Head, list[Links]], gold: Sequence[Links]) -> tuple[Head, int]:
    """The layer and head that agree best with the first sentences, and how many sentences were used; 0 if there is only one head."""
    some = 0 if len(links) == 1 else min(CHOSEN_ON, (len(gold) + 1) // 2)
    return min(links, key=lambda head: agreement(links[head][:some], gold[:some]).aer), some


def measured_on(chosen_on: int, pairs: Parallel) -> slice:
    """The sentences that a head is measured on: never those that it was chosen on."""
    return slice(chosen_on if pairs.alignments is not None and chosen_on < len(pairs) else 0, None)


def model_1(pairs: Parallel) -> list[Links]:
    return count_links([words(line) for line in pairs.sources], [words(line) for line in pairs.targets])


def attention_error_rate(
    model: LanguageModel, source: Tokenizer, target: Tokenizer, encoded: EncodedPairs, pairs: Parallel
) -> float | None:
    """The alignment error rate of the best head, if the right links are known and the model has attention over the source."""
    if pairs.alignments is None or not crossing_sites(model):
        return None
    links = links_of_heads(attention_maps(model, source, target, encoded, pairs), pairs)
    head, some = best_head(links, pairs.alignments)
    rest = measured_on(some, pairs)
    possible = pairs.possible or pairs.alignments
    return agreement(links[head][rest], pairs.alignments[rest], possible[rest]).aer
