"""A record, or an array from elsewhere, as a file: the ending says which kind."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.errors import UserError
from regard.inside.page import page
from regard.inside.pictures import arcs, bars, draw, heat_map, mosaic, to_png
from regard.inside.record import Record

Form = Literal["auto", "map", "arcs", "mosaic", "mixture"]
ENDINGS = (".svg", ".png", ".html", ".json")
PICTURES = (".svg", ".png")


def check_ending(out: Path, endings: Sequence[str] = ENDINGS) -> None:
    """What cannot be written is told before the work, not after it."""
    if out.suffix not in endings:
        raise UserError(f"{out}: --out writes {', '.join(endings[:-1])} or {endings[-1]}")
    if not out.parent.is_dir():
        raise UserError(f"{out.parent}: no such folder; make it first, or write elsewhere with --out")


def write_record(record: Record, out: Path, title: str, form: Form = "auto") -> None:
    """.html shows everything and opens offline, .json holds every number, .svg and .png are one picture."""
    check_ending(out)
    if out.suffix == ".html":
        out.write_text(page(record, title), encoding="utf-8")
    elif out.suffix == ".json":
        out.write_text(json.dumps(record.to_json(), allow_nan=False), encoding="utf-8")
    else:
        write_picture(picture(record, form), out)


def picture(record: Record, form: Form = "auto") -> str:
    """One map or its arcs, small maps of every site and head, or what the last row's prediction is mixed of.

    Without a form: a map where there is one, small ones where there are several, a mixture where there is none.
    """
    maps = {site: weights_HQK for site, weights_HQK in record.weights.items() if not site.endswith(".scores")}
    if form == "auto":
        form = "mixture" if not maps else "map" if sum(map(len, maps.values())) == 1 else "mosaic"
    if form == "mixture":
        return _mixture(record)
    if not maps:
        raise UserError("nothing was weighed at these sites; --form mixture shows what was predicted")
    if form == "mosaic":
        text = " ".join(record.tokens[record.first : record.last])
        title = f"{text[:77]}..." if len(text) > 80 else text
        return mosaic([weights_HQK.numpy() for weights_HQK in maps.values()], list(maps), title, record.heads, record.right or ())
    site, weights_HQK = next(iter(maps.items()))
    rows = [record.tokens[row] for row in record.rows]
    columns = [*record.column_names(), "(vocabulary)"][: weights_HQK.shape[2]]
    kind = heat_map if form == "map" else arcs
    return kind(weights_HQK[0].numpy(), rows, columns, f"{site}, head {record.head(0)}", record.right or ())


def _mixture(record: Record) -> str:
    """The parts of the prediction at the last row: copied words and the vocabulary, an n-gram's orders, or the likeliest words."""
    place = record.rows[-1]
    after = f"after “{record.tokens[place]}”" if record.columns is None else f"instead of “{record.tokens[place]}”"
    if record.copied is not None and record.gate is not None:
        copied = record.copied[place - record.first]
        best = [int(k) for k in copied.topk(min(12, len(copied))).indices if float(copied[k]) > 0]
        words = ["(vocabulary)", *(f"{record.tokens[record.first + k]} ({record.first + k})" for k in sorted(best))]
        return bars(
            np.array([record.gate[place], *(float(copied[k]) for k in sorted(best))]), words, f"where the next word comes from, {after}"
        )
    if record.chains is not None and record.chains:
        chain = record.chains[-1]
        names = ["uniform" if link.order == 0 else f"{link.order}-gram" for link in chain]
        return bars(np.array([link.share for link in chain]), names, f"the probability of “{record.tokens[-1]}”, by order")
    likeliest = record.likeliest[place]
    return bars(np.array([p for _, p in likeliest]), [word for word, _ in likeliest], f"likeliest {after}")


def write_drawing(
    array: np.ndarray, out: Path, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None, title: str = ""
) -> None:
    """Weights from any tool, rank 1 to 4, with their words."""
    check_ending(out)
    drawn = draw(array, rows, columns, title)  # also checks them
    if out.suffix in PICTURES:
        write_picture(drawn, out)
        return
    if array.ndim < 2 or (rows is not None and rows != columns) or array.shape[-1] != array.shape[-2]:
        raise UserError(f"{out}: the page is for a text that looks at itself; draw other weights as .svg or .png")
    tokens = list(columns) if columns is not None else [str(number) for number in range(array.shape[-1])]
    write_record(_as_record(array, tokens), out, title)


def _as_record(array: np.ndarray, tokens: list[str]) -> Record:
    import torch

    maps = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).reshape(
        -1, *array.shape[-3:] if array.ndim > 2 else (1, *array.shape)
    )
    weights = {f"layer{number}" if len(maps) > 1 else "weights": one for number, one in enumerate(maps)}
    seen = {name: lambda rows=None, one=one: one[None] if rows is None else one[None][:, :, rows] for name, one in weights.items()}
    size = len(tokens)
    return Record(tokens, [None] * size, [[] for _ in tokens], list(range(size)), last=size, weights=weights, seen=seen)


def write_chart(chart: Any, out: Path) -> None:
    """An altair chart as .svg or .png."""
    import vl_convert

    write_picture(vl_convert.vegalite_to_svg(chart.to_json()), out)


def write_picture(svg: str, out: Path) -> None:
    if out.suffix == ".svg":
        out.write_text(svg, encoding="utf-8")
    else:
        out.write_bytes(to_png(svg))
