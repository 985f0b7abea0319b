"""regard evaluate RUN: loss and perplexity of a run on a text, or BLEU of a translator or captioner."""

import math
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from regard.errors import UserError
from regard.inside.edit_model import edited
from regard.machine.memory import keep_freed_memory
from regard.probabilities.measures import Measure, measure, token_losses
from regard.probabilities.quality import Difference, bleu, chrf, paired_bootstrap
from regard.probabilities.translation import translate_lines
from regard.runs.captioned import require_captioner
from regard.runs.derived import cached, mix, to_best_device
from regard.runs.formats import as_run
from regard.runs.run import Run, require_plain_text, require_translator
from regard.tables import Table, TableRows
from regard.text import parallel
from regard.text.captions import read as read_captions
from regard.text.files import read
from regard.text.parallel import Parallel
from regard.verbs.arguments import Edits, File, Files, OtherRun, RunLike
from regard.verbs.evaluate_captions import CaptionMeasure, evaluate_captions
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, print_lines

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


@keep_freed_memory()
def evaluate(
    run: RunLike,
    text: Files = (),
    *,
    stride: int | None = None,
    cache: bool = False,
    cache_size: int | None = None,
    mix: OtherRun = None,
    valid: Files = (),
    source: File = None,
    target: File = None,
    pairs: File = None,
    images: File = None,
    captions: File = None,
    boxes: File = None,
    features: File = None,
    beam: int | None = None,
    against: OtherRun = None,
    edit: Edits = None,
) -> Measure | TranslationMeasure | CaptionMeasure:
    """Measure loss, perplexity and bits per byte of a run; BLEU, chrF and perplexity of a translator; BLEU,
    exact matches and the pointing game of a captioner.

    docs/measuring.md defines the figures.

    >>> regard.evaluate("runs/ngram", text="other.txt").perplexity  # doctest: +SKIP

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        text: The text. Without it, the run's own test or validation text.
        stride: The distance between windows of a bounded context. The whole context means no overlap.
        cache: Put a neural cache on the model: tokens that followed similar states become more probable.
        cache_size: The number of states in the cache (2000).
        mix: Another run that reads the same tokens: the two models are interpolated.
        valid: Validation text, on which the weight of `mix` or the numbers of the cache are chosen.
        source: The source sentences for a translator. Without files, the sentences held out in its training.
        target: The reference translations.
        pairs: Both in one file instead: source TAB target.
        images: The folder of the images for a captioner. Without files, the images held out in its training.
        captions: Their captions: file TAB caption.
        boxes: The parts of the images that words name, as in regard train captioner.
        features: Given features instead of images (.npz).
        beam: The number of hypotheses of the beam search (5).
        against: Another translator, which is compared on the same sentences by the paired bootstrap.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    opened = edited(run, edit)
    of_images = {"images": images, "captions": captions, "boxes": boxes, "features": features}
    of_text = {"text": text, "mix": mix, "cache": cache, "cache_size": cache_size}
    of_text |= {"stride": stride, "valid": valid}
    if opened.model.reads == "captions" or any(of_images.values()):
        of_pairs = {"source": source, "target": target, "pairs": pairs, "against": against}
        _refuse({**of_text, **of_pairs}, CAPTIONERS)
        return evaluate_captions(require_captioner(opened), read_captions(**of_images), beam or 5)
    if opened.language_model.given is not None or source or target or pairs:
        _refuse(of_text, TRANSLATORS)
        given = parallel.read_pairs(source, target, pairs)
        return _evaluate_pairs(require_translator(opened), given, beam or 5, against)
    _refuse({"against": against, "beam": beam}, "is for translators; regard compare ranks language models")
    to_best_device(opened.language_model)
    opened = _changed(opened, cache, cache_size, mix, valid)
    sources = read(text) or require_plain_text(opened).own_text()
    return measure(opened.language_model, opened.tokenizer, [source.text for source in sources], stride)


CAPTIONERS = "is not for captioners, which are measured on `images` and `captions`"
TRANSLATORS = "is for language models; a translator is measured on `source` and `target`, or `pairs`"


def _refuse(options: dict[str, Any], why: str) -> None:
    for name, value in options.items():
        if value is not None and value is not False and value != ():
            raise UserError(f"`{name}` {why}")


def _changed(run: Run, cache: bool, size: int | None, other: OtherRun, valid: Files) -> Run:
    """Return the run with a cache, or mixed with another run."""
    if size is not None and not cache:
        raise UserError("`cache_size` goes with `cache`")
    if other is not None:
        if cache:
            raise UserError("`mix` and `cache` do not go together")
        if not valid:
            raise UserError("`mix` chooses its weight on validation text: name it with `valid`")
        return mix(run, other, valid)
    if cache:
        return cached(run, 2000 if size is None else size, valid)
    if valid:
        raise UserError("`valid` goes with `mix` or `cache`; name the text to measure with `text`")
    return run


def _evaluate_pairs(run: Run, pairs: Parallel | None, beam: int, against: OtherRun) -> TranslationMeasure:
    to_best_device(run.language_model)
    encoded, pairs = run.encode_pairs(pairs or run.held_out_pairs())
    began = time.perf_counter()
    texts = translate_lines(run.language_model, *run.both_tokenizers(), pairs.sources, beam)
    seconds = time.perf_counter() - began
    loss = float(token_losses(run.language_model, encoded).mean())
    qualities = {"bleu": bleu(texts, pairs.targets), "chrf": chrf(texts, pairs.targets)}
    return TranslationMeasure(
        **{name: quality.score for name, quality in qualities.items()},
        loss=loss,
        perplexity=math.exp(loss),
        sentences=len(pairs),
        tokens=len(encoded.target),
        left_out=encoded.too_long + pairs.empty,
        seconds=seconds,
        signatures={name: quality.signature for name, quality in qualities.items()},
        against={} if against is None else _against(run, require_translator(as_run(against)), pairs, beam),
    )


def _against(run: Run, other: Run, pairs: Parallel, beam: int) -> dict[str, Difference]:
    """Compare two translators on the sentences that both can read, by the paired bootstrap."""
    pairs = other.encode_pairs(pairs)[1]
    if len(pairs) < FEWEST:
        raise UserError(
            f"{len(pairs)} sentences are too few to compare two translators: give {FEWEST} or more"
        )
    texts = [
        translate_lines(each.language_model, *each.both_tokenizers(), pairs.sources, beam)
        for each in (run, other)
    ]
    return paired_bootstrap(texts[0], texts[1], pairs.targets)


def main(arguments: list[str]) -> None:
    call = parse(evaluate, arguments)
    result = evaluate(**call.values)
    if isinstance(result, TranslationMeasure):
        _print_translation(result, call.values["against"], call.json)
        return
    figures = result.to_json()
    if call.json:
        print_json(figures)
        return
    print_lines({name: value for name, value in figures.items() if name != "zero_tokens" or value})
    if isinstance(result, Measure) and result.unknown_tokens:
        print(f"\n{result.not_comparable()}")


def _print_translation(result: TranslationMeasure, other: str | None, json: bool) -> None:
    if json:
        print_json(result.to_json())
        return
    figures = replace(result, against={}).to_json()
    print_lines({name: value for name, value in figures.items() if name != "signatures"})
    for name, signature in result.signatures.items():
        print(f"{name}: {signature}")
    for name, difference in result.against.items():
        ahead = f"{difference.difference:+.2f} (p = {difference.p_value:.3f}, paired bootstrap)"
        print(f"{name} of {other}: {difference.other:.2f}, {ahead}")
