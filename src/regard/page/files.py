"""Write a record, or an array from another tool, to a file. The ending of the name chooses the format."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from regard.errors import UserError
from regard.inside.output import PICTURES, Form, check_ending, picture, table, write_picture
from regard.inside.pictures import before_and_after, draw
from regard.inside.record import Map, Record
from regard.machine.disk import write_atomically
from regard.page.recording import Source, file_of
from regard.parts.look import Site


def write_record(
    record: Record,
    out: Path,
    title: str,
    form: Form = "auto",
    before: Record | None = None,
    source: Source | None = None,
) -> None:
    """Write an offline page (.html), all numbers (.json), a table (.tsv) or a picture (.svg, .png).

    `source` says which model read what; without it, the page shows the record alone.
    """
    check_ending(out)
    if out.suffix == ".html":
        write_atomically(out, file_of(title, record, before, source or Source(name=title)).encode())
    elif out.suffix == ".json":
        write_atomically(out, json.dumps(record.to_json(), allow_nan=False).encode())
    elif out.suffix == ".tsv":
        write_atomically(out, table(record).encode())
    else:
        if before is None:
            drawn = picture(record, form, title)
        else:
            drawn = before_and_after(picture(before, form), picture(record, form), title)
        write_picture(drawn, out)


def write_drawing(
    array: np.ndarray,
    out: Path,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
) -> None:
    """Write a picture or a page of weights from any tool, an array of 1 to 4 axes."""
    check_ending(out, (".svg", ".png", ".html"))
    drawn = draw(array, rows, columns, title)  # draw() also checks the array
    if out.suffix in PICTURES:
        write_picture(drawn, out)
        return
    if array.ndim < 2 or (rows is not None and rows != columns) or array.shape[-1] != array.shape[-2]:
        raise UserError(
            f"{out}: the page is for a text that looks at itself; draw other weights as .svg or .png"
        )
    tokens = list(columns) if columns is not None else [str(number) for number in range(array.shape[-1])]
    write_record(_as_record(array, tokens), out, title)


def _as_record(array: np.ndarray, tokens: list[str]) -> Record:
    shape = array.shape[-3:] if array.ndim > 2 else (1, *array.shape)
    numbers = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).reshape(-1, *shape)
    size, maps = len(tokens), {}
    for number, numbers_HQK in enumerate(numbers):
        name = f"layer{number}" if len(numbers) > 1 else "weights"
        heads = tuple(f"head {head}" for head in range(len(numbers_HQK)))
        maps[name] = Map(
            Site(name, "BHTS", "weights"),
            heads,
            tuple(range(size)),
            tuple(tokens),
            tuple(tokens),
            numbers_HQK,
        )
    return Record(tokens, list(range(size)), [None] * size, [[] for _ in tokens], maps=maps)
