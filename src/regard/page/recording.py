"""A page in one file: the bundle of the lab, and the recorded answers of models about a text.

The file has the page's scripts and styles inside; its content security policy allows these and no others.
The numbers of maps have 8 bits, or 16 bits if there are few. Of a text of more than WHOLE positions, the
file holds the rows that the record holds, and all rows in blocks.

Shape legend: H heads, Q rows, K columns.
"""

import base64
import hashlib
import html
import json
import math
import zlib
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from torch import Tensor

from regard.inside.observe import Reading
from regard.inside.record import Map, Record
from regard.page.answers import compared, info_of, read_of
from regard.page.protocol import Next, Read, RunInfo, SiteInfo, to_json
from regard.page.recorded import Packed, RecordedMap, RecordedModel, RecordedVersion, Recording
from regard.runs.run import Run
from regard.tables import as_html
from regard.tokens.word_groups import MARKS

WHOLE, COARSE = 512, 256  # a map of more than 512 positions is recorded as 256 blocks
FEW = 1 << 18  # numbers; a record with more of them has 8 bits for each
TOP = 12  # the likeliest tokens in a comparison


@dataclass(frozen=True)
class Source:
    """Which model made a record, and what it read."""

    name: str
    run: Run | None = None
    changed: Run | None = None  # the run under the edits
    reading: Reading | None = None
    text: str = ""
    target: str | None = None
    words: bool = False
    edits: tuple[dict[str, Any], ...] = ()
    image: Path | None = None  # that a captioner looked at

    @property
    def title(self) -> str:
        return "" if self.run is None else f"{self.run.model.family} · {self.name}"

    @property
    def info(self) -> RunInfo:
        """Describe the run, or the record that comes from no run."""
        if self.run is None:
            return RunInfo("r0", self.name, "", "", "word", "text", None)
        return info_of(self.run, name=self.name)

    def next(self) -> list[Next]:
        """Return the distributions with and without the edits."""
        if self.run is None or self.changed is None or self.reading is None:
            return []
        models = self.run.language_model, self.changed.language_model
        return compared(*models, self.reading, self.run.tokenizer, TOP)

    def view(self, record: Record) -> str:
        """Return the view that opens, as in the address bar."""
        items = {
            "run": self.name,
            "text": self.text or " ".join(token for token in record.tokens if token not in MARKS),
        }
        if self.target is not None:
            items["target"] = self.target
        if self.edits:
            items["edit"] = json.dumps(self.edits)
        if any(_block(site_map) > 1 for site_map in record.maps.values()):
            items["form"] = "map"
        return f"#{'attend' if record.maps else 'read'}?{urlencode(items)}"


def file_of(title: str, record: Record, before: Record | None, source: Source) -> str:
    """Return the page of one record."""
    vocabulary = 0 if source.run is None else source.run.tokenizer.size
    model = recorded(source.info, record, before, source.next(), vocabulary, source.words)
    return page(Recording(source.title or title, source.view(record), [model]), title)


def recorded(
    info: RunInfo,
    record: Record,
    before: Record | None,
    next: list[Next],
    vocabulary: int,
    words: bool,
) -> RecordedModel:
    """Return what a model said, without and with the edits."""
    versions = [record] if before is None else [record, before]
    sizes = (site_map.numbers.numel() for one in versions for site_map in one.maps.values())
    levels = 255 if sum(sizes) > FEW else 65535

    def version(one: Record, before: Record | None) -> RecordedVersion:
        return _version(one, read_of(one, before, info.tokens, vocabulary, words), levels)

    after, *rest = (version(record, before), *(version(one, None) for one in versions[1:]))
    return RecordedModel(info, after, rest[0] if rest else None, next)


def page(recording: Recording, title: str) -> str:
    """Return the file. The hashes of its script and its styles are its content security policy."""
    script, style = (_bundled(name) for name in ("lab.js", "lab.css"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # A token such as "</script>" must not end the script, so < is written as a JSON escape.
    data = to_json(recording).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="content-security-policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{as_html(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="lab" data-host="file"></div>\n'
        f'<script type="application/json" id="recording">{data}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    )


def frame(file: str) -> str:
    """Put a file into a frame for a notebook."""
    return f'<iframe srcdoc="{html.escape(file)}" width="100%" height="640" style="border:0"></iframe>'


def _bundled(name: str) -> str:
    text = files("regard.page").joinpath("bundle", name).read_text("utf-8")
    assert not any(mark in text for mark in ("</script", "</style", "<!--"))
    return text


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _version(record: Record, read: Read, levels: int) -> RecordedVersion:
    maps, sites = dict[str, RecordedMap](), list[SiteInfo]()
    for site in read.sites:
        site_map = record.maps[site.name]
        block = _block(site_map)
        coarse = site_map.pooled(COARSE) if block > 1 else None
        maps[site.name] = RecordedMap(
            list(site_map.rows),
            packed(site_map.numbers, site_map.weighs, levels),
            None if coarse is None else packed(coarse, True, 255),
        )
        sites.append(_held(replace(site, block=block), site_map, record, read.axes))
    return RecordedVersion(replace(read, sites=sites), maps)


def _block(site_map: Map) -> int:
    """Return how many positions a side of a recorded square stands for."""
    positions = len(site_map.column_names) - (site_map.site.extra is not None)
    long = positions > WHOLE and site_map.more is not None and site_map.site.columns == "read"
    return math.ceil(positions / COARSE) if long and site_map.site.rows == "read" else 1


def _held(site: SiteInfo, site_map: Map, record: Record, axes: list[list[str]]) -> SiteInfo:
    """Say which rows are there. Rows are counted one by one from the first, so all between have names."""
    if site.block > 1:
        first, names = site_map.first, list(site_map.column_names)
        names = names[: len(names) - (site_map.site.extra is not None)]
    else:
        first = site_map.rows[0]
        side = {"read": record.tokens, "given": record.given or []}.get(site_map.site.rows)
        names = list(site_map.row_names)
        if side is not None:
            names = side[first + site_map.ahead : site_map.rows[-1] + 1 + site_map.ahead]
    known = None if list(site_map.rows) == list(range(first, first + len(names))) else list(site_map.rows)
    if names not in axes:
        axes.append(names)
    return replace(site, rows=axes.index(names), first=first, known=known)


def packed(numbers_HQK: Tensor, weighs: bool, levels: int) -> Packed:
    """Pack numbers: square roots of weights, which keep the differences between small ones, or values."""
    most = 1.0 if weighs else float(numbers_HQK.abs().max()) or 1.0
    if weighs:
        shares = numbers_HQK.clamp(0, 1).sqrt() * levels
    else:
        middle = (levels + 1) / 2
        shares = numbers_HQK / most * (middle - 1) + middle
    whole = shares.round().numpy().astype("u1" if levels == 255 else "<u2")
    heads, rows, columns = numbers_HQK.shape
    data = base64.b64encode(zlib.compress(whole.tobytes(), 6)).decode()
    return Packed((heads, rows, columns), weighs, levels, most, data)
