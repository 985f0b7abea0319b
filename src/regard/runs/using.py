"""What a finished run does: it is measured, it scores a text token by token, it writes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard.errors import UserError
from regard.machine.disk import relocated
from regard.models.memory import kept_for_reuse
from regard.models.mixing import Interpolation
from regard.models.ngram import Link, Ngram
from regard.models.ranges import check_seed
from regard.models.translation import Translator
from regard.probabilities import decoding, measures
from regard.probabilities.caching import with_cache
from regard.probabilities.decoding import Sampling
from regard.probabilities.measures import Measure
from regard.runs.folder import Run, as_run
from regard.runs.machine import to_best_device
from regard.text.builtin import BUILT_IN, topics
from regard.text.files import Source, read, read_file

CACHE_TOKENS = 1 << 15  # of validation text are enough to choose a cache's two numbers


@kept_for_reuse()
def evaluate(run: Run | str | Path, text: str | Sequence[str] = (), *, stride: int | None = None) -> Measure:
    """Measure all of a text: loss, perplexity, bits per byte (docs/measuring.md). Without a text, the run's own test or validation text.

    >>> regard.evaluate("runs/ngram", text="other.txt").perplexity  # doctest: +SKIP
    """
    run = writer(run)
    to_best_device(run.model)
    sources = read([text] if isinstance(text, str) else text) or own_text(run)
    return measures.measure(run.model, run.tokenizer, [source.text for source in sources], stride)


def cached(run: Run | str | Path, size: int = 2000, valid: str | Sequence[str] = ()) -> Run:
    """The run with a neural cache of the last `size` states on its model; theta and share are chosen on validation text.

    >>> regard.evaluate(regard.cached("runs/lstm"), text="other.txt").perplexity  # doctest: +SKIP
    """
    run = as_run(run)
    if size < 1:
        raise UserError("--cache-size must be 1 or more")
    if run.model.training_defaults is None:
        raise UserError(f"a cache compares hidden states, and {run.model.family} has none: put it on a neural run")
    records = run.config["texts"]["valid"]
    sources = read([valid] if isinstance(valid, str) else valid) or [_again(record, run.folder) for record in records]
    if not sources:
        raise UserError("a cache's numbers are chosen on validation text: say which with --valid FILE")
    to_best_device(run.model)
    text = run.tokenizer.encode_texts([source.text for source in sources]).first(CACHE_TOKENS)
    return replace(run, model=with_cache(run.model, text, size))


def own_text(run: Run) -> list[Source]:
    """The test or validation text that a run was given when it was trained."""
    records = run.config["texts"]["test"] or run.config["texts"]["valid"]
    if not records:
        raise UserError("this run was trained without --valid or --test; say which text: --text FILE")
    return [_again(record, run.folder) for record in records]


def _again(record: dict[str, Any], folder: Path | None) -> Source:
    if record["name"] == "-":
        raise UserError("this run's text came from standard input and is gone; say which text: --text FILE")
    path = relocated(record["paths"][0], record["folder"], folder) if folder is not None and record.get("paths") else record["name"]
    whole = topics() if record["name"] == BUILT_IN else read_file(path)
    source = Source(whole.name, whole.text[record["first"] :], record["first"])
    if source.sha256 != record["sha256"]:
        raise UserError(f"{source.name}: has changed since the run was trained; name the text yourself: --text FILE")
    return source


@dataclass(frozen=True)
class ScoredToken:
    token: str
    log_prob: float
    chain: list[Link] | None = None


def score(run: Run | str | Path, text: str | Sequence[str] = (), *, explain: bool = False) -> Iterator[list[ScoredToken]]:
    """Every token with its natural-log probability, a document at a time. `explain` adds the back-off chain of an n-gram model.

    >>> for document in regard.score("runs/ngram", text="other.txt"):  # doctest: +SKIP
    ...     print(document[0].token, document[0].log_prob)
    """
    run = writer(run)
    model, tokenizer = run.model, run.tokenizer
    if explain and not isinstance(model, Ngram):
        raise UserError(f"--explain is for ngram runs; this one is of the family {model.family}")
    for source in read([text] if isinstance(text, str) else text) or own_text(run):
        encoded = tokenizer.encode(source.text)
        losses = measures.token_losses(model, encoded)
        for first, last in zip(encoded.starts_D.tolist(), encoded.ends_D.tolist(), strict=True):
            ids = encoded.ids_N[first:last].tolist()
            scored = [ScoredToken(tokenizer.name(i), -x) for i, x in zip(ids, losses[first:last].tolist(), strict=True)]
            if explain:
                assert isinstance(model, Ngram)
                read_so_far = [tokenizer.start, *ids]
                scored = [
                    replace(one, chain=model.explain(read_so_far[max(0, place + 1 - model.order) : place + 1], ids[place]))
                    for place, one in enumerate(scored)
                ]
            yield scored


def generate(
    run: Run | str | Path, prompt: str = "", *, length: int = 200, count: int = 1, seed: int = 1,
    temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
) -> list[str]:  # fmt: skip
    """Texts that go on from a prompt.

    >>> regard.generate("runs/ngram", prompt="The", length=20)  # doctest: +SKIP
    """
    opened = as_run(run)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    texts = [""] * count
    for pieces in stream(opened, prompt, length, count, seed, sampling):
        texts = [text + piece for text, piece in zip(texts, pieces, strict=True)]
    return texts


def stream(run: Run, prompt: str, length: int, count: int, seed: int, sampling: Sampling) -> Iterator[list[str]]:
    """`count` texts at once, piece by piece as they are written."""
    writer(run)
    if length < 1 or count < 1:
        raise UserError("--length and --count must be 1 or more")
    tokenizer, model = run.tokenizer, run.model
    ids = [tokenizer.start, *tokenizer.prompt(prompt)]
    generator = torch.Generator().manual_seed(check_seed(seed))
    decoders = [tokenizer.decoder(ids[-1]) for _ in range(count)]
    for token_B in decoding.generate(model, [ids] * count, length, tokenizer.stop, sampling, generator):
        yield ["" if token == decoding.ENDED else decode(token) for decode, token in zip(decoders, token_B.tolist(), strict=True)]


def mix(first: Run | str | Path, second: Run | str | Path, valid: str | Sequence[str]) -> Run:
    """Two runs as one: P = weight x P_first + (1 - weight) x P_second, the weight chosen on a validation text.

    >>> both = regard.mix("runs/ngram", "runs/ngram-2", valid="valid.txt")  # doctest: +SKIP
    """
    one, two = as_run(first), as_run(second)
    if one.tokenizer.to_json() != two.tokenizer.to_json():
        raise UserError("two runs can be mixed only when they read the same tokens; train them on the same text with the same --tokens")
    sources = read([valid] if isinstance(valid, str) else valid)
    if not sources:
        raise UserError("the weight of a mix is chosen on validation text: say which")
    text = one.tokenizer.encode_texts([source.text for source in sources])
    weight = measures.best_weight(measures.token_losses(one.model, text), measures.token_losses(two.model, text))
    model = Interpolation(one.model, two.model, weight)
    return Run(model.eval(), one.tokenizer, {**one.config, "family": model.family})


def writer(run: Run | str | Path) -> Run:
    """A run that goes on from a text, not from a source."""
    opened = as_run(run)
    if isinstance(opened.model, Translator):
        raise UserError("this run translates; use regard translate, or evaluate with --source and --target")
    return opened
