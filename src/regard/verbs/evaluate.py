"""regard evaluate RUN: how well a run predicts a text, or translates."""

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
from regard.runs.derived import cached, mix, to_best_device
from regard.runs.formats import as_run
from regard.runs.run import Run, require_plain_text, require_translator
from regard.text import parallel
from regard.text.files import read
from regard.text.parallel import Parallel
from regard.verbs.arguments import Edits, File, Files, OtherRun, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, print_lines

FEWEST = 10  # sentences that a comparison of two translators needs


@dataclass(frozen=True)
class TranslationMeasure:
    """How well a translator does on parallel text. sacrebleu's signatures say how BLEU and chrF were measured."""

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
    beam: int | None = None,
    against: OtherRun = None,
    edit: Edits = None,
) -> Measure | TranslationMeasure:
    """Measure a run on a text: loss, perplexity, bits per byte (docs/measuring.md says how). A translator: BLEU, chrF and perplexity.

    >>> regard.evaluate("runs/ngram", text="other.txt").perplexity  # doctest: +SKIP

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        text: The text, all of it. Without it, the run's own test or validation text.
        stride: How far windows move on, for models with a bounded context. The context itself means no overlap.
        cache: Put a neural cache on the model: words that followed similar states before become likelier.
        cache_size: States that the cache remembers (2000).
        mix: Another run that reads the same tokens: the two are interpolated.
        valid: The text on which the weight of --mix, or the cache's numbers, are chosen (a cache: the run's own validation text).
        source: A translator's sentences. Without files, those held out when it was trained.
        target: Their right translations.
        pairs: Both in one file instead: source TAB target.
        beam: Hypotheses that a translator keeps (5).
        against: Another translator: how far it is ahead on the same sentences, and how often that would happen by chance.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    opened = edited(run, edit)
    if opened.model.given is not None or source or target or pairs:
        _refuse(
            {
                "text": text,
                "mix": mix,
                "cache": cache,
                "cache_size": cache_size,
                "stride": stride,
                "valid": valid,
            },
            TRANSLATORS,
        )
        return _evaluate_pairs(
            require_translator(opened), parallel.read_pairs(source, target, pairs), beam or 5, against
        )
    _refuse({"against": against, "beam": beam}, "is for translators; regard compare ranks language models")
    to_best_device(opened.model)
    opened = _changed(opened, cache, cache_size, mix, valid)
    sources = read(text) or require_plain_text(opened).own_text()
    return measure(opened.model, opened.tokenizer, [one.text for one in sources], stride)


TRANSLATORS = "is for language models; a translator is measured on `source` and `target`, or `pairs`"


def _refuse(options: dict[str, Any], why: str) -> None:
    for name, value in options.items():
        if value is not None and value is not False and value != ():
            raise UserError(f"`{name}` {why}")


def _changed(run: Run, cache: bool, size: int | None, other: OtherRun, valid: Files) -> Run:
    """The run with a cache, or mixed with another one."""
    if size is not None and not cache:
        raise UserError("`cache_size` goes with `cache`")
    if other is not None:
        if cache:
            raise UserError("`mix` and `cache` do not go together")
        if not valid:
            raise UserError("`mix` chooses its weight on validation text: say which with `valid`")
        return mix(run, other, valid)
    if cache:
        return cached(run, 2000 if size is None else size, valid)
    if valid:
        raise UserError("`valid` goes with `mix` or `cache`; name the text to measure with `text`")
    return run


def _evaluate_pairs(run: Run, pairs: Parallel | None, beam: int, against: OtherRun) -> TranslationMeasure:
    to_best_device(run.model)
    encoded, pairs = run.encode_pairs(pairs or run.held_out_pairs())
    began = time.perf_counter()
    texts = translate_lines(run.model, *run.both_tokenizers(), pairs.sources, beam)
    seconds = time.perf_counter() - began
    loss = float(token_losses(run.model, encoded).mean())
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
    """How far another translator is ahead on the sentences that both can read, by the paired bootstrap."""
    pairs = other.encode_pairs(pairs)[1]
    if len(pairs) < FEWEST:
        raise UserError(f"{len(pairs)} sentences tell nothing of two translators: give {FEWEST} or more")
    texts = [translate_lines(one.model, *one.both_tokenizers(), pairs.sources, beam) for one in (run, other)]
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
    else:
        print_lines({name: value for name, value in figures.items() if name != "zero_tokens" or value})


def _print_translation(result: TranslationMeasure, other: str | None, json: bool) -> None:
    if json:
        print_json(result.to_json())
        return
    figures = replace(result, against={}).to_json()
    print_lines({name: value for name, value in figures.items() if name != "signatures"})
    for name, signature in result.signatures.items():
        print(f"{name}: {signature}")
    for name, one in result.against.items():
        ahead = f"{one.difference:+.2f} (p = {one.p_value:.3f}, paired bootstrap)"
        print(f"{name} of {other}: {one.other:.2f}, {ahead}")
