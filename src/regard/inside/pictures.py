"""Pictures of weights as SVG: the same numbers give the same bytes. White is 0, dark blue 1, and below 0 it turns orange: readable
without colour vision.

Shape legend: Q rows, K columns, H heads, S sites.
"""

import base64
import struct
import zlib
from collections.abc import Collection, Sequence
from html import escape

import numpy as np

from regard.errors import UserError

FONT = 12
DARK = "#222"
ACCENT = "#D55E00"
SQUARES = 4096  # a map of more squares is one image inside the picture
MANY = 40  # words in a row of a map
LONGEST, WIDER = 14, 28  # letters of a word that are shown above a map and beside it


def shade(weight: float) -> str:
    depths = (255, 175, 105) if weight >= 0 else (42, 161, 255)
    return "#" + "".join(f"{round(255 - depth * min(1.0, abs(weight))):02x}" for depth in depths)


def heat_map(
    weights_QK: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str = "", right: Collection[tuple[int, int]] = ()
) -> str:
    """Rows look at columns; every word is named where there is room, every nth where there is not. What is right is framed."""
    queries, keys = weights_QK.shape
    weights_QK, title = _legible(weights_QK, title)
    size = _square(max(queries, keys))
    left, top = _label_width(rows, WIDER), _label_width(columns) + (2 * FONT if title else 0)
    marks = [_map(weights_QK, left, top, size)]
    marks += [_text(left - 4, top + (q + 0.5) * size, rows[q], "end", longest=WIDER) for q in range(0, queries, _every(size))]
    marks += [_text(left + (k + 0.5) * size, top - 4, columns[k], "start", turned=True) for k in range(0, keys, _every(size))]
    for q, k in sorted(right):
        marks.append(_frame(left + k * size, top + q * size, size, size))
    if title:
        marks.append(_title(title))
    return _svg(max(left + keys * size + 8, _wide(title)), top + queries * size + 8, marks)


def arcs(
    weights_QK: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str = "", right: Collection[tuple[int, int]] = ()
) -> str:
    """Words in two columns, what looks on the left and what is looked at on the right; the thicker a line, the more weight.

    What is right is a dashed line.
    """
    step, reach = FONT * 1.5, 240
    left, top = _label_width(rows), 3 * FONT
    strongest = float(weights_QK.max()) or 1.0
    marks = [_title(title)] if title else []

    def line(q: int, k: int, stroke: str) -> str:
        start, end = top + q * step, top + k * step
        middle, far = left + reach / 2, left + reach
        path = f"M{left + 6:.1f} {start:.1f}C{middle:.1f} {start:.1f} {middle:.1f} {end:.1f} {far:.1f} {end:.1f}"
        return f'<path d="{path}" fill="none" {stroke}/>'

    for q, k in zip(*np.nonzero(weights_QK > 0.02 * strongest), strict=True):
        share = float(weights_QK[q, k]) / strongest
        marks.append(line(q, k, f'stroke="#0072B2" stroke-opacity="{0.15 + 0.85 * share:.3f}" stroke-width="{5 * share:.2f}"'))
    marks += [line(q, k, f'stroke="{ACCENT}" stroke-width="1.5" stroke-dasharray="4 3"') for q, k in sorted(right)]
    marks += [_text(left, top + q * step, word, "end") for q, word in enumerate(rows)]
    marks += [_text(left + reach + 6, top + k * step, word, "start") for k, word in enumerate(columns)]
    return _svg(max(left + reach + _label_width(columns), _wide(title)), top + max(len(rows), len(columns)) * step, marks)


def _frame(x: float, y: float, width: float, height: float) -> str:
    """Around what is right."""
    inset, line = min(1.5, width / 8, height / 8), min(2.0, width / 6, height / 6)
    place = f'x="{x + inset:.2f}" y="{y + inset:.2f}" width="{width - 2 * inset:.2f}" height="{height - 2 * inset:.2f}"'
    return f'<rect {place} fill="none" stroke="{ACCENT}" stroke-width="{line:.3g}"/>'


