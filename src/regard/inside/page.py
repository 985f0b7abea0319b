"""A record as one HTML file that opens offline: weights in 8 bits, compressed; nothing to fetch."""

import base64
import html
import json
import math
import zlib
from importlib.resources import files
from typing import Any

from torch import Tensor

from regard.inside.record import Record

WHOLE, COARSE = 512, 256  # maps of more positions are shown coarse, with the rows that were asked for


def page(record: Record, title: str) -> str:
    """Maps of every site and head, the text in colours by one row of one map, and what was predicted at each position."""
    length = record.last - record.first
    sites = []
    for name, weights_HQK in record.weights.items():
        if name.endswith(".scores"):
            continue
        site: dict[str, Any] = {"name": name, "rows": _packed(weights_HQK), "coarse": None}
        if length > WHOLE and record.columns is None:
            block = math.ceil(length / COARSE)
            site["coarse"] = {"block": block, **_packed(record.pooled(name, COARSE))}
        sites.append(site)
    data = {
        "tokens": record.tokens,
        "rows": record.rows,
        "heads": record.heads,
        "columns": record.columns,
        "right": None if record.right is None else sorted(record.right),
        "first": record.first,
        "sites": sites,
        "surprisal": [None if nll is None else round(nll, 3) for nll in record.surprisal],
        "likeliest": [[[token, round(p, 4)] for token, p in position] for position in record.likeliest],
        "gate": None if record.gate is None else [None if share is None else round(share, 4) for share in record.gate],
    }
    template = files("regard.inside").joinpath("page.html").read_text(encoding="utf-8")
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in record.notes)
    # "</script>" inside a token must not end the script: < is written as an escape of JSON
    script = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return template.replace("{{title}}", html.escape(title)).replace("{{notes}}", notes).replace("{{data}}", script)


def _packed(weights_HQK: Tensor) -> dict[str, Any]:
    """Square roots in 8 bits: small weights, of which a long text has many, keep their differences."""
    levels = (weights_HQK.clamp(0, 1).sqrt() * 255).round().byte().numpy().tobytes()
    return {"shape": list(weights_HQK.shape), "data": base64.b64encode(zlib.compress(levels, 6)).decode()}
