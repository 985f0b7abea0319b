"""A record as a table or a picture, and pictures as files. The ending of the name chooses the format."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.errors import UserError
from regard.inside.drawing import chart_to_svg, svg_to_png
from regard.inside.image_pictures import overlays, region_maps
from regard.inside.pictures import Panel, arcs, bars, heat_map, mosaic
from regard.inside.record import Record
from regard.machine.disk import write_atomically
from regard.tables import visible

Form = Literal["auto", "map", "arcs", "mosaic", "parts"]
ENDINGS = (".svg", ".png", ".html", ".tsv", ".json")
PICTURES = (".svg", ".png")
TERMS = 12  # terms of a prediction in a picture


def check_ending(out: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if out.suffix not in endings:
        raise UserError(f"{out}: `out` writes {', '.join(endings[:-1])} or {endings[-1]}")
    if not out.parent.is_dir():
        raise UserError(f"{out.parent}: no such folder; make it first, or write elsewhere with `out`")


def table(record: Record) -> str:
    """Return every number of every map as a table with a line for each site, head, row and column."""
    text = io.StringIO()
    rows = csv.writer(text, delimiter="\t", lineterminator="\n")
    rows.writerow(["site", "head", "row", "row_name", "column", "column_name", "number"])
    for site, site_map in record.maps.items():
        for head, map_QK in zip(site_map.heads, site_map.numbers.tolist(), strict=True):
            for row, row_name, numbers in zip(site_map.rows, site_map.row_names, map_QK, strict=True):
                for column, (name, number) in enumerate(
                    zip(site_map.column_names, numbers, strict=True), site_map.first
                ):
                    rows.writerow([site, head, row, row_name, column, name, f"{number:.6g}"])
    return text.getvalue()


def picture(record: Record, form: Form = "auto", title: str = "") -> str:
    """Draw one map or its arcs, a small map for every site and head, or the terms of the last prediction.

    `auto` draws one map if there is one, small maps if there are several, and the terms if there is none.
    """
    maps = [site_map for site_map in record.maps.values() if site_map.site.holds != "scores"]
    if form == "auto" and record.image is not None and region_maps(record):
        return overlays(record, title)
    if form == "auto":
        form = (
            "parts" if not maps else "map" if sum(len(site_map.heads) for site_map in maps) == 1 else "mosaic"
        )
    if form == "parts":
        return _parts(record)
    if not maps:
        raise UserError(
            "there are no maps at these sites; `form` parts shows what the predictions are made of"
        )
    right = record.right or ()
    if form == "mosaic":
        text = " ".join(map(visible, record.tokens))
        title = f"{title}: {text}" if title else text
        panels = [
            Panel(site_map.site.name, site_map.numbers.numpy(), site_map.heads, not site_map.weighs)
            for site_map in maps
        ]
        return mosaic(panels, f"{title[:97]}..." if len(title) > 100 else title, right)
    first = maps[0]
    name = f"{first.site.name}, {first.heads[0]}" if first.heads[0] else first.site.name
    if form == "arcs" and not first.weighs:
        raise UserError(f"arcs are for weights; {first.site.name} holds values: give `form` map")
    kind = heat_map if form == "map" else arcs
    return kind(first.numbers[0].numpy(), first.row_names, first.column_names, name, right)


def _parts(record: Record) -> str:
    """Draw the terms of the last prediction as bars; without terms, the likeliest tokens."""
    if record.labels is not None:
        return bars(np.array([p for _, p in record.labels]), [name for name, _ in record.labels], "labels")
    if record.parts is None or not record.parts_at:
        known = [place for place, words in enumerate(record.likeliest) if words]
        if not known:
            raise UserError("no word of this text is predicted: there is no picture of its parts")
        words, of = record.likeliest[known[-1]], f"“{record.tokens[known[-1]]}” ({known[-1]})"
        title = f"likeliest words of {of}" if record.fills else f"likeliest after {of}"
        return bars(np.array([p for _, p in words]), [word for word, _ in words], title)
    place = record.parts_at[-1]
    terms = sorted(record.terms(place), key=lambda term: -abs(term[1]))
    shown, rest = terms[:TERMS], terms[TERMS:]
    if rest:
        shown.append((f"{len(rest)} smaller terms", sum(value for _, value in rest)))
    title = f"the {record.parts.of} of “{record.tokens[place + 1]}” ({place + 1}) is the sum of"
    return bars(np.array([value for _, value in shown]), [name for name, _ in shown], title)


def write_chart(chart: Any, out: Path) -> None:
    """Write an altair chart as .svg or .png."""
    write_picture(chart_to_svg(chart), out)


def write_picture(svg: str, out: Path) -> None:
    write_atomically(Path(out), svg.encode() if Path(out).suffix == ".svg" else svg_to_png(svg))
