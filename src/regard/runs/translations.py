"""What a finished translator does: it translates, is measured, and aligns words."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.alignment import Links, ModelOne, agreement, from_weights, to_words
from regard.inside.pictures import heat_map
from regard.inside.words import word_starts
from regard.models.translation import Translator
from regard.probabilities import translating
from regard.probabilities.decoding import Sampling
from regard.probabilities.measures import pair_losses
from regard.probabilities.quality import bleu, chrf
from regard.probabilities.translating import Translation
from regard.runs.folder import Run, as_run
from regard.runs.machine import to_best_device
from regard.text import parallel
from regard.text.parallel import Parallel
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import EncodedPairs, encode_pairs, in_order_of_length

CHOSEN_ON = 50  # sentences on which the best layer and head are chosen
Way = Literal["shifted", "naive"]


def translate(
    run: Run | str | Path,
    texts: str | Sequence[str],
    *,
    beam: int = 5,
    penalty: float = 1.0,
    count: int = 1,
    temperature: float | None = None,
    seed: int = 1,
) -> list[list[Translation]]:
    """The `count` best translations of each sentence, the best first; with a temperature they are sampled.

    >>> regard.translate("runs/recurrent-translator", "I love you a lot")[0][0].text  # doctest: +SKIP
    'Te amo mucho'
    """
    run = as_run(run)
    if beam < 1:
        raise UserError("--beam must be 1 or more")
    lines = [texts] if isinstance(texts, str) else list(texts)
    sampling = None if temperature is None else Sampling(temperature=temperature)
    found = translating.translate(
        run.model,
        run.source,
        run.tokenizer,
        lines,
        beam=max(beam, count) if sampling else beam,
        penalty=penalty,
        count=count,
        sampling=sampling,
        seed=seed,
    )
    return list(found)


@dataclass(frozen=True)
class TranslationMeasure:
    """How well a translator does on parallel text; sacrebleu's signatures say how BLEU and chrF were measured."""

    bleu: float
    chrf: float
    loss: float
    perplexity: float
    sentences: int
    tokens: int
    left_out: int
    seconds: float
    signatures: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        return vars(self)


def evaluate_translations(run: Run | str | Path, pairs: Parallel | None = None, *, beam: int = 5) -> TranslationMeasure:
    """BLEU and chrF of what it translates, perplexity of what it should have said. Without pairs: those held out when it was trained."""
    run = as_run(run)
    to_best_device(run.model)
    encoded, pairs = _encoded(run, pairs or held_out(run))
    began = time.perf_counter()
    said = translating.translate_lines(run.model, run.source, run.tokenizer, pairs.sources, beam=beam)
    seconds = time.perf_counter() - began
    loss = float(pair_losses(_translator(run), encoded).mean())
    qualities = {"bleu": bleu(said, pairs.targets), "chrf": chrf(said, pairs.targets)}
    return TranslationMeasure(
        **{name: quality.score for name, quality in qualities.items()},
        loss=loss, perplexity=math.exp(loss), sentences=len(pairs), tokens=len(encoded.target), left_out=encoded.too_long + pairs.empty,
        seconds=seconds,
        signatures={name: quality.signature for name, quality in qualities.items()},
    )  # fmt: skip


def held_out(run: Run) -> Parallel:
    """The validation pairs of a run's training, read again."""
    (record,) = run.config["texts"]["valid"]
    (trained,) = run.config["texts"]["train"]
    files = record["name"].split(" ")
    if record["name"] == parallel.BUILT_IN:
        whole = parallel.built_in()
    else:
        whole = parallel.read_files(*files) if len(files) == 2 else parallel.read_table(record["name"])
    pairs = parallel.hold_out(whole)[1] if record["name"] == trained["name"] else whole
    limit = run.config["longest"]
    _, pairs = encode_pairs(pairs, *_tokenizers(run), limit)
    if pairs.record()["sha256"] != record["sha256"]:
        raise UserError(f"{record['name']}: has changed since the run was trained; name the text yourself: --source FILE --target FILE")
    return pairs


