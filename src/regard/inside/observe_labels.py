"""A classifier reads a text, and a record of its sites and of the probabilities of the labels is made."""

from collections.abc import Sequence

import torch

from regard.errors import UserError
from regard.inside.observe import Reading, Wanted, default_sites, maps_of
from regard.inside.record import Record
from regard.models.classifier import Labeller
from regard.parts.look import Look
from regard.tables import visible
from regard.tokens.contract import Tokenizer


@torch.inference_mode()
def observe_labels(
    model: Labeller, tokenizer: Tokenizer, names: Sequence[str], text: str, wanted: Wanted
) -> Record:
    """Label a text and make the record. Watching changes no number."""
    ids, notes = tokenizer.prompt(text), list[str]()
    if not ids:
        raise UserError("there is nothing to look at: give some text")
    if model.context is not None and len(ids) > model.context:
        notes.append(f"the text has {len(ids)} tokens and the model reads the first {model.context}")
        ids = ids[: model.context]
    unknown = sum(token == tokenizer.unknown for token in ids)
    if unknown:
        notes.append(f"{unknown} of the text's {len(ids)} tokens were never seen and are read as <unk>")
    look = Look(list(wanted.sites) or default_sites(model))
    if wanted.sites:
        look.check(model.sites())
    probs_L = model(torch.tensor([ids], device=model.device), look)[0].exp().cpu()
    best = probs_L.topk(min(wanted.top, len(names)))
    labels = [(names[place], p) for p, place in zip(*map(torch.Tensor.tolist, best), strict=True)]
    chances = ", ".join(f"{visible(name)} {p:.3f}" for name, p in labels)
    reading = Reading(ids, [tokenizer.name(token) for token in ids])
    return Record(
        tokens=reading.tokens,
        ids=ids,
        surprisal=[None] * len(ids),
        ranks=[None] * len(ids),
        likeliest=[],
        labels=labels,
        maps=maps_of(look, model.sites(), reading, wanted, 0, len(ids)),
        notes=[f"label: {chances}", *notes],
    )
