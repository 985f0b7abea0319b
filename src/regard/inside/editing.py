"""A model under edits, and edits as files: what was changed can be kept, sent and done again to the bit."""

import dataclasses
import fnmatch
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.edits import EDITS, Edit
from regard.models.contract import LanguageModel, Prediction, State
from regard.models.translation import Translator, TranslatorState
from regard.parts.look import Change, Look, Place
from regard.tokens.contract import Tokenizer

LARGEST = 1e30  # single precision overflows not far above


@final
class Edited(LanguageModel):
    """Another model with changes at some of its sites; the model itself stays as it is, so undoing is going back to it."""

    family = "edited"

    def __init__(self, model: LanguageModel, changes: dict[str, Change], places: list[int]):
        """`places` are the positions that the edits name."""
        super().__init__(model.vocabulary_size, model.config)
        self.model, self._changes, self.places = model, changes, places
        self.context, self.cache = model.context, model.cache
        self.batch_tokens, self.row_tokens = model.batch_tokens, model.row_tokens

    def sites(self) -> dict[str, str]:
        return self.model.sites()

    def tensors(self) -> dict[str, Tensor]:
        return self.model.tensors()

    def forward(self, tokens_BT: Tensor, state: State | None = None, look: Look | None = None) -> tuple[Prediction, State]:
        return self.model(tokens_BT, state, Look(changes=self._changes) if look is None else look.also(self._changes))


@final
class EditedTranslator(Translator):
    """The same for a translator: what is read of the source is changed too."""

    family = "edited"

    def __init__(self, model: Translator, changes: dict[str, Change], places: list[int]):
        super().__init__(model.vocabulary_size, model.config, model.source_size)
        self.model, self._changes, self.places = model, changes, places
        self.context, self.source_limit, self.crossing = model.context, model.source_limit, model.crossing
        self.batch_tokens, self.row_tokens = model.batch_tokens, model.row_tokens

    def sites(self) -> dict[str, str]:
        return self.model.sites()

    def tensors(self) -> dict[str, Tensor]:
        return self.model.tensors()

    def _look(self, look: Look | None) -> Look:
        return Look(changes=self._changes) if look is None else look.also(self._changes)

    def read(self, source_BS: Tensor, look: Look | None = None) -> TranslatorState:
        return self.model.read(source_BS, self._look(look))

    def forward(self, tokens_BT: Tensor, state: TranslatorState | None = None, look: Look | None = None) -> tuple[Prediction, State]:
        return self.model(tokens_BT, state, self._look(look))


def edit_model(model: LanguageModel, tokenizer: Tokenizer, edits: Sequence[Edit]) -> Edited | EditedTranslator:
    """Edits at the same site are made one after the other; a site may be a pattern (`layer*.attention`)."""
    if not model.sites():
        raise UserError(f"{model.family} has no sites that can be changed")
    chains = dict[str, list[Change]]()
    for edit in edits:
        Look(changes={edit.site: edit}).check(model.sites())
        for site in fnmatch.filter(model.sites(), edit.site):
            one = dataclasses.replace(edit, site=site)
            chains.setdefault(site, []).append(one.prepare(partial(_seen, model, tokenizer, site)))
    places = sorted({place for edit in edits for place in edit.places()})
    if places and model.context is not None and places[-1] >= model.context:
        raise UserError(f"there is no position {places[-1]}: the model sees {model.context} tokens, from 0")
    changes = {site: _chain(one) for site, one in chains.items()}
    start_11 = torch.tensor([[tokenizer.start]], device=model.device)
    with torch.inference_mode():  # what does not fit is told before anything long begins
        if isinstance(model, Translator):
            translator = EditedTranslator(model, changes, places).eval()
            translator(start_11, translator.read(torch.zeros_like(start_11)))
            return translator
        edited = Edited(model, changes, places).eval()
        edited(start_11)
        return edited


