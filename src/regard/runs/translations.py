"""What a finished translator does: it translates, and is measured."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.inside.editing import edit_model
from regard.inside.edits import Set
from regard.inside.words import line_groups, word_groups
from regard.models.translation import Translator
from regard.probabilities import translating
from regard.probabilities.decoding import Sampling
from regard.probabilities.measures import pair_losses
from regard.probabilities.quality import Difference, bleu, chrf, paired
from regard.probabilities.translating import Translation
from regard.runs.folder import Run, as_run
from regard.runs.machine import Precision, in_precision, to_best_device
from regard.text import parallel
from regard.text.parallel import Parallel
from regard.tokens.contract import Tokenizer
from regard.tokens.pairs import EncodedPairs, encode_pairs

MOST_PENALTY = 10
FEWEST = 10  # sentences that can be drawn from


def translate(
    run: Run | str | Path,
    texts: str | Sequence[str],
    *,
    beam: int = 5,
    penalty: float = 1.0,
    count: int = 1,
    temperature: float | None = None,
    seed: int = 1,
    precision: Precision = "fp32",
) -> list[list[Translation]]:
    """The `count` best translations of each sentence, the best first; with a temperature they are sampled.

    In bf16, which `auto` takes where it is faster, scores have three digits.

    >>> regard.translate("runs/recurrent-translator", "I love you a lot")[0][0].text  # doctest: +SKIP
    'Te amo mucho'
    """
    run = as_run(run)
    if not abs(penalty) <= MOST_PENALTY:
        raise UserError(f"--length-penalty lies between -{MOST_PENALTY} and {MOST_PENALTY}")
    lines = [texts] if isinstance(texts, str) else list(texts)
    sampling = None if temperature is None else Sampling(temperature=temperature)
    with in_precision(precision):
        found = translating.translate(
            run.model, run.source, run.tokenizer, lines, beam=max(beam, count) if sampling else beam, penalty=penalty, count=count,
            sampling=sampling, seed=seed,
        )  # fmt: skip
        return list(found)


def what_if(
    run: Run | str | Path, text: str, link: tuple[int, int], *, beam: int = 5, penalty: float = 1.0
) -> tuple[Translation, Translation]:
    """(before, after): a translation, and what becomes of it when target word j is made to look at source word i alone.

    The words before j stay as they were; the rest is searched for again. In a Transformer every layer and head is made to look there; of
    a word of several tokens it is the first that is made to.

    >>> before, after = regard.what_if("runs/recurrent-translator", "I love you a lot", (4, 1))  # doctest: +SKIP
    """
    run = as_run(run)
    model, (source, target) = translator_of(run), tokenizers_of(run)
    if not model.crossing:
        raise UserError("this translator has no attention (--score none): there is no link to move")
    ((before, *_),) = translate(run, text, beam=beam, penalty=penalty)
    looked_at, said = line_groups(text, source), word_groups(before.tokens, target.kind)
    looked_at.append(range(looked_at[-1].stop, looked_at[-1].stop + 1))  # the end can be looked at too
    i, j = link
    if not (0 <= i < len(looked_at) and 0 <= j < len(said)):
        raise UserError(f"{i}-{j} lies outside: source words go from 0 to {len(looked_at) - 1}, target words from 0 to {len(said) - 1}")
    columns, row = tuple(looked_at[i]), said[j].start
    edits = [Set(site=site, rows=(row,), columns=columns, value=1 / len(columns)) for site in model.crossing]
    ((after,),) = translating.translate(
        edit_model(model, target, edits), source, target, [text], beam=beam, penalty=penalty, said=before.ids[:row]
    )  # fmt: skip
    return before, after


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
    encoded, pairs = encoded_pairs(run, pairs or held_out(run))
    began = time.perf_counter()
    said = translating.translate_lines(run.model, run.source, run.tokenizer, pairs.sources, beam=beam)
    seconds = time.perf_counter() - began
    loss = float(pair_losses(translator_of(run), encoded).mean())
    qualities = {"bleu": bleu(said, pairs.targets), "chrf": chrf(said, pairs.targets)}
    return TranslationMeasure(
        **{name: quality.score for name, quality in qualities.items()},
        loss=loss, perplexity=math.exp(loss), sentences=len(pairs), tokens=len(encoded.target), left_out=encoded.too_long + pairs.empty,
        seconds=seconds,
        signatures={name: quality.signature for name, quality in qualities.items()},
    )  # fmt: skip


def against(run: Run | str | Path, other: Run | str | Path, pairs: Parallel | None = None, *, beam: int = 5) -> dict[str, Difference]:
    """How far another run is ahead of this one on the same sentences, in BLEU and chrF, and how often that would happen by chance.

    >>> regard.against("runs/recurrent-translator", "runs/transformer-translator")["bleu"].p_value  # doctest: +SKIP
    """
    first, second = as_run(run), as_run(other)
    pairs = encoded_pairs(second, encoded_pairs(first, pairs or held_out(first))[1])[1]
    if len(pairs) < FEWEST:
        raise UserError(f"{len(pairs)} sentences tell nothing of two translators: give {FEWEST} or more")
    said = [translating.translate_lines(one.model, one.source, one.tokenizer, pairs.sources, beam=beam) for one in (first, second)]
    return paired(said[0], said[1], pairs.targets)


def held_out(run: Run) -> Parallel:
    """The validation pairs of a run's training, read again."""
    (record,) = run.config["texts"]["valid"]
    (trained,) = run.config["texts"]["train"]
    whole = parallel.read(parallel.files_of(record, run.folder))
    pairs = parallel.hold_out(whole)[1] if record.get("held_out", record["name"] == trained["name"]) else whole
    limit = run.config["longest"]
    _, pairs = encode_pairs(pairs, *tokenizers_of(run), limit)
    if pairs.record()["sha256"] != record["sha256"]:
        raise UserError(f"{record['name']}: has changed since the run was trained; name the text yourself: --source FILE --target FILE")
    return pairs


def encoded_pairs(run: Run, pairs: Parallel) -> tuple[EncodedPairs, Parallel]:
    model = translator_of(run)
    return encode_pairs(pairs, *tokenizers_of(run), model.source_limit or 1 << 30)


def tokenizers_of(run: Run) -> tuple[Tokenizer, Tokenizer]:
    translator_of(run)
    assert run.source is not None
    return run.source, run.tokenizer


def translator_of(run: Run) -> Translator:
    if not isinstance(run.model, Translator):
        raise UserError(f"{run.model.family} does not translate; train a recurrent-translator or a transformer-translator")
    return run.model
