"""Write a record as one HTML file that opens offline. The numbers have 8 bits and are compressed."""

import base64
import html
import json
import math
import zlib
from importlib.resources import files
from typing import Any

from torch import Tensor

from regard.inside.image_pictures import data_uri
from regard.inside.record import Map, Record

WHOLE, COARSE = 512, 256  # a map of more than 512 positions is shown as 256 blocks


def page(record: Record, title: str, before: Record | None = None) -> str:
    """Make the page: maps of every site and head, the shaded text, and the predictions at each position."""
    data = {
        "tokens": record.tokens,
        "given": record.given,
        "image": None if record.image is None else record.image.to_json() | {"src": data_uri(record.image)},
        "right": None if record.right is None else sorted(record.right),
        **_version(record),
        "before": None if before is None else _version(before),
    }
    template = files("regard.inside").joinpath("page.html").read_text(encoding="utf-8")
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in record.notes)
    # A token such as "</script>" must not end the script, so < is written as a JSON escape.
    script = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        template.replace("{{title}}", html.escape(title))
        .replace("{{notes}}", notes)
        .replace("{{data}}", script)
    )


def _version(record: Record) -> dict[str, Any]:
    """Return what an edit changes: maps, surprisal, likeliest tokens and terms."""
    return {
        "maps": [_map(site_map) for site_map in record.maps.values() if site_map.site.holds != "scores"],
        "surprisal": _rounded(record.surprisal),
        "labels": record.labels,
        "fills": record.fills,
        "likeliest": [[[token, round(p, 4)] for token, p in position] for position in record.likeliest],
        "parts": {
            place: [[name, _short(value)] for name, value in _largest(record, place)]
            for place in record.parts_at
        },
        "of": None if record.parts is None else record.parts.of,
    }


def frame(html_page: str) -> str:
    """Put a page into a frame for a notebook."""
    return f'<iframe srcdoc="{html.escape(html_page)}" width="100%" height="640" style="border:0"></iframe>'


def _map(site_map: Map) -> dict[str, Any]:
    positions = len(site_map.column_names) - (site_map.site.extra is not None)
    data: dict[str, Any] = {
        "name": site_map.site.name,
        "weighs": site_map.weighs,
        "self": site_map.weighs and site_map.site.rows == site_map.site.columns,
        "over": site_map.site.columns,
        "side": site_map.site.rows,
        "heads": site_map.heads,
        "rows": site_map.rows,
        "rowNames": site_map.row_names,
        "columnNames": site_map.column_names,
        "first": site_map.first,
        "ahead": site_map.ahead,
        "numbers": _packed(site_map.numbers, site_map.weighs),
        "coarse": None,
    }
    if positions > WHOLE and site_map.more is not None and site_map.site.columns == "read":
        block = math.ceil(positions / COARSE)
        data["coarse"] = {"block": block, **_packed(site_map.pooled(COARSE), weighs=True)}
    return data


def _packed(numbers_HQK: Tensor, weighs: bool) -> dict[str, Any]:
    """Pack numbers into 8 bits: square roots of weights, signed shares of the largest value.

    Square roots keep the differences between the many small weights of a long text.
    """
    if weighs:
        levels, most = (numbers_HQK.clamp(0, 1).sqrt() * 255).round().byte(), 1.0
    else:
        most = float(numbers_HQK.abs().max()) or 1.0
        levels = (numbers_HQK / most * 127 + 128).round().byte()
    data = base64.b64encode(zlib.compress(levels.numpy().tobytes(), 6)).decode()
    return {"shape": list(numbers_HQK.shape), "most": most, "data": data}


def _largest(record: Record, place: int, limit: int = 12) -> list[tuple[str, float]]:
    return sorted(record.terms(place), key=lambda term: -abs(term[1]))[:limit]


def _rounded(surprisal: list[float | None]) -> list[float | None]:
    return [None if nll is None else round(nll, 3) for nll in surprisal]


def _short(value: float) -> float:
    return float(f"{value:.4g}")
