"""Put edits on a model: expand patterns of sites, read the texts of patches, refuse edits that do not fit."""

import dataclasses
import fnmatch
import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.edit_files import edits_to_json, read_edits
from regard.inside.residual_stream import single_token
from regard.machine.disk import write_json
from regard.models.model import Model
from regard.parts.edits import Edit
from regard.parts.look import Change, Look, Place, Site
from regard.runs.formats import as_run
from regard.runs.run import Run
from regard.tokens.contract import Tokenizer


def edited(run: Run | str | Path, edits: Sequence[Edit] | str | Path | None) -> Run:
    """Return a run whose model is edited. Edits are Edit values, a JSON file, or the JSON itself.

    The run that is given does not change.

    >>> from regard.parts.edits import Silence
    >>> silent = Silence(site="layer0.attention", heads=(1,))
    >>> regard.generate(regard.edited("runs/transformer", [silent]))  # doctest: +SKIP
    """
    opened = as_run(run)
    if edits is None:
        return opened
    made = given_edits(opened, edits)
    return dataclasses.replace(opened, model=edit_model(opened.model, opened.tokenizer, made))


def given_edits(run: Run, edits: Sequence[Edit] | str | Path) -> Sequence[Edit]:
    """Return edits as values: those of a file or of JSON must not name another run."""
    if not isinstance(edits, str | Path):
        return edits
    return read_edits(edits, run.fingerprint, lambda: tensor_hashes(run.model))


def tensor_hashes(model: Model) -> dict[str, str]:
    """Return the beginning of the hash of every tensor, so that a file of edits can say which one differs."""
    return {
        name: hashlib.sha256(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data).hexdigest()[
            :12
        ]
        for name, tensor in model.tensors().items()
        if tensor.dim()
    }


def save_edits(run: Run | str | Path, edits: Sequence[Edit] | str | Path, out: str | Path) -> None:
    """Write edits to a JSON file that names the hash of the run's weights.

    >>> regard.save_edits("runs/transformer", [silent], "silent.json")  # doctest: +SKIP
    """
    opened = as_run(run)
    made = given_edits(opened, edits)
    write_json(edits_to_json(made, opened.fingerprint, tensor_hashes(opened.model)), Path(out))


def edit_model(model: Model, tokenizer: Tokenizer, edits: Sequence[Edit]) -> Model:
    """Wrap a model in edits. A site may be a pattern (`layer*.attention`); edits at one site run in order."""
    sites = model.sites()
    if not sites:
        raise UserError(f"{model.family} has no sites that can be changed")
    chains = dict[str, list[Change]]()
    for edit in edits:
        Look(changes={edit.site: edit}).check(sites)
        for name in fnmatch.filter(sites, edit.site):
            at_site = dataclasses.replace(edit, site=name)
            change = at_site.prepare(partial(_seen, model, tokenizer, name))
            chains.setdefault(name, []).append(_at_words(edit, change, sites[name], tokenizer))
    places = tuple(sorted({place for edit in edits for place in edit.places()}))
    if places and model.context is not None and places[-1] >= model.context:
        raise UserError(f"there is no position {places[-1]}: the model sees {model.context} tokens, from 0")
    by_word = any(edit.words is not None for edit in edits)
    changed = model.with_changes({name: _chain(changes) for name, changes in chains.items()}, places, by_word)
    with torch.inference_mode():  # one call with one token refuses edits that do not fit
        changed.try_once()
    return changed


def _at_words(edit: Edit, change: Change, site: Site, tokenizer: Tokenizer) -> Change:
    """Return the change at the rows of the edit's words. Other rows stay equal to the bit."""
    if edit.words is None:
        return change
    if site.rows != "read":
        raise UserError(
            f"`words` are of the text that is read; the rows of {site.name} are of what was given"
        )
    ids = torch.tensor([single_token(tokenizer, word) for word in edit.words])

    def at_words(tensor: Tensor, place: Place) -> Tensor:
        assert place.token_BT is not None
        here_BT = torch.isin(place.token_BT, ids.to(place.token_BT.device))[:, : tensor.shape[-2]]
        here_BT = here_BT.unsqueeze(-1) if tensor.dim() == 3 else here_BT[:, None, :, None]
        return torch.where(here_BT, change(tensor, place), tensor)

    return at_words


def _chain(changes: list[Change]) -> Change:
    def apply_all(tensor: Tensor, place: Place) -> Tensor:
        for change in changes:
            tensor = change(tensor, place)
        return tensor

    return apply_all


@torch.inference_mode()
def _seen(model: Model, tokenizer: Tokenizer, site: str, text: str) -> Tensor:
    """Return the tensor at a site while the model reads a text, without the batch axis."""
    if model.source_size is not None:
        raise UserError(
            "edits that read another text (patch, mean) are not for models whose state begins with a source"
        )
    ids = [*([tokenizer.start] if model.begins else []), *tokenizer.prompt(text)]
    if model.context is not None and len(ids) > model.context:
        raise UserError(
            f"the text of a patch has {len(ids)} tokens and the model sees {model.context}: shorten it"
        )
    look = Look([site])
    model.watch(torch.tensor([ids], device=model.device), look)
    return (look.maps[site]() if site in look.maps else look.values[site])[0]