@dataclass(frozen=True)
class Aligned:
    """Word alignments of sentence pairs, and what they were read from."""

    pairs: Parallel
    links: list[Links]
    site: str
    head: int
    agreement_with_baseline: float  # 1 - AER against IBM Model 1
    baseline: list[Links]
    weights: list[Tensor]  # of each pair: (target words, source words)

    def picture(self, number: int) -> str:
        """The weights of one pair, what is right framed where it is known."""
        source, target = self.pairs.sources[number].split(), self.pairs.targets[number].split()
        right = () if self.pairs.alignments is None else {(j, i) for i, j in self.pairs.alignments[number]}
        return heat_map(self.weights[number].numpy(), target, source, f"{self.site}, head {self.head}", right)


def align(run: Run | str | Path, pairs: Parallel | None = None, *, way: Way = "shifted", mask_sinks: bool = True) -> Aligned:
    """Word alignments from attention under forced decoding; IBM Model 1, counted on the same pairs, stands beside them.

    The layer and head are those that agree best with the known alignment of the first sentences, or with Model 1 where none is known.
    """
    run = as_run(run)
    model = _translator(run)
    if not model.crossing:
        raise UserError("this translator has no attention (--score none): there is nothing to align by")
    encoded, pairs = _encoded(run, pairs or held_out(run))
    words = [(source.split(), target.split()) for source, target in zip(pairs.sources, pairs.targets, strict=True)]
    counted = ModelOne(*zip(*words, strict=True))  # type: ignore[arg-type]
    baseline = [counted.align(*both) for both in words]
    maps = _forced(run, encoded, way, mask_sinks)
    gold = pairs.alignments or baseline
    some = min(CHOSEN_ON, len(pairs))
    site, head = min(maps, key=lambda one: agreement([from_weights(weights) for weights in maps[one][:some]], gold[:some]).aer)
    links = [from_weights(weights) for weights in maps[site, head]]
    return Aligned(pairs, links, site, head, 1 - agreement(links, baseline).aer, baseline, maps[site, head])


def _forced(run: Run, encoded: EncodedPairs, way: Way, mask_sinks: bool) -> dict[tuple[str, int], list[Tensor]]:
    """(site, head): the weights of every pair, by words: (target words, source words)."""
    model, (source_tokenizer, tokenizer) = _translator(run), _tokenizers(run)
    found: dict[tuple[str, int], list[Tensor]] = {}
    for places_B in in_order_of_length(encoded, 1 << 12):
        for site, weights_BHTS in translating.forced(model, encoded.source, encoded.target, places_B).items():
            for row, place in enumerate(places_B.tolist()):
                source, target = _words(source_tokenizer, encoded.source, place), _words(tokenizer, encoded.target, place)
                end = source[-1].stop
                cut_HTS = weights_BHTS[row, :, : target[-1].stop + 1, : end + 1]
                for head, weights_TS in enumerate(cut_HTS):
                    kept = found.setdefault((site, head), [torch.empty(0)] * len(encoded))
                    kept[place] = to_words(weights_TS, source, target, way == "shifted", [end] if mask_sinks else ())
    return found


def _words(tokenizer: Tokenizer, text: Encoded, place: int) -> list[range]:
    """Which tokens each word of a sentence is made of; the end is none."""
    ids = text.ids_N[text.starts_D[place] : text.ends_D[place] - 1].tolist()
    if tokenizer.kind == "word":
        return [range(number, number + 1) for number in range(len(ids))]
    starts = word_starts([tokenizer.name(token) for token in ids])
    return [range(first, last) for first, last in zip(starts, [*starts[1:], len(ids)], strict=True)]


def _encoded(run: Run, pairs: Parallel) -> tuple[EncodedPairs, Parallel]:
    model = _translator(run)
    return encode_pairs(pairs, *_tokenizers(run), model.source_limit or 1 << 30)


def _tokenizers(run: Run) -> tuple[Tokenizer, Tokenizer]:
    _translator(run)
    assert run.source is not None
    return run.source, run.tokenizer


def _translator(run: Run) -> Translator:
    if not isinstance(run.model, Translator):
        raise UserError(f"{run.model.family} does not translate; train a recurrent-translator or a transformer-translator")
    return run.model
