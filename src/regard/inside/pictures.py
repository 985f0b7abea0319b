"""Pictures of numbers as SVG. The same numbers give the same bytes.

White is 0, dark blue is the largest number, orange is below 0. These colours differ without colour vision.

Shape legend: Q rows, K columns, H heads, S sites.
"""

import base64
import re
import struct
import textwrap
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import UserError
from regard.tables import as_html, visible

FONT = 12
DARK = "#222"
ACCENT = "#D55E00"
SQUARES = 4096  # a map of more squares is drawn as one image inside the picture
MANY = 40  # a map with more columns has smaller squares, and shades of square roots
LONGEST, WIDER = 14, 28  # the longest labels above a map and beside it, in letters


@dataclass(frozen=True)
class Panel:
    """The maps of one site."""

    name: str
    maps_HQK: np.ndarray
    heads: Sequence[str] = ()
    signed: bool = False  # values, of any size and sign


def shade(weight: float) -> str:
    depths = (255, 175, 105) if weight >= 0 else (42, 161, 255)
    return "#" + "".join(f"{round(255 - depth * min(1.0, abs(weight))):02x}" for depth in depths)


def heat_map(
    weights_QK: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    right: Collection[tuple[int, int]] = (),
) -> str:
    """Draw a map in which rows attend to columns. Gold links are framed.

    Without room for every label, each nth row and column has a label.
    """
    queries, keys = weights_QK.shape
    weights_QK, title = _legible(weights_QK, title)
    size = _square(max(queries, keys))
    left, top = _label_width(rows, WIDER), _label_width(columns) + (2 * FONT if title else 0)
    marks = [_map(weights_QK, left, top, size)]
    every = _every(size)
    marks += [
        text_mark(left - 4, top + (q + 0.5) * size, rows[q], "end", longest=WIDER)
        for q in range(0, queries, every)
    ]
    marks += [
        text_mark(left + (k + 0.5) * size, top - 4, columns[k], "start", turned=True)
        for k in range(0, keys, every)
    ]
    for q, k in sorted(right):
        marks.append(_frame(left + k * size, top + q * size, size, size))
    if title:
        marks.append(title_mark(title))
    return svg_of(max(left + keys * size + 8, title_width(title)), top + queries * size + 8, marks)


def arcs(
    weights_QK: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    right: Collection[tuple[int, int]] = (),
) -> str:
    """Draw rows on the left, columns on the right, and a line for each weight.

    Larger weights have thicker lines. Gold links are dashed lines.
    """
    step, reach = FONT * 1.5, 240
    left, top = _label_width(rows), 3 * FONT
    strongest = float(weights_QK.max()) or 1.0
    marks = [title_mark(title)] if title else []

    def line(q: int, k: int, stroke: str) -> str:
        start, end = top + q * step, top + k * step
        middle, far = left + reach / 2, left + reach
        path = (
            f"M{left + 6:.1f} {start:.1f}C{middle:.1f} {start:.1f} {middle:.1f} {end:.1f} {far:.1f} {end:.1f}"
        )
        return f'<path d="{path}" fill="none" {stroke}/>'

    for q, k in zip(*np.nonzero(weights_QK > 0.02 * strongest), strict=True):
        share = float(weights_QK[q, k]) / strongest
        stroke = f'stroke="#0072B2" stroke-opacity="{0.15 + 0.85 * share:.3f}" stroke-width="{5 * share:.2f}"'
        marks.append(line(q, k, stroke))
    dashed = f'stroke="{ACCENT}" stroke-width="1.5" stroke-dasharray="4 3"'
    marks += [line(q, k, dashed) for q, k in sorted(right)]
    marks += [text_mark(left, top + q * step, word, "end") for q, word in enumerate(rows)]
    marks += [text_mark(left + reach + 6, top + k * step, word, "start") for k, word in enumerate(columns)]
    return svg_of(
        max(left + reach + _label_width(columns), title_width(title)),
        top + max(len(rows), len(columns)) * step,
        marks,
    )


