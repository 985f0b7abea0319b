"""Write results as one file: an offline page, a picture, or JSON, by the ending of the file's name."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.inside.output import PICTURES, check_ending, write_picture
from regard.machine.disk import write_atomically
from regard.tables import as_html, cell_width, fit, harmless

ENDINGS = (".html", ".svg", ".png", ".json")
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222}"
    "h2{margin-top:2rem}.wide{overflow-x:auto}.wide svg{max-width:none}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "td,th{padding:.2rem .7rem;text-align:right;white-space:nowrap;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}th{color:#555;font-weight:600}"
    ":root{color-scheme:light dark}@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}"
    "th{color:#aaa}td,th{border-color:#444}.wide svg{background:#fff}}"
)


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Prose:
    text: str


@dataclass(frozen=True)
class Picture:
    svg: str


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


Part = Heading | Prose | Picture | Table


def check_sheet(out: str | Path | None) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if out is not None:
        check_ending(Path(out), ENDINGS)


def write_sheet(out: str | Path, title: str, parts: Sequence[Part], svg: str, data: dict[str, Any]) -> None:
    """Write all parts (.html), the picture (.svg, .png) or the numbers (.json)."""
    path = Path(out)
    check_ending(path, ENDINGS)
    if path.suffix in PICTURES:
        write_picture(svg, path)
    elif path.suffix == ".json":
        write_atomically(path, json.dumps(data, ensure_ascii=False, allow_nan=False).encode())
    else:
        write_atomically(path, page(title, parts).encode())


def page(title: str, parts: Sequence[Part]) -> str:
    """Make a page that fetches nothing."""
    body = "".join(_part(part) for part in parts)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{as_html(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head>"
        f"<body data-ready><h1>{as_html(title)}</h1>{body}</body></html>"
    )


def _part(part: Part) -> str:
    match part:
        case Heading(text):
            return f"<h2>{as_html(text)}</h2>"
        case Prose(text):
            return f"<p>{as_html(text)}</p>"
        case Picture(svg):
            return f"<div class='wide'>{svg}</div>"
        case Table(columns, rows):
            head = "".join(f"<th scope='col'>{as_html(name)}</th>" for name in columns)
            body = "".join(f"<tr>{''.join(f'<td>{as_html(cell)}</td>' for cell in row)}</tr>" for row in rows)
            table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            return f"<div class='wide'>{table}</div>"


def text_table(table: Table) -> str:
    """Write the table as aligned lines for a terminal."""
    cells = [[harmless(cell, kept="") for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(cell_width(row[column]) for row in cells) for column in range(len(table.columns))]
    lines = []
    for row in cells:
        first, *others = zip(row, widths, strict=True)
        numbers = "".join(f"  {fit(cell, width, right=True)}" for cell, width in others)
        lines.append(f"{fit(*first)}{numbers}".rstrip())
    return "\n".join(lines)
