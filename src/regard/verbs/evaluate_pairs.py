"""The figures of a translator: BLEU, chrF and perplexity, and the comparison of two translators."""

import math
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from regard.errors import UserError
from regard.probabilities.measures import token_losses
from regard.probabilities.quality import Difference, bleu, chrf, paired_bootstrap
from regard.probabilities.translation import translate_lines
from regard.runs.formats import as_run
from regard.runs.run import Run, require_translator
from regard.tables import Table, TableRows
from regard.text import parallel
from regard.text.parallel import Parallel
from regard.verbs.arguments import File, OtherRun
from regard.verbs.printing import print_lines, show

FEWEST = 10  # a comparison of two translators needs at least this many sentences


@dataclass(frozen=True)
class TranslationMeasure(Table):
    """The figures of a translator on parallel text. sacrebleu's signatures describe BLEU and chrF."""

    bleu: float
    chrf: float
    loss: float
    perplexity: float
    sentences: int
    tokens: int
    left_out: int
    seconds: float
    signatures: dict[str, str]
    against: dict[str, Difference] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return data if self.against else {name: value for name, value in data.items() if name != "against"}

    def rows(self) -> TableRows:
        """One row with every figure."""
        return [self.to_json()]


def evaluate_pairs(
    run: Run, *, source: File, target: File, pairs: File, beam: int | None, against: OtherRun
) -> TranslationMeasure:
    given = parallel.read_pairs(source, target, pairs)
    beam = beam or 5
    encoded, sentences = run.encode_pairs(given or run.held_out_pairs())
    began = time.perf_counter()
    texts = translate_lines(run.language_model, *run.both_tokenizers(), sentences.sources, beam)
    seconds = time.perf_counter() - began
    loss = float(token_losses(run.language_model, encoded).mean())
    qualities = {"bleu": bleu(texts, sentences.targets), "chrf": chrf(texts, sentences.targets)}
    return TranslationMeasure(
        **{name: quality.score for name, quality in qualities.items()},
        loss=loss,
        perplexity=math.exp(loss),
        sentences=len(sentences),
        tokens=len(encoded.target),
        left_out=encoded.too_long + sentences.empty,
        seconds=seconds,
        signatures={name: quality.signature for name, quality in qualities.items()},
        against={}
        if against is None
        else _against(run, require_translator(as_run(against)), sentences, beam),
    )


def _against(run: Run, other: Run, pairs: Parallel, beam: int) -> dict[str, Difference]:
    """Compare two translators on the sentences that both can read, by the paired bootstrap."""
    pairs = require_translator(other).encode_pairs(pairs)[1]
    if len(pairs) < FEWEST:
        raise UserError(
            f"{len(pairs)} sentences are too few to compare two translators: give {FEWEST} or more"
        )
    texts = [
        translate_lines(each.language_model, *each.both_tokenizers(), pairs.sources, beam)
        for each in (run, other)
    ]
    return paired_bootstrap(texts[0], texts[1], pairs.targets)


def print_translation(result: TranslationMeasure, other: str | None) -> None:
    figures = replace(result, against={}).to_json()
    print_lines({name: value for name, value in figures.items() if name != "signatures"})
    for name, signature in result.signatures.items():
        show(f"{name}: {signature}")
    for name, difference in result.against.items():
        ahead = f"{difference.difference:+.2f} (p = {difference.p_value:.3f}, paired bootstrap)"
        show(f"{name} of {other}: {difference.other:.2f}, {ahead}")
