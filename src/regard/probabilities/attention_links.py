"""Word alignments from attention: the weights of a translator while it reads given translations.

Shape legend: H heads, T target positions, S source positions.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from regard.models.contract import LanguageModel
from regard.probabilities.ibm_models import count_links
from regard.probabilities.links import agreement, links_from_weights, weights_by_word
from regard.probabilities.translation import crossing_sites, forced_attention
from regard.text.parallel import Links, Parallel, words
from regard.tokens.contract import Tokenizer
from regard.tokens.pairs import EncodedPairs, batches_by_length
from regard.tokens.word_groups import line_groups

SELECTION = 50  # the maximal number of sentences on which the best layer and head are selected
BUDGET = 1 << 12  # the maximal number of tokens in a batch
Way = Literal[
    "shifted", "naive"
]  # the row of a target word: the state that predicts it, or the state after it
Head = tuple[str, int]  # the name of a site, and the number of one of its heads


def attention_maps(
    model: LanguageModel,
    source: Tokenizer,
    target: Tokenizer,
    encoded: EncodedPairs,
    pairs: Parallel,
    way: Way = "shifted",
    mask_sinks: bool = True,
) -> dict[Head, list[Tensor]]:
    """Return the attention weights of every sentence pair (target words, source words), by layer and head.

    With `mask_sinks`, the weights on the end of the source are left out. Without it, they have a column of
    their own, and a target word whose largest weight lies there gets no link.
    """
    maps: dict[Head, list[Tensor]] = {}
    for places_B in batches_by_length(encoded, BUDGET):
        for site, weights_BHTS in forced_attention(model, encoded, places_B).items():
            for row, place in enumerate(places_B.tolist()):
                source_words = line_groups(pairs.sources[place], source)
                target_words = line_groups(pairs.targets[place], target)
                end = source_words[-1].stop
                cut_HTS = weights_BHTS[row, :, : target_words[-1].stop + 1, : end + 1]
                columns = source_words if mask_sinks else [*source_words, range(end, end + 1)]
                for head, weights_TS in enumerate(cut_HTS):
                    maps_of_head = maps.setdefault((site, head), [torch.empty(0)] * len(encoded))
                    maps_of_head[place] = weights_by_word(weights_TS, columns, target_words, way == "shifted")
    return maps


def links_of_heads(maps: dict[Head, list[Tensor]], pairs: Parallel) -> dict[Head, list[Links]]:
    """Return the links that each head's weights give, one set for each sentence pair."""
    sizes = [len(words(line)) for line in pairs.sources]
    return {
        head: [links_from_weights(*pair) for pair in zip(weights, sizes, strict=True)]
        for head, weights in maps.items()
    }


def best_head(links: dict[Head, list[Links]], gold: Sequence[Links]) -> tuple[Head, int]:
    """Select the layer and head with the lowest error rate on the first sentences.

    Returns the head and the number of sentences that were used. A single head needs no selection: the number
    is 0.
    """
    count = 0 if len(links) == 1 else min(SELECTION, (len(gold) + 1) // 2)
    return min(links, key=lambda head: agreement(links[head][:count], gold[:count]).aer), count


def sentences_to_measure(count: int, pairs: Parallel) -> slice:
    """Return the sentences on which a head is measured: all after the `count` that selected it."""
    return slice(count if pairs.alignments is not None and count < len(pairs) else 0, None)


def model_1(pairs: Parallel) -> list[Links]:
    """Return the links of IBM Model 1, estimated on the pairs themselves."""
    return count_links([words(line) for line in pairs.sources], [words(line) for line in pairs.targets])


def attention_error_rate(
    model: LanguageModel, source: Tokenizer, target: Tokenizer, encoded: EncodedPairs, pairs: Parallel
) -> float | None:
    """Return the alignment error rate of the best head.

    The result is None if the gold links are unknown or the model has no attention over the source.
    """
    if pairs.alignments is None or not crossing_sites(model):
        return None
    links = links_of_heads(attention_maps(model, source, target, encoded, pairs), pairs)
    head, count = best_head(links, pairs.alignments)
    rest = sentences_to_measure(count, pairs)
    possible = pairs.possible or pairs.alignments
    return agreement(links[head][rest], pairs.alignments[rest], possible[rest]).aer
