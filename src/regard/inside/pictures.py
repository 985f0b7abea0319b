"""Pictures of numbers as SVG: the same numbers give the same bytes.

White is 0, dark blue the most, orange below 0: readable without colour vision.

Shape legend: Q rows, K columns, H heads, S sites.
"""

import base64
import re
import struct
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from regard.errors import UserError

FONT = 12
DARK = "#222"
ACCENT = "#D55E00"
SQUARES = 4096  # a map of more squares is one image inside the picture
MANY = 40  # words in a row of a map
LONGEST, WIDER = 14, 28  # letters of a word that are shown above a map and beside it


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
    """Rows look at columns. Every word is named if there is room, else every nth. Right links are framed."""
    queries, keys = weights_QK.shape
    weights_QK, title = _legible(weights_QK, title)
    size = _square(max(queries, keys))
    left, top = _label_width(rows, WIDER), _label_width(columns) + (2 * FONT if title else 0)
    marks = [_map(weights_QK, left, top, size)]
    every = _every(size)
    marks += [
        _text(left - 4, top + (q + 0.5) * size, rows[q], "end", longest=WIDER)
        for q in range(0, queries, every)
    ]
    marks += [
        _text(left + (k + 0.5) * size, top - 4, columns[k], "start", turned=True)
        for k in range(0, keys, every)
    ]
    for q, k in sorted(right):
        marks.append(_frame(left + k * size, top + q * size, size, size))
    if title:
        marks.append(_title(title))
    return _svg(max(left + keys * size + 8, _wide(title)), top + queries * size + 8, marks)


def arcs(
    weights_QK: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    right: Collection[tuple[int, int]] = (),
) -> str:
    """Words in two columns: those that look on the left, those that are looked at on the right. A thick line is a large weight.

    Right links are dashed lines.
    """
    step, reach = FONT * 1.5, 240
    left, top = _label_width(rows), 3 * FONT
    strongest = float(weights_QK.max()) or 1.0
    marks = [_title(title)] if title else []

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
    marks += [_text(left, top + q * step, word, "end") for q, word in enumerate(rows)]
    marks += [_text(left + reach + 6, top + k * step, word, "start") for k, word in enumerate(columns)]
    return _svg(
        max(left + reach + _label_width(columns), _wide(title)),
        top + max(len(rows), len(columns)) * step,
        marks,
    )


def _frame(x: float, y: float, width: float, height: float) -> str:
    """A frame around a right link."""
    inset, line = min(1.5, width / 8, height / 8), min(2.0, width / 6, height / 6)
    place = f'x="{x + inset:.2f}" y="{y + inset:.2f}" width="{width - 2 * inset:.2f}" height="{height - 2 * inset:.2f}"'
    return f'<rect {place} fill="none" stroke="{ACCENT}" stroke-width="{line:.3g}"/>'


def mosaic(panels: Sequence[Panel], title: str = "", right: Collection[tuple[int, int]] = ()) -> str:
    """Sites down, heads across: one small map each. Right links are framed."""
    side, gap = 96, 12
    legible = [[_legible(map_QK, title) for map_QK in panel.maps_HQK] for panel in panels]
    unsigned = [maps[0][1] for panel, maps in zip(panels, legible, strict=True) if not panel.signed]
    title = unsigned[0] if unsigned else title
    widest = max(len(panel.maps_HQK) for panel in panels)
    left, top = _label_width([panel.name for panel in panels], longest=WIDER), (2.0 if title else 0.5) * FONT
    marks, high = [_title(title)] if title else [], side + gap + FONT
    for s, (panel, maps) in enumerate(zip(panels, legible, strict=True)):
        y = top + s * high + FONT
        marks.append(_text(left - 6, y + side / 2, panel.name, "end", longest=WIDER))
        for h, (map_QK, _) in enumerate(maps):
            x = left + h * (side + gap)
            marks.append(_text(x + side / 2, y - 6, panel.heads[h] if panel.heads else f"head {h}", "middle"))
            marks.append(_image(map_QK, x, y, side, side))
            width, height = side / map_QK.shape[1], side / map_QK.shape[0]
            marks += [_frame(x + k * width, y + q * height, width, height) for q, k in sorted(right)]
            marks.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}" fill="none" stroke="#bbb"/>'
            )
    return _svg(max(left + widest * (side + gap), _wide(title)), top + len(panels) * high + 4, marks)


def beside(first: str, second: str) -> str:
    """Two pictures side by side."""
    (left, top), (right, bottom) = _size(first), _size(second)
    moved = f'<g transform="translate({left + 16:.0f} 0)">{second.strip()}</g>'
    return _svg(left + 16 + right, max(top, bottom), [first.strip(), moved])


def _size(svg: str) -> tuple[float, float]:
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
    assert found is not None, "a picture of ours says its size"
    return float(found[1]), float(found[2])