def _frame(x: float, y: float, width: float, height: float) -> str:
    """Draw a frame around a gold link."""
    inset, line = min(1.5, width / 8, height / 8), min(2.0, width / 6, height / 6)
    place = f'x="{x + inset:.2f}" y="{y + inset:.2f}"'
    size = f'width="{width - 2 * inset:.2f}" height="{height - 2 * inset:.2f}"'
    return f'<rect {place} {size} fill="none" stroke="{ACCENT}" stroke-width="{line:.3g}"/>'


SIDE, GAP = 96, 12  # of the small maps of a mosaic


def mosaic(
    panels: Sequence[Panel],
    title: str = "",
    right: Collection[tuple[int, int]] = (),
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> str:
    """Draw a small map for each head: a row of maps for each site. Gold links are framed.

    Labels of rows stand left of the first map, labels of columns under the last row of maps.
    """
    side, gap = SIDE, GAP
    legible = [[_legible(map_QK, title) for map_QK in panel.maps_HQK] for panel in panels]
    unsigned = [maps[0][1] for panel, maps in zip(panels, legible, strict=True) if not panel.signed]
    title = unsigned[0] if unsigned else title
    widest = max(len(panel.maps_HQK) for panel in panels)
    names, top = _label_width([panel.name for panel in panels], longest=WIDER), (2.0 if title else 0.5) * FONT
    left = names + (_label_width(rows) if rows else 0)
    marks, high = [title_mark(title)] if title else [], side + gap + FONT
    for s, (panel, maps) in enumerate(zip(panels, legible, strict=True)):
        y = top + s * high + FONT
        marks.append(text_mark(names - 6, y + side / 2, panel.name, "end", longest=WIDER))
        marks += _side_labels(rows, left - 4, y, turned=False)
        for h, (map_QK, _) in enumerate(maps):
            x = left + h * (side + gap)
            marks.append(
                text_mark(x + side / 2, y - 6, panel.heads[h] if panel.heads else f"head {h}", "middle")
            )
            marks.append(_image(map_QK, x, y, side, side))
            width, height = side / map_QK.shape[1], side / map_QK.shape[0]
            marks += [_frame(x + k * width, y + q * height, width, height) for q, k in sorted(right)]
            marks.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}" fill="none" stroke="#bbb"/>'
            )
    bottom = top + len(panels) * high - gap
    for h in range(len(panels[-1].maps_HQK)):
        marks += _side_labels(columns, left + h * (side + gap), bottom + 4, turned=True)
    height = bottom + gap + 4 + (_label_width(columns) if columns else 0)
    return svg_of(max(left + widest * (side + gap), title_width(title)), height, marks)


def _side_labels(words: Sequence[str], x: float, y: float, turned: bool) -> list[str]:
    """Label the side of a small map: downwards, or turned and to the right."""
    if not words:
        return []
    step = SIDE / len(words)
    places = range(0, len(words), _every(step))
    if turned:
        return [text_mark(x + (place + 0.5) * step, y, words[place], "end", turned=True) for place in places]
    return [text_mark(x, y + (place + 0.5) * step, words[place], "end") for place in places]


def before_and_after(before: str, after: str, title: str) -> str:
    """Put two pictures side by side under a title that says what was changed."""
    (left, top), (right, bottom) = _size(before), _size(after)
    gap, width = 24, left + 24 + right
    lines = textwrap.wrap(title, max(20, int(width / (0.62 * FONT)) - 2)) or [""]
    head = (len(lines) + 2) * 1.4 * FONT
    marks = [
        f'<text x="8" y="{(number + 1) * 1.4 * FONT:.1f}" font-weight="bold">{as_html(line)}</text>'
        for number, line in enumerate(lines)
    ]
    for x, name, picture in ((0.0, "before", before), (left + gap, "after", after)):
        marks.append(f'<text x="{x + 8:.0f}" y="{head - 0.4 * FONT:.1f}" fill="{ACCENT}">{name}</text>')
        marks.append(f'<g transform="translate({x:.0f} {head:.0f})">{picture.strip()}</g>')
    return svg_of(width, head + max(top, bottom), marks)


