"""A record as one HTML file that opens offline: weights in 8 bits, compressed; nothing to fetch."""

import base64
import html
import json
import zlib
from importlib.resources import files

from regard.inside.record import Record


def page(record: Record, title: str) -> str:
    """Maps of every site and head, the text in colours by one row of one map, and what was predicted at each position."""
    sites = []
    for name, weights_HQK in record.weights.items():
        levels = (weights_HQK.clamp(0, 1) * 255).round().byte().numpy().tobytes()
        packed = base64.b64encode(zlib.compress(levels, 6)).decode()
        sites.append({"name": name, "shape": list(weights_HQK.shape), "data": packed})
    data = {
        "tokens": record.tokens,
        "rows": record.rows,
        "sites": sites,
        "surprisal": [None if nll is None else round(nll, 3) for nll in record.surprisal],
        "likeliest": [[[token, round(p, 4)] for token, p in position] for position in record.likeliest],
        "gate": None if record.gate is None else [round(share, 4) for share in record.gate],
    }
    template = files("regard.inside").joinpath("page.html").read_text(encoding="utf-8")
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in record.notes)
    # "</script>" inside a token must not end the script: < is written as an escape of JSON
    script = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return template.replace("{{title}}", html.escape(title)).replace("{{notes}}", notes).replace("{{data}}", script)