def bars(shares_K: np.ndarray, words: Sequence[str], title: str = "") -> str:
    """A bar for each word, orange below 0: a row of weights, or the terms of a mixture or of a score."""
    step, width = FONT * 1.6, 320
    left, top = _label_width(words, longest=WIDER), (3.0 if title else 1.0) * FONT
    marks = [_title(title)] if title else []
    most, least = max(float(shares_K.max()), 0.0), min(float(shares_K.min()), 0.0)
    scale = width / max(most - least, 1e-9)
    zero = (
        left - least * scale + (50 if least < 0 else 0)
    )  # the bars below 0, and room for their numbers, are to its left
    for k, share in enumerate(shares_K.tolist()):
        y, length = top + k * step, abs(share) * scale
        marks.append(_text(left - 6, y + FONT / 2, words[k], "end", longest=WIDER))
        x, colour = (zero, "#0072B2") if share >= 0 else (zero - length, ACCENT)
        marks.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{length:.2f}" height="{FONT}" fill="{colour}"/>')
        said = f"{share:.3f}" if abs(share) >= 0.01 or share == 0 else f"{share:.1e}"
        beside, anchor = (zero + length + 6, "start") if share >= 0 else (zero - length - 6, "end")
        marks.append(_text(beside, y + FONT / 2, said, anchor))
    return _svg(max(zero + most * scale + 60, _wide(title)), top + len(words) * step, marks)


def table(
    shares_QK: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    words: Sequence[Sequence[str]],
    title: str = "",
) -> str:
    """A word in every square, which is shaded by its share."""
    wide, high = 0.62 * FONT * LONGEST + 8, FONT * 1.8
    left, top = _label_width(rows, WIDER), (4.5 if title else 2.5) * FONT
    marks = [_title(title)] if title else []
    marks += [_text(left + (k + 0.5) * wide, top - FONT, word, "middle") for k, word in enumerate(columns)]
    for q, row in enumerate(rows):
        marks.append(_text(left - 6, top + (q + 0.5) * high, row, "end", longest=WIDER))
        for k in range(len(columns)):
            share, x, y = float(shares_QK[q, k]), left + k * wide, top + q * high
            size = f'width="{wide:.1f}" height="{high:.1f}"'
            marks.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{shade(share)}" stroke="#ddd"/>')
            said = _text(x + wide / 2, y + high / 2, words[q][k], "middle")
            marks.append(said.replace("<text", '<text fill="white"', 1) if share > 0.55 else said)
    return _svg(max(left + len(columns) * wide + 8, _wide(title)), top + len(rows) * high + 8, marks)


def to_png(svg: str) -> bytes:
    """The picture in pixels, at twice its size."""
    import vl_convert

    return vl_convert.svg_to_png(svg, scale=2)


def draw(
    array: np.ndarray,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
) -> str:
    """An array of rank 1 to 4, from any tool: bars, a map, a map for each head, or for each layer and head."""
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
        return mosaic([Panel("", array)], title)
    return mosaic([Panel(f"layer {number}", maps) for number, maps in enumerate(array)], title)


def _names(words: Sequence[str] | None, size: int, what: str) -> list[str]:
    if words is None:
        return [str(number) for number in range(size)]
    if len(words) != size:
        raise UserError(f"there are {len(words)} words for {size} {what}; give one for each")
    return [str(word) for word in words]


def _legible(weights_QK: np.ndarray, title: str) -> tuple[np.ndarray, str]:
    """The map with shades that can be told apart. Among many words each gets little: square roots are shaded, and the title says so."""
    if weights_QK.min() < 0 or weights_QK.max() > 1:
        most = float(np.abs(weights_QK).max())
        return weights_QK / most, f"{title} (darkest: {most:.3g})"
    if weights_QK.shape[1] <= MANY:
        return weights_QK, title
    return np.sqrt(np.clip(weights_QK, 0, None)), f"{title} (shaded by square roots)"


def _square(longest: int) -> float:
    return max(720 / longest, 1.0) if longest > MANY else 18.0


def _every(size: float) -> int:
    """How many words to step over, so that their names do not touch."""
    return max(1, int(np.ceil((FONT + 1) / size)))


def shown(word: str, longest: int = LONGEST) -> str:
    """A word as a label: line ends and outer blanks are visible, long words are cut."""
    word = "".join(
        letter if letter.isprintable() else "�" for letter in word.replace("\n", "↵").replace("\t", "⇥")
    )
    inner = word.strip(" ")
    blanks = len(word) - len(word.lstrip(" "))
    word = "␣" * blanks + inner + "␣" * (len(word) - blanks - len(inner))
    return word if len(word) <= longest else word[: longest - 1] + "…"


def _label_width(words: Sequence[str], longest: int = LONGEST) -> float:
    return 12 + 0.62 * FONT * max((len(shown(word, longest)) for word in words), default=0)


def _wide(title: str) -> float:
    return 16 + 0.62 * FONT * len(title)


def _text(x: float, y: float, word: str, anchor: str, turned: bool = False, longest: int = LONGEST) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    middle = f' dominant-baseline="middle"{turn}>'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{middle}{escape(shown(word, longest))}</text>'
    )


def _title(title: str) -> str:
    return f'<text x="8" y="{1.2 * FONT:.1f}" font-weight="bold">{escape(shown(title, 200))}</text>'


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
    """A PNG of one pixel for each weight, with a palette of 256 shades (PNG specification, 11.2)."""
    low = -1.0 if weights_QK.min() < 0 else 0.0
    levels = ((np.clip(weights_QK, low, 1) - low) / (1 - low) * 255).round().astype(np.uint8)
    lines = np.concatenate(
        [np.zeros((len(levels), 1), np.uint8), levels], 1
    ).tobytes()  # each line begins with its filter: none
    palette = b"".join(bytes.fromhex(shade(low + level / 255 * (1 - low))[1:]) for level in range(256))
    header = struct.pack(">IIBBBBB", levels.shape[1], levels.shape[0], 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _svg(width: float, height: float, marks: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = f'font-family="DejaVu Sans, Arial, sans-serif" font-size="{FONT}" fill="{DARK}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="white"/>'
        + "".join(marks)
        + "</svg>\n"
    )