def mosaic(
    maps_SHQK: Sequence[np.ndarray],
    names: Sequence[str],
    title: str = "",
    heads: Sequence[int] | None = None,
    right: Collection[tuple[int, int]] = (),
) -> str:
    """Sites down, heads across: one small map each. What is right is framed."""
    side, gap = 96, 8
    legible = [[_legible(weights_QK, title) for weights_QK in maps_HQK] for maps_HQK in maps_SHQK]
    title = legible[0][0][1]
    widest = max(len(maps_HQK) for maps_HQK in maps_SHQK)
    left, top = _label_width(names, longest=WIDER), (3.5 if title else 1.5) * FONT
    marks = [_title(title)] if title else []
    marks += [
        _text(left + (h + 0.5) * (side + gap) - gap / 2, top - 8, f"head {number}", "middle")
        for h, number in enumerate(heads or range(widest))
    ]
    for s, (name, maps) in enumerate(zip(names, legible, strict=True)):
        y = top + s * (side + gap)
        marks.append(_text(left - 6, y + side / 2, name, "end", longest=WIDER))
        for h, (weights_QK, _) in enumerate(maps):
            x = left + h * (side + gap)
            marks.append(_image(weights_QK, x, y, side, side))
            width, height = side / weights_QK.shape[1], side / weights_QK.shape[0]
            marks += [_frame(x + k * width, y + q * height, width, height) for q, k in sorted(right)]
            marks.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}" fill="none" stroke="#bbb"/>')
    return _svg(max(left + widest * (side + gap), _wide(title)), top + len(maps_SHQK) * (side + gap), marks)


def bars(shares_K: np.ndarray, words: Sequence[str], title: str = "") -> str:
    """One number for each word, as bars (orange below 0): a row of weights, the parts of a mixture or of a score."""
    step, width = FONT * 1.6, 320
    left, top = _label_width(words, longest=WIDER), (3.0 if title else 1.0) * FONT
    marks = [_title(title)] if title else []
    most, least = max(float(shares_K.max()), 0.0), min(float(shares_K.min()), 0.0)
    scale = width / max(most - least, 1e-9)
    zero = left - least * scale + (50 if least < 0 else 0)  # to its left: what is below 0, and room for its number
    for k, share in enumerate(shares_K.tolist()):
        y, length = top + k * step, abs(share) * scale
        marks.append(_text(left - 6, y + FONT / 2, words[k], "end", longest=WIDER))
        x, colour = (zero, "#0072B2") if share >= 0 else (zero - length, ACCENT)
        marks.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{length:.2f}" height="{FONT}" fill="{colour}"/>')
        said = f"{share:.3f}" if abs(share) >= 0.01 or share == 0 else f"{share:.1e}"
        beside, anchor = (zero + length + 6, "start") if share >= 0 else (zero - length - 6, "end")
        marks.append(_text(beside, y + FONT / 2, said, anchor))
    return _svg(max(zero + most * scale + 60, _wide(title)), top + len(words) * step, marks)


def table(shares_QK: np.ndarray, rows: Sequence[str], columns: Sequence[str], words: Sequence[Sequence[str]], title: str = "") -> str:
    """A word in every square, which is shaded by its share."""
    wide, high = 0.62 * FONT * LONGEST + 8, FONT * 1.8
    left, top = _label_width(rows, WIDER), (4.5 if title else 2.5) * FONT
    marks = [_title(title)] if title else []
    marks += [_text(left + (k + 0.5) * wide, top - FONT, word, "middle") for k, word in enumerate(columns)]
    for q, row in enumerate(rows):
        marks.append(_text(left - 6, top + (q + 0.5) * high, row, "end", longest=WIDER))
        for k in range(len(columns)):
            share, x, y = float(shares_QK[q, k]), left + k * wide, top + q * high
            marks.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{shade(share)}" stroke="#ddd"/>')
            said = _text(x + wide / 2, y + high / 2, words[q][k], "middle")
            marks.append(said.replace("<text", '<text fill="white"', 1) if share > 0.55 else said)
    return _svg(max(left + len(columns) * wide + 8, _wide(title)), top + len(rows) * high + 8, marks)


def to_png(svg: str) -> bytes:
    """The same picture in pixels, twice as fine as the page's."""
    import vl_convert

    return vl_convert.svg_to_png(svg, scale=2)


def draw(array: np.ndarray, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None, title: str = "") -> str:
    """An array of rank 1 to 4, from any tool: bars, a map, a map for each head, or for each layer and head."""
    if not 1 <= array.ndim <= 4 or 0 in array.shape:
        raise UserError(f"weights of shape {array.shape} cannot be drawn: they have 1 to 4 axes, none of them empty")
    if not np.isfinite(array).all():
        raise UserError("the weights hold infinities or what is not a number; give finite numbers")
    columns = _names(columns, array.shape[-1], "columns")
    if array.ndim == 1:
        return bars(array, columns, title)
    rows = _names(rows if rows is not None else columns if array.shape[-1] == array.shape[-2] else None, array.shape[-2], "rows")
    if array.ndim == 2:
        return heat_map(array, rows, columns, title)
    if array.ndim == 3:
        return mosaic([array], [""], title)
    return mosaic(list(array), [f"layer {number}" for number in range(len(array))], title)


