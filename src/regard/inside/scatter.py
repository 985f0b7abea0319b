"""A picture of words as points, with labels that do not cover each other.

The same numbers give the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.inside.charts import COLOURS
from regard.inside.pictures import DARK, FONT, shown
from regard.tables import as_html

WIDTH, HEIGHT, MARGIN = 760, 560, 56
LETTER = 0.62 * FONT  # the width of a letter
RADIUS = 4
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Point:
    word: str
    x: float
    y: float
    group: int  # the number of its colour
    asked: bool  # the user named it: drawn larger, with a bold label


@dataclass(frozen=True)
class Arrow:
    """An arrow from one word to another, by their places in the list of points."""

    start: int
    end: int


def scatter(points: Sequence[Point], arrows: Sequence[Arrow], title: str, axes: tuple[str, str]) -> str:
    """Draw words as labelled points. Both axes have one scale, so that distances can be compared."""
    places = _places(points)
    marks = [f'<text x="8" y="{1.4 * FONT:.1f}" font-weight="bold">{as_html(shown(title, 200))}</text>']
    marks += _axes(axes)
    marks += [_line(places[arrow.start], places[arrow.end]) for arrow in arrows]
    taken = [(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in places]
    asked_first = sorted(range(len(points)), key=lambda number: not points[number].asked)
    for number in asked_first:
        point, (x, y) = points[number], places[number]
        colour = COLOURS[point.group % len(COLOURS)]
        radius = RADIUS + (1.5 if point.asked else 0)
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"><title>'
            f"{as_html(shown(point.word, 200))}: {point.x:.3f}, {point.y:.3f}</title></circle>"
        )
        box = _free_box(x, y, shown(point.word), point.asked, taken)
        if box is not None:
            taken.append(box)
            weight = ' font-weight="bold"' if point.asked else ""
            marks.append(
                f'<text x="{box[0]:.1f}" y="{box[3] - 3:.1f}" fill="{colour}"{weight}>'
                f"{as_html(shown(point.word))}</text>"
            )
    hidden = len(points) - (len(taken) - len(points))
    if hidden:
        note = f"no room for the labels of {hidden} of {len(points)} words"
        marks.append(f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end" fill="#777">{note}</text>')
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    style = f'font-family="DejaVu Sans, Arial, sans-serif" font-size="{FONT}" fill="{DARK}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(marks)}</svg>\n'
    )


def _places(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Return the places of the points in the picture."""
    xs, ys = [point.x for point in points], [point.y for point in points]
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    room = (WIDTH - 2 * MARGIN - 60, HEIGHT - 2 * MARGIN)  # labels stand right of their points
    scale = min(room[0] / max(wide, 1e-9), room[1] / max(high, 1e-9), 1e9)
    left, top = (MARGIN + (whole - side * scale) / 2 for whole, side in zip(room, (wide, high), strict=True))
    return [(left + (point.x - min(xs)) * scale, top + (max(ys) - point.y) * scale) for point in points]


def _axes(names: tuple[str, str]) -> list[str]:
    x, y = MARGIN - 24, HEIGHT - MARGIN + 28
    line = 'stroke="#999"'
    return [
        f'<path d="M{x} {MARGIN}V{y}H{WIDTH - MARGIN}" fill="none" {line}/>',
        f'<text x="{x}" y="{y + 18}" fill="#777">{as_html(names[0])}</text>',
        f'<text transform="translate({x - 8} {y}) rotate(-90)" fill="#777">{as_html(names[1])}</text>',
    ]


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Draw a dashed arrow."""
    (x1, y1), (x2, y2) = start, end
    length = max(1e-9, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    along = ((x2 - x1) / length, (y2 - y1) / length)
    tip = (x2 - along[0] * (RADIUS + 3), y2 - along[1] * (RADIUS + 3))
    back = (tip[0] - along[0] * 8, tip[1] - along[1] * 8)
    side = (-along[1] * 4, along[0] * 4)
    head = f"{back[0] + side[0]:.1f},{back[1] + side[1]:.1f} {back[0] - side[0]:.1f},{back[1] - side[1]:.1f}"
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{back[0]:.1f}" y2="{back[1]:.1f}" stroke="#777" '
        f'stroke-dasharray="5 4"/><polygon points="{tip[0]:.1f},{tip[1]:.1f} {head}" fill="#777"/>'
    )


def _free_box(x: float, y: float, label: str, bold: bool, taken: Sequence[Box]) -> Box | None:
    """Return a place for a label beside its point that covers nothing, or None."""
    wide, high, off = LETTER * len(label) * (1.15 if bold else 1), FONT + 3.0, RADIUS + (5.0 if bold else 3.0)
    corners = (
        (x + off, y - high / 2),
        (x - off - wide, y - high / 2),
        (x - wide / 2, y - off - high),
        (x - wide / 2, y + off),
        (x + off, y - off - high / 2),
        (x + off, y + off - high / 2),
        (x - off - wide, y - off - high / 2),
        (x - off - wide, y + off - high / 2),
    )
    for left, top in corners:
        box = (left, top, left + wide, top + high)
        inside = box[0] >= 0 and box[2] <= WIDTH and box[1] >= 2 * FONT and box[3] <= HEIGHT - MARGIN + 26
        if inside and not any(_overlap(box, other) for other in taken):
            return box
    return None


def _overlap(one: Box, two: Box) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]
