"""regard evaluate RUN: how well a run predicts a text, translates, labels texts, or captions images."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.boundary import check_ranges
from regard.errors import UserError
from regard.inside.edit_model import edited
from regard.machine.memory import keep_freed_memory
from regard.models.model import Reads
from regard.probabilities.blanks import BlankMeasure
from regard.probabilities.labels import LabelMeasure
from regard.probabilities.measures import Measure, measure
from regard.ranges import Beam, Count
from regard.runs.derived import cached, mix, to_best_device
from regard.runs.run import Run, require_plain_text
from regard.verbs.arguments import Edits, File, Files, OtherRun, RunLike
from regard.verbs.evaluate_blanks import evaluate_blanks
from regard.verbs.evaluate_captions import CaptionMeasure, evaluate_captions
from regard.verbs.evaluate_labels import evaluate_labels, print_labels
from regard.verbs.evaluate_pairs import TranslationMeasure, evaluate_pairs, print_translation
from regard.verbs.evaluate_words import EmbeddingMeasure, evaluate_words
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, print_lines, show

AnyMeasure = Measure | TranslationMeasure | EmbeddingMeasure | BlankMeasure | LabelMeasure | CaptionMeasure


@check_ranges
@keep_freed_memory()
def evaluate(
    run: RunLike,
    text: Files = (),
    *,
    stride: Count | None = None,
    cache: bool = False,
    cache_size: Count | None = None,
    mix: OtherRun = None,
    valid: Files = (),
    source: File = None,
    target: File = None,
    pairs: File = None,
    beam: Beam | None = None,
    against: OtherRun = None,
    similarity: File = None,
    labelled: Files = (),
    columns: str | None = None,
    images: File = None,
    captions: File = None,
    boxes: File = None,
    features: File = None,
    edit: Edits = None,
) -> AnyMeasure:
    """Measure loss, perplexity and bits per byte of a run; BLEU and chrF of a translator; accuracy and
    macro-F1 of a classifier; the pseudo-perplexity of a masked reader; BLEU, exact matches and the pointing
    game of a captioner; the loss of word embeddings, and their correlation with a word list.

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
        beam: The number of hypotheses of the beam search (5).
        against: Another translator, which is compared on the same sentences by the paired bootstrap.
        similarity: A list of word pairs with scores, for word embeddings: Spearman's correlation.
        labelled: Labelled texts for a classifier. Without them, its own test or validation texts.
        columns: The columns of label and text in `labelled`, as LABEL,TEXT.
        images: The folder of the images for a captioner. Without files, the images held out in its training.
        captions: Their captions: file TAB caption.
        boxes: The parts of the images that words name, as in regard train captioner.
        features: Given features instead of images (.npz).
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    opened = edited(run, edit)
    given: dict[str, Any] = {
        "text": text, "stride": stride, "cache": cache, "cache_size": cache_size, "mix": mix, "valid": valid,
        "source": source, "target": target, "pairs": pairs, "beam": beam, "against": against,
        "similarity": similarity, "labelled": labelled, "columns": columns,
        "images": images, "captions": captions, "boxes": boxes, "features": features,
    }  # fmt: skip
    kind = KINDS[opened.model.reads]
    for name, value in given.items():
        if name not in kind.options and value is not None and value is not False and value != ():
            owner = next(other for other in KINDS.values() if name in other.options)
            raise UserError(f"`{name}` is for {owner.models}; {kind.how}")
    to_best_device(opened.model)
    return kind.measure(opened, **{name: given[name] for name in kind.options})


def _of_text(
    run: Run,
    *,
    text: Files,
    stride: int | None,
    cache: bool,
    cache_size: int | None,
    mix: OtherRun,
    valid: Files,
) -> Measure:
    changed = _changed(run, cache, cache_size, mix, valid)
    sources = run.read(text) or require_plain_text(changed).own_text()
    return measure(changed.language_model, changed.tokenizer, sources, stride)


def _of_words(run: Run, *, text: Files, similarity: File) -> EmbeddingMeasure:
    records = run.config.texts.test or run.config.texts.valid
    return evaluate_words(run, run.read(text) or list(map(run.read_again, records)), similarity)


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


@dataclass(frozen=True)
class Kind:
    """The measurement of the runs of one kind."""

    models: str  # in the plural, for messages
    how: str  # what they are measured on, for messages
    measure: Callable[..., AnyMeasure]
    options: tuple[str, ...]


KINDS: dict[Reads, Kind] = {
    "text": Kind(
        "language models",
        "a language model is measured on `text`",
        _of_text,
        ("text", "stride", "cache", "cache_size", "mix", "valid"),
    ),
    "pairs": Kind(
        "translators",
        "a translator is measured on `source` and `target`, or `pairs`",
        evaluate_pairs,
        ("source", "target", "pairs", "beam", "against"),
    ),
    "words": Kind(
        "word embeddings",
        "word embeddings are measured on `text` and `similarity`",
        _of_words,
        ("text", "similarity"),
    ),
    "blanks": Kind(
        "masked readers",
        "a reader is measured on `text`",
        evaluate_blanks,
        ("text",),
    ),
    "labels": Kind(
        "classifiers",
        "a classifier is measured on `labelled` texts",
        evaluate_labels,
        ("labelled", "columns"),
    ),
    "captions": Kind(
        "captioners",
        "a captioner is measured on `images` and `captions`",
        evaluate_captions,
        ("images", "captions", "boxes", "features", "beam"),
    ),
}


def main(arguments: list[str]) -> None:
    call = parse(evaluate, arguments)
    result = evaluate(**call.values)
    if call.json:
        print_json(result.to_json())
        return
    match result:
        case TranslationMeasure():
            print_translation(result, call.values["against"])
        case LabelMeasure():
            print_labels(result)
        case BlankMeasure():
            print_lines(result.to_json())
        case EmbeddingMeasure():
            given = {name: value for name, value in result.to_json().items() if value is not None}
            print_lines({**given, **given.pop("similarity", {})})
        case CaptionMeasure():
            print_lines(result.to_json())
        case _:
            figures = result.to_json()
            print_lines({name: value for name, value in figures.items() if name != "zero_tokens" or value})
            if result.unknown_tokens:
                show(f"\n{result.not_comparable()}")