def _size(svg: str) -> tuple[float, float]:
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
    assert size is not None, "a picture of ours says its size"
    return float(size[1]), float(size[2])


def bars(shares_K: np.ndarray, words: Sequence[str], title: str = "") -> str:
    """Draw a bar for each word, orange below 0: a row of weights, or the terms of a mixture or a score."""
    step, width = FONT * 1.6, 320
    left, top = _label_width(words, longest=WIDER), (3.0 if title else 1.0) * FONT
    marks = [title_mark(title)] if title else []
    most, least = max(float(shares_K.max()), 0.0), min(float(shares_K.min()), 0.0)
    scale = width / max(most - least, 1e-9)
    # Bars below 0 and their numbers lie to the left of zero.
    zero = left - least * scale + (50 if least < 0 else 0)
    for k, share in enumerate(shares_K.tolist()):
        y, length = top + k * step, abs(share) * scale
        marks.append(text_mark(left - 6, y + FONT / 2, words[k], "end", longest=WIDER))
        x, colour = (zero, "#0072B2") if share >= 0 else (zero - length, ACCENT)
        marks.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{length:.2f}" height="{FONT}" fill="{colour}"/>')
        label = f"{share:.3f}" if abs(share) >= 0.01 or share == 0 else f"{share:.1e}"
        label_x, anchor = (zero + length + 6, "start") if share >= 0 else (zero - length - 6, "end")
        marks.append(text_mark(label_x, y + FONT / 2, label, anchor))
    return svg_of(max(zero + most * scale + 60, title_width(title)), top + len(words) * step, marks)


def table(
    shares_QK: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    words: Sequence[Sequence[str]],
    title: str = "",
) -> str:
    """Draw a table with a word in every square, shaded by the word's share."""
    wide, high = 0.62 * FONT * LONGEST + 8, FONT * 1.8
    left, top = _label_width(rows, WIDER), (4.5 if title else 2.5) * FONT
    marks = [title_mark(title)] if title else []
    marks += [
        text_mark(left + (k + 0.5) * wide, top - FONT, word, "middle") for k, word in enumerate(columns)
    ]
    for q, row in enumerate(rows):
        marks.append(text_mark(left - 6, top + (q + 0.5) * high, row, "end", longest=WIDER))
        for k in range(len(columns)):
            share, x, y = float(shares_QK[q, k]), left + k * wide, top + q * high
            size = f'width="{wide:.1f}" height="{high:.1f}"'
            marks.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{shade(share)}" stroke="#ddd"/>')
            label = text_mark(x + wide / 2, y + high / 2, words[q][k], "middle")
            marks.append(label.replace("<text", '<text fill="white"', 1) if share > 0.55 else label)
    return svg_of(max(left + len(columns) * wide + 8, title_width(title)), top + len(rows) * high + 8, marks)


def draw(
    array: np.ndarray,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
) -> str:
    """Draw an array of 1 to 4 axes: bars, a map, a map for each head, or a map for each layer and head."""
    if not 1 <= array.ndim <= 4 or 0 in array.shape:
        raise UserError(
            f"weights of shape {array.shape} cannot be drawn: they have 1 to 4 axes, none of them empty"
        )
    if not np.isfinite(array).all():
        raise UserError("the weights hold infinities or NaN; give finite numbers")
    columns = _names(columns, array.shape[-1], "columns")
    if array.ndim == 1:
        return bars(array, columns, title)
    if rows is None and array.shape[-1] == array.shape[-2]:
        rows = columns
    rows = _names(rows, array.shape[-2], "rows")
    if array.ndim == 2:
        return heat_map(array, rows, columns, title)
    if array.ndim == 3:
        return mosaic([Panel("", array)], title, rows=rows, columns=columns)
    panels = [Panel(f"layer {number}", maps) for number, maps in enumerate(array)]
    return mosaic(panels, title, rows=rows, columns=columns)


def _names(words: Sequence[str] | None, size: int, axis: str) -> list[str]:
    if words is None:
        return [str(number) for number in range(size)]
    if len(words) != size:
        raise UserError(f"there are {len(words)} words for {size} {axis}; give one for each")
    return [str(word) for word in words]