def _names(words: Sequence[str] | None, size: int, what: str) -> list[str]:
    if words is None:
        return [str(number) for number in range(size)]
    if len(words) != size:
        raise UserError(f"there are {len(words)} words for {size} {what}; give one for each")
    return [str(word) for word in words]


def _legible(weights_QK: np.ndarray, title: str) -> tuple[np.ndarray, str]:
    """Among many words each gets little: square roots are shaded then, and the title says so."""
    if weights_QK.min() < 0 or weights_QK.max() > 1:
        most = float(np.abs(weights_QK).max())
        return weights_QK / most, f"{title} (darkest: {most:.3g})"
    if weights_QK.shape[1] <= MANY:
        return weights_QK, title
    return np.sqrt(np.clip(weights_QK, 0, None)), f"{title} (shaded by square roots)"


def _square(longest: int) -> float:
    return max(720 / longest, 1.0) if longest > MANY else 18.0


def _every(size: float) -> int:
    """Name every so many words, that the names do not touch."""
    return max(1, int(np.ceil((FONT + 1) / size)))


def shown(word: str, longest: int = LONGEST) -> str:
    """A word as a label: ends of lines and blanks are seen, long ones are cut."""
    word = "".join(letter if letter.isprintable() else "�" for letter in word.replace("\n", "↵").replace("\t", "⇥"))
    word = word.strip(" ") or "␣" * len(word)
    return word if len(word) <= longest else word[: longest - 1] + "…"


def _label_width(words: Sequence[str], longest: int = LONGEST) -> float:
    return 12 + 0.62 * FONT * max((len(shown(word, longest)) for word in words), default=0)


def _wide(title: str) -> float:
    return 16 + 0.62 * FONT * len(title)


def _text(x: float, y: float, word: str, anchor: str, turned: bool = False, longest: int = LONGEST) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    middle = f' dominant-baseline="middle"{turn}>'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{middle}{escape(shown(word, longest))}</text>'


def _title(title: str) -> str:
    return f'<text x="8" y="{1.2 * FONT:.1f}" font-weight="bold">{escape(shown(title, 200))}</text>'


def _map(weights_QK: np.ndarray, left: float, top: float, size: float) -> str:
    queries, keys = weights_QK.shape
    frame = f'<rect x="{left:.1f}" y="{top:.1f}" width="{keys * size:.1f}" height="{queries * size:.1f}" fill="none" stroke="#bbb"/>'
    if weights_QK.size > SQUARES:
        return _image(weights_QK, left, top, keys * size, queries * size) + frame
    squares = [
        f'<rect x="{left + k * size:.1f}" y="{top + q * size:.1f}" width="{size:.1f}" height="{size:.1f}" fill="{shade(weight)}">'
        f"<title>{weight:.3f}</title></rect>"
        for q, row in enumerate(weights_QK.tolist())
        for k, weight in enumerate(row)
        if weight != 0
    ]
    return "".join(squares) + frame


def _image(weights_QK: np.ndarray, x: float, y: float, width: float, height: float) -> str:
    data = base64.b64encode(_pixels(weights_QK)).decode()
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<image {place} preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'


def _pixels(weights_QK: np.ndarray) -> bytes:
    """A PNG of one pixel a weight, coloured by a palette of 256 shades (PNG specification, 11.2)."""
    low = -1.0 if weights_QK.min() < 0 else 0.0
    levels = ((np.clip(weights_QK, low, 1) - low) / (1 - low) * 255).round().astype(np.uint8)
    lines = np.concatenate([np.zeros((len(levels), 1), np.uint8), levels], 1).tobytes()  # each line begins with its filter, none
    palette = b"".join(bytes.fromhex(shade(low + level / 255 * (1 - low))[1:]) for level in range(256))
    header = struct.pack(">IIBBBBB", levels.shape[1], levels.shape[0], 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _svg(width: float, height: float, marks: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = f'font-family="DejaVu Sans, Arial, sans-serif" font-size="{FONT}" fill="{DARK}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="white"/>'
        + "".join(marks)
        + "</svg>\n"
    )
