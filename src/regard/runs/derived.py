"""Runs made of other runs: with a neural cache, or mixed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.boundary import check_ranges
from regard.errors import UserError
from regard.machine.device import best_device
from regard.models.model import Model
from regard.models.wrappers.mixture import Mixture
from regard.probabilities.cache_choice import with_cache
from regard.probabilities.measures import best_weight, token_losses
from regard.ranges import Count
from regard.runs.formats import as_run
from regard.runs.run import Run
from regard.text.files import Source
from regard.tokens.shards import encode_sources

CACHE_TOKENS = 1 << 15  # tokens of validation text from which the numbers of a cache are chosen


@check_ranges
def cached(run: Run | str | Path, size: Count = 2000, valid: str | Path | Sequence[str | Path] = ()) -> Run:
    """Put a neural cache of the last `size` states on a run's model.

    Theta and the cache's share are chosen on validation text.

    >>> regard.evaluate(regard.cached("runs/lstm"), text="other.txt").perplexity  # doctest: +SKIP
    """
    opened = as_run(run)
    sources = opened.read(valid) or [opened.read_again(record) for record in opened.config.texts.valid]
    if not sources:
        raise UserError("the numbers of a cache are chosen on validation text: say which with `valid`")
    to_best_device(opened.language_model)
    text = encode_sources(opened.tokenizer, sources).first(CACHE_TOKENS)
    return replace(opened, model=with_cache(opened.language_model, text, size))


def mix(first: Run | str | Path, second: Run | str | Path, valid: str | Path | Sequence[str | Path]) -> Run:
    """Mix two runs: P = weight x P_first + (1 - weight) x P_second.

    The weight is chosen on validation text.

    >>> both = regard.mix("runs/ngram", "runs/ngram-2", valid="valid.txt")  # doctest: +SKIP
    """
    one, two = as_run(first), as_run(second)
    if one.tokenizer.to_json() != two.tokenizer.to_json():
        same = "train them on the same text with the same `tokens`"
        raise UserError(f"two runs can be mixed only if they read the same tokens; {same}")
    sources: list[Source] = one.read(valid)
    if not sources:
        raise UserError("the weight of a mixture is chosen on validation text: say which with `valid`")
    text = encode_sources(one.tokenizer, sources)
    weight = best_weight(token_losses(one.language_model, text), token_losses(two.language_model, text))
    model = Mixture(one.language_model, two.language_model, weight)
    return Run(model, one.tokenizer, replace(one.config, family=model.family, files={}), source=one.source)


def to_best_device(model: Model) -> None:
    """Move a model to the GPU, if there is one and the model gains from it."""
    if model.on_gpu:
        model.to(best_device())
