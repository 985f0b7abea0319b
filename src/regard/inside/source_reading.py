"""The input of a watched translator: a source sentence and its translation."""

from collections.abc import Sequence

import torch

from regard.errors import UserError
from regard.inside.observe import Reading
from regard.probabilities.translation import translate
from regard.runs.run import Run


def translation_reading(run: Run, text: str, target: str | Sequence[int] | None) -> Reading:
    """Return the reading of a source sentence and a translation, end included.

    Without a translation, the model's own is read.
    """
    source, tokenizer = run.both_tokenizers()
    if not text.strip():
        raise UserError("there is nothing to look at: give some text")
    if target is None:
        ((best, *_),) = translate(run.language_model, source, tokenizer, [text], attention=False)
        target = best.ids
    ids = [*tokenizer.prompt(target), tokenizer.end] if isinstance(target, str) else list(target)
    given = [*source.prompt(text), source.end]
    assert run.language_model.given is not None
    for name, length, limit in (
        ("text", len(given), run.language_model.given.longest),
        ("target", len(ids), run.language_model.context),
    ):
        if limit is not None and length > limit:
            counted = f"{length} tokens, the end counted"
            raise UserError(f"the {name} has {counted}, and the model reads {limit}: shorten it")
    unknown = sum(token == source.unknown for token in given)
    outside = f"{unknown} of the source's tokens are not in its vocabulary and were read as <unk>"
    notes = (outside,) if unknown else ()
    ids = [tokenizer.start, *ids]
    names, pieces = tuple(map(source.name, given)), tuple(map(source.piece, given))
    read = [tokenizer.name(token) for token in ids]
    source_1S = torch.tensor([given], device=run.language_model.device)
    return Reading(ids, read, source_1S, names, ended=True, notes=notes, given_pieces=pieces)
