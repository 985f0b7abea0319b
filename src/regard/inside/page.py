"""A record as one HTML file that opens offline: numbers in 8 bits, compressed; nothing to fetch."""

import base64
import html
import json
import math
import zlib
from importlib.resources import files
from typing import Any

from torch import Tensor

from regard.inside.record import Map, Record

WHOLE, COARSE = 512, 256  # maps of more positions are shown coarse, with the rows that were worked out


def page(record: Record, title: str, before: Record | None = None) -> str:
    """Maps of every site and head, the text shaded by one row of one map, and the predictions at each position."""
    data = {
        "tokens": record.tokens,
        "given": record.given,
        "right": None if record.right is None else sorted(record.right),
        "maps": [_map(one) for one in record.maps.values() if one.site.holds != "scores"],
        "surprisal": _rounded(record.surprisal),
        "likeliest": [[[token, round(p, 4)] for token, p in position] for position in record.likeliest],
        "parts": {
            place: [[name, _short(value)] for name, value in _largest(record, place)]
            for place in record.parts_at
        },
        "of": None if record.parts is None else record.parts.of,
        "before": None if before is None else _rounded(before.surprisal),
    }
    template = files("regard.inside").joinpath("page.html").read_text(encoding="utf-8")
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in record.notes)
    # "</script>" inside a token must not end the script: < is written as an escape of JSON
    script = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        template.replace("{{title}}", html.escape(title))
        .replace("{{notes}}", notes)
        .replace("{{data}}", script)
    )


def _map(one: Map) -> dict[str, Any]:
    positions = len(one.column_names) - (one.site.extra is not None)
    data: dict[str, Any] = {
        "name": one.site.name,
        "weighs": one.weighs,
        "self": one.weighs and one.site.rows == one.site.columns,
        "over": one.site.columns,
        "side": one.site.rows,
        "heads": one.heads,
        "rows": one.rows,
        "rowNames": one.row_names,
        "columnNames": one.column_names,
        "first": one.first,
        "ahead": one.ahead,
        "numbers": _packed(one.numbers, one.weighs),
        "coarse": None,
    }
    if positions > WHOLE and one.more is not None and one.site.columns == "read":
        block = math.ceil(positions / COARSE)
        data["coarse"] = {"block": block, **_packed(one.pooled(COARSE), weighs=True)}
    return data


def _packed(numbers_HQK: Tensor, weighs: bool) -> dict[str, Any]:
    """Weights as square roots in 8 bits: the many small weights of a long text keep their differences. Values as signed 8 bits."""
    if weighs:
        levels, most = (numbers_HQK.clamp(0, 1).sqrt() * 255).round().byte(), 1.0
    else:
        most = float(numbers_HQK.abs().max()) or 1.0
        levels = (numbers_HQK / most * 127 + 128).round().byte()
    data = base64.b64encode(zlib.compress(levels.numpy().tobytes(), 6)).decode()
    return {"shape": list(numbers_HQK.shape), "most": most, "data": data}


def _largest(record: Record, place: int, many: int = 12) -> list[tuple[str, float]]:
    return sorted(record.terms(place), key=lambda term: -abs(term[1]))[:many]


def _rounded(surprisal: list[float | None]) -> list[float | None]:
    return [None if nll is None else round(nll, 3) for nll in surprisal]


def _short(value: float) -> float:
    return float(f"{value:.4g}")