def _legible(weights_QK: np.ndarray, title: str) -> tuple[np.ndarray, str]:
    """Scale a map so that its shades differ, and note the scale in the title.

    Among many columns most weights are small, so that their square roots are shaded.
    """
    if weights_QK.min() < 0 or weights_QK.max() > 1:
        most = float(np.abs(weights_QK).max())
        return weights_QK / most, f"{title} (darkest: {most:.3g})"
    if weights_QK.shape[1] <= MANY:
        return weights_QK, title
    return np.sqrt(np.clip(weights_QK, 0, None)), f"{title} (shaded by square roots)"


def _square(longest: int) -> float:
    return max(720 / longest, 1.0) if longest > MANY else 18.0


def _every(size: float) -> int:
    """Return n, so that labels of every nth row do not touch."""
    return max(1, int(np.ceil((FONT + 1) / size)))


def shown(word: str, longest: int = LONGEST) -> str:
    """Make a label of a word: line ends and outer spaces become visible, long words are cut."""
    word = visible(word)
    return word if len(word) <= longest else word[: longest - 1] + "…"


def _label_width(words: Sequence[str], longest: int = LONGEST) -> float:
    return 12 + 0.62 * FONT * max((len(shown(word, longest)) for word in words), default=0)


def title_width(title: str) -> float:
    return 16 + 0.62 * FONT * len(title)


def text_mark(
    x: float, y: float, word: str, anchor: str, turned: bool = False, longest: int = LONGEST
) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    middle = f' dominant-baseline="middle"{turn}>'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{middle}{as_html(shown(word, longest))}</text>'
    )


def title_mark(title: str) -> str:
    return f'<text x="8" y="{1.2 * FONT:.1f}" font-weight="bold">{as_html(shown(title, 200))}</text>'


def _map(weights_QK: np.ndarray, left: float, top: float, size: float) -> str:
    queries, keys = weights_QK.shape
    whole = f'width="{keys * size:.1f}" height="{queries * size:.1f}"'
    frame = f'<rect x="{left:.1f}" y="{top:.1f}" {whole} fill="none" stroke="#bbb"/>'
    if weights_QK.size > SQUARES:
        return _image(weights_QK, left, top, keys * size, queries * size) + frame
    squares = [
        f'<rect x="{left + k * size:.1f}" y="{top + q * size:.1f}" width="{size:.1f}" height="{size:.1f}" '
        f'fill="{shade(weight)}">'
        f"<title>{weight:.3f}</title></rect>"
        for q, row in enumerate(weights_QK.tolist())
        for k, weight in enumerate(row)
        if weight != 0
    ]
    return "".join(squares) + frame


def _image(weights_QK: np.ndarray, x: float, y: float, width: float, height: float) -> str:
    data = base64.b64encode(_pixels(weights_QK)).decode()
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    style = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
    return f'<image {place} {style} href="data:image/png;base64,{data}"/>'


def _pixels(weights_QK: np.ndarray) -> bytes:
    """Make a PNG with a pixel for each weight and a palette of 256 shades (PNG specification, 11.2)."""
    low = -1.0 if weights_QK.min() < 0 else 0.0
    levels = ((np.clip(weights_QK, low, 1) - low) / (1 - low) * 255).round().astype(np.uint8)
    no_filter = np.zeros((len(levels), 1), np.uint8)  # each line begins with the number of its filter
    lines = np.concatenate([no_filter, levels], 1).tobytes()
    palette = b"".join(bytes.fromhex(shade(low + level / 255 * (1 - low))[1:]) for level in range(256))
    header = struct.pack(">IIBBBBB", levels.shape[1], levels.shape[0], 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def svg_of(width: float, height: float, marks: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = f'font-family="DejaVu Sans, Arial, sans-serif" font-size="{FONT}" fill="{DARK}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>'
        + '<rect width="100%" height="100%" fill="white"/>'
        + "".join(marks)
        + "</svg>\n"
    )