def _chain(changes: list[Change]) -> Change:
    def change(tensor: Tensor, place: Place) -> Tensor:
        for one in changes:
            tensor = one(tensor, place)
        return tensor

    return change


@torch.inference_mode()
def _seen(model: LanguageModel, tokenizer: Tokenizer, site: str, text: str) -> Tensor:
    if isinstance(model, Translator):
        raise UserError("what needs another text (patch, mean) is not for translators, whose states begin with a source")
    ids = [tokenizer.start, *tokenizer.prompt(text)]
    if model.context is not None and len(ids) > model.context:
        raise UserError(f"the text of a patch has {len(ids)} tokens and the model sees {model.context}: shorten it")
    look = Look([site])
    model(torch.tensor([ids], device=model.device), look=look)
    seen = look.seen[site]
    return (seen() if callable(seen) else seen)[0]


def edits_to_json(edits: Sequence[Edit], fingerprint: str | None) -> dict[str, Any]:
    """What is not said is left out; `run` is the hash of the weights they were made for."""
    written = []
    for edit in edits:
        fields = {name: value for name, value in dataclasses.asdict(edit).items() if value not in (None, "")}
        written.append({"site": fields.pop("site"), "do": edit.name(), **fields})
    return {"run": fingerprint, "edits": written}


def edits_from_json(data: Any, fingerprint: str | None, name: str) -> list[Edit]:
    """One edit, a list of them, or a file's whole content. Edits that say for which run they were made are not taken for another."""
    if isinstance(data, dict) and "edits" in data:
        made_for = data.get("run")
        if made_for is not None and fingerprint is not None and made_for != fingerprint:
            raise UserError(f"{name}: made for another run (its weights' hash begins {str(made_for)[:8]}, this run's {fingerprint[:8]})")
        data = data["edits"]
    items = data if isinstance(data, list) else [data]
    return [_edit(item, f"{name}: edit {number}") for number, item in enumerate(items, 1)]


def read_edits(source: str | Path, fingerprint: str | None) -> list[Edit]:
    """From a file, or from JSON itself where the text begins with { or [."""
    text = str(source)
    if not text.strip():
        raise UserError("--edit is empty; give a JSON file of edits, or the JSON itself")
    name = "--edit" if text.lstrip()[:1] in ("{", "[", '"') else text
    try:
        content = text if name == "--edit" else Path(source).read_text(encoding="utf-8")
        data = json.loads(content, parse_constant=_no_number)
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UserError(f"{name}: is not JSON ({error})") from None
    return edits_from_json(data, fingerprint, name)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _edit(item: Any, name: str) -> Edit:
    if not isinstance(item, dict) or item.get("do") not in EDITS:
        raise UserError(f"{name} must be an object with 'do' and 'site'; what can be done: {', '.join(EDITS)}")
    kind: Any = EDITS[item["do"]]
    fields = {field.name: field for field in dataclasses.fields(kind)}
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in item.items() if key != "do"}
    for key, value in given.items():
        if key not in fields:
            raise UserError(f"{name}: {item['do']} has no {key!r}; it has: {', '.join(fields)}")
        expected: Any = {
            "site": str,
            "text": str,
            "value": (int, float),
            "by": (int, float),
            "share": (int, float),
            "source": int,
            "to": int,
        }
        if not isinstance(value, expected.get(key, tuple)) or (isinstance(value, tuple) and not all(type(one) is int for one in value)):
            raise UserError(f"{name}: {key!r} cannot be {item[key]!r}")
        if isinstance(value, float) and abs(value) > LARGEST:
            raise UserError(f"{name}: {key!r} cannot be {item[key]!r}: the model's numbers do not go so far")
    missing = [key for key, field in fields.items() if field.default is dataclasses.MISSING and key not in given]
    if missing:
        raise UserError(f"{name}: {item['do']} needs {', '.join(map(repr, missing))}")
    made: Edit = kind(**given)
    return made
