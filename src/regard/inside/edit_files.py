"""Read and write edits as JSON. The same JSON gives the same edited model, bit for bit."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.boundary import build, check_depth, quote_fields, read_bytes
from regard.errors import UserError
from regard.parts.edit_kinds import EDITS
from regard.parts.edits import Edit

Hashes = Mapping[str, str]  # of each tensor of a model


def edits_to_json(
    edits: Sequence[Edit], fingerprint: str | None, tensors: Hashes | None = None
) -> dict[str, Any]:
    """Convert edits to JSON without default fields.

    `run` is the hash of the weights of the edited model, and `tensors` are the hashes of each of its tensors.
    """
    written = []
    for edit in edits:
        fields = {name: value for name, value in dataclasses.asdict(edit).items() if value not in (None, "")}
        written.append({"site": fields.pop("site"), "do": edit.name(), **fields})
    return {"run": fingerprint, "edits": written} | ({"tensors": dict(tensors)} if tensors else {})


def read_edits(
    source: str | Path, fingerprint: str | None, tensors: Callable[[], Hashes] | None = None
) -> list[Edit]:
    """Read edits from a file, or from JSON itself if the text begins with { or [."""
    text = str(source)
    if not text.strip():
        raise UserError("`edit` is empty; give a JSON file of edits, or the JSON itself")
    name = "`edit`" if text.lstrip()[:1] in ("{", "[", '"') else text
    try:
        content = text.encode() if name == "`edit`" else read_bytes(Path(source), name)
        check_depth(content, name)
        data = json.loads(content, parse_constant=_refuse_constant)
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UserError(f"{name}: is not JSON ({error})") from None
    return edits_from_json(data, fingerprint, name, tensors)


def edits_in_words(edits: Sequence[Edit]) -> str:
    """Describe edits in one line, such as: silence layer0.attention (heads 1)."""
    parts = []
    for edit in edits:
        fields = {name: value for name, value in dataclasses.asdict(edit).items() if value not in (None, "")}
        place = f"{edit.name()} {fields.pop('site')}"
        details = ", ".join(f"{name} {_in_words(value)}" for name, value in fields.items())
        parts.append(f"{place} ({details})" if details else place)
    return "; ".join(parts)


def _in_words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def edits_from_json(
    data: Any, fingerprint: str | None, name: str, tensors: Callable[[], Hashes] | None = None
) -> list[Edit]:
    """Build edits from one object, a list of objects, or the content of a file.

    Edits that name the hash of another run are refused; `tensors()` says which tensor differs.
    """
    if isinstance(data, dict) and "edits" in data:
        made_for = data.get("run")
        if made_for is not None and fingerprint is not None and made_for != fingerprint:
            if tensors is not None and isinstance(data.get("tensors"), dict):
                _refuse_other(data["tensors"], tensors(), name)
            hashes = f"its weights' hash begins {str(made_for)[:8]}, this run's {fingerprint[:8]}"
            raise UserError(f"{name}: made for another run ({hashes})")
        data = data["edits"]
    items = data if isinstance(data, list) else [data]
    return [_edit(item, f"{name}: edit {number}") for number, item in enumerate(items, 1)]


def _refuse_other(wanted: dict[str, Any], own: Hashes, name: str) -> None:
    """Raise an error that names the first tensor in which two models differ."""
    missing = [tensor for tensor in wanted if tensor not in own]
    if missing:
        raise UserError(f"{name}: made for another run (this one has no tensor {missing[0]})")
    other = [tensor for tensor in own if wanted.get(tensor) != own[tensor]]
    if other:
        raise UserError(
            f"{name}: made for another run ({other[0]} differs; {len(other)} of {len(own)} tensors do)"
        )


def _edit(item: Any, name: str) -> Edit:
    kind = EDITS.get(str(item.get("do"))) if isinstance(item, dict) else None
    if kind is None:
        raise UserError(f"{name} must be an object with 'do' and 'site'; the edits are: {', '.join(EDITS)}")
    try:
        return build(kind, {key: value for key, value in item.items() if key != "do"})
    except UserError as error:
        mistake = quote_fields(str(error))
        raise UserError(f"{name}: {item['do']}: {mistake}; it has: {', '.join(kind.fields())}") from None


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")
