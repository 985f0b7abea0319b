"""The pictures of lessons: typed data, drawn as text for a terminal and as SVG.

A picture has no fixed background: on a page it takes the colours of the page, light or dark.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from regard.tables import as_html

FONT = 12
BLUE, ORANGE = "#0072B2", "#D55E00"
FITTING = 560  # names of columns whose widths add up to less are written upright
PLAIN = 24  # a grid of more columns has shaded squares without numbers
WIDEST = 100  # columns of a terminal
Matrix = Sequence[Sequence[float]]


class Picture(ABC):
    """The data of a picture."""

    @abstractmethod
    def text(self) -> str:
        """Draw with letters."""

    @abstractmethod
    def svg(self) -> str:
        """Draw as SVG."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...


@final
@dataclass(frozen=True)
class Grid(Picture):
    """A table of numbers whose squares are shaded: weights, or values of any sign."""

    values: Matrix
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    digits: int = 3

    def text(self) -> str:
        side = max(map(len, [*self.rows, ""]))
        widest = max(len(self._number(value)) for row in self.values for value in row)
        width = max(self.digits + 4, widest + 1, *(len(name) + 1 for name in self.columns))
        if len(self.columns) * width + side > WIDEST:
            return self._shaded(side)
        lines = [" " * side + "".join(f"{name:>{width}}" for name in self.columns)]
        for name, row in zip(self.rows, self.values, strict=True):
            lines.append(f"{name:<{side}}" + "".join(f"{self._number(value):>{width}}" for value in row))
        return "\n".join(lines)

    def _number(self, value: float) -> str:
        return "0" if value == 0 else f"{value:.{self.digits}f}"

    def _shaded(self, side: int) -> str:
        flat = [abs(value) for row in self.values for value in row]
        most = max(flat) or 1.0
        lines = []
        for name, row in zip(self.rows, self.values, strict=True):
            marks = "".join(" ░▒▓█"[min(4, int(abs(value) / most * 5))] * 2 for value in row)
            column, value = max(zip(self.columns, row, strict=True), key=lambda pair: abs(pair[1]))
            lines.append(f"{name:<{side}} |{marks}| most: {column} {self._number(value)}")
        return "\n".join(lines)

    def svg(self) -> str:
        numbered = len(self.columns) <= PLAIN
        longest = max(map(len, self.columns), default=0)
        fits = longest <= 6 or len(self.columns) * _wide(longest) < FITTING
        turned = numbered and not fits
        side, high = (52.0, 26.0) if numbered else (max(6.0, 720 / len(self.columns)), 16.0)
        side = max(side, _wide(longest) + 8) if numbered and fits else side
        left = 18 + _wide(max(map(len, [*self.rows, ""])))
        top = (24 if self.title else 6) + (0 if not numbered else _wide(longest) if turned else 20)
        most = max((abs(value) for row in self.values for value in row), default=1.0) or 1.0
        # Weights are shaded alike in all pictures: black is 1.
        most = 1.0 if 0.5 < most <= 1 or (numbered and _are_weights(self.values)) else most
        marks = [_label(8, 14, self.title, "start", bold=True)] if self.title else []
        for k, name in enumerate(self.columns if numbered else ()):
            x = left + (k + 0.5) * side
            marks.append(_label(x, top - 8, name, "start" if turned else "middle", turned=turned))
        for q, (name, row) in enumerate(zip(self.rows, self.values, strict=True)):
            y = top + q * high
            marks.append(_label(left - 8, y + high / 2 + 4, name, "end"))
            for k, value in enumerate(row):
                marks.append(self._square(left + k * side, y, side, high, value, abs(value) / most, numbered))
        width = max(left + side * len(self.columns) + 8, 16 + _wide(len(self.title)))
        return frame(width, top + high * len(self.rows) + 8, marks)

    def _square(
        self, x: float, y: float, wide: float, high: float, value: float, share: float, numbered: bool
    ) -> str:
        colour = BLUE if value >= 0 else ORANGE
        size = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"'
        line = 'stroke="#8888" ' if numbered else ""
        square = f'<rect {size} {line}fill="{colour}" fill-opacity="{0.9 * share:.3f}"/>'
        if not numbered:
            return square
        number = _label(x + wide / 2, y + high / 2 + 4, plain(value, self.digits), "middle")
        return square + (number.replace("<text", '<text fill="#fff"', 1) if share > 0.7 else number)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "grid",
            "title": self.title,
            "values": [list(row) for row in self.values],
            "rows": list(self.rows),
            "columns": list(self.columns),
        }


@final
@dataclass(frozen=True)
class Bars(Picture):
    """A bar for each name, orange below 0."""

    values: Sequence[float]
    names: Sequence[str]
    title: str = ""

    def text(self) -> str:
        side, most = max(map(len, self.names)), max(map(abs, self.values)) or 1.0
        form = ">8,.0f" if all(float(value).is_integer() for value in self.values) else "8.3f"
        return "\n".join(
            f"{name:<{side}} {value:{form}} {('█' if value >= 0 else '░') * round(30 * abs(value) / most)}"
            for name, value in zip(self.names, self.values, strict=True)
        )

    def svg(self) -> str:
        left, top, step, wide = 20 + _wide(max(map(len, self.names))), 26 if self.title else 8, 22, 190
        most = max(map(abs, self.values)) or 1.0
        marks = [_label(8, 15, self.title, "start", bold=True)] if self.title else []
        for number, (name, value) in enumerate(zip(self.names, self.values, strict=True)):
            y, length = top + number * step, wide * abs(value) / most
            size = f'x="{left}" y="{y}" width="{length:.1f}" height="{step - 6}"'
            marks.append(f'<rect {size} fill="{BLUE if value >= 0 else ORANGE}"/>')
            marks.append(_label(left - 6, y + 12, name, "end"))
            marks.append(_label(left + length + 5, y + 12, plain(value), "start"))
        width = max(left + wide + 64, 16 + _wide(len(self.title)))
        return frame(width, top + step * len(self.names) + 4, marks)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "bars",
            "title": self.title,
            "values": list(self.values),
            "names": list(self.names),
        }


Points = list[tuple[float, float]]


@final
@dataclass(frozen=True)
class Curves(Picture):
    """Lines over a common axis."""

    lines: dict[str, Points]
    x: str
    y: str
    title: str = ""
    log_x: bool = False
    log_y: bool = False

    def text(self) -> str:
        places = sorted({x for points in self.lines.values() for x, _ in points})
        known = {name: dict(points) for name, points in self.lines.items()}
        width = max(11, *(len(name) + 2 for name in self.lines))
        lines = [f"{self.x:<16}" + "".join(f"{name:>{width}}" for name in self.lines)]
        for x in places:
            cells = (_short(known[name][x]) if x in known[name] else "" for name in self.lines)
            lines.append(f"{x:<16g}" + "".join(f"{cell:>{width}}" for cell in cells))
        return "\n".join(lines)

    def svg(self) -> str:
        import altair
        import vl_convert

        from regard.inside.charts import COLOURS

        rows: list[dict[str, Any]] = [
            {"name": name, "x": x, "y": y}
            for name, points in self.lines.items()
            for x, y in points
            if y > 0 or not self.log_y
        ]
        tiny = self.log_y and min((row["y"] for row in rows), default=1.0) < 1e-4
        legend = altair.Legend(orient="bottom") if len(self.lines) > 1 else None
        colour = altair.Scale(domain=list(self.lines), range=COLOURS)
        chart = (
            altair.Chart(altair.Data(values=rows), title=self.title or altair.Undefined)
            .mark_line(point=True)
            .encode(
                x=altair.X(
                    "x:Q",
                    title=self.x,
                    scale=altair.Scale(type="log" if self.log_x else "linear", zero=False),
                ),
                y=altair.Y(
                    "y:Q",
                    title=self.y,
                    scale=altair.Scale(type="log" if self.log_y else "linear"),
                    axis=altair.Axis(format=".0e") if tiny else altair.Axis(),
                ),
                color=altair.Color("name:N", scale=colour, title=None, legend=legend),
            )
            .properties(width=250, height=190)
        )
        return vl_convert.vegalite_to_svg(chart.to_json())

    def to_json(self) -> dict[str, Any]:
        lines = {name: [list(point) for point in points] for name, points in self.lines.items()}
        return {"kind": "curves", "title": self.title, "x": self.x, "y": self.y, "lines": lines}


@final
@dataclass(frozen=True)
class Row(Picture):
    """Several pictures of one step, one under the other."""

    pictures: Sequence[Picture] = field(default_factory=list)

    def text(self) -> str:
        return "\n\n".join(headed(picture) for picture in self.pictures)

    def svg(self) -> str:
        return stacked([picture.svg() for picture in self.pictures])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "row", "pictures": [picture.to_json() for picture in self.pictures]}


def _are_weights(values: Matrix) -> bool:
    """Return whether every row holds weights that sum to 1, or to 0."""
    positive = all(value >= 0 for row in values for value in row)
    return positive and all(min(abs(sum(row)), abs(sum(row) - 1)) < 1e-6 for row in values)


def headed(picture: Picture) -> str:
    """Draw with letters, under the title."""
    title = picture.to_json().get("title", "")
    return f"{title}\n{picture.text()}" if title else picture.text()


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def shows(picture: Picture, value: Any) -> bool:
    """Return whether every number of a list or dict is a number of the picture.

    >>> shows(Bars([0.5, 0.25], ["a", "b"]), [0.25]), shows(Bars([0.5], ["a"]), 0.5)
    (True, False)
    """
    return isinstance(value, list | tuple | dict) and _numbers(value) <= _numbers(picture.to_json())


def _numbers(data: Any) -> set[float]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list | tuple):
        return set().union(*map(_numbers, data)) if data else set()
    return {float(f"{data:.4g}")} if isinstance(data, int | float) else set()


def plain(value: float, digits: int = 3) -> str:
    """Write a number for a square: without zeros at the end."""
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
    return "0" if text in ("-0", "") else text


def stacked(pictures: Sequence[str], titles: Sequence[str] = ()) -> str:
    """Put pictures one under the other, each under its title."""
    marks, y, width = list[str](), 0.0, 0.0
    for number, picture in enumerate(pictures):
        if titles:
            marks.append(_label(8, y + 22, titles[number], "start", bold=True))
            y, width = y + 34, max(width, 16 + _wide(len(titles[number])) * 1.1)
        wide, high = size_of(picture)
        marks.append(picture.strip().replace("<svg ", f'<svg y="{y:.0f}" ', 1))
        y, width = y + high + 12, max(width, wide)
    return frame(width, y, marks)


def size_of(svg: str) -> tuple[float, float]:
    import re

    wide, high = (re.search(rf'<svg [^>]*?{name}="([\d.]+)', svg) for name in ("width", "height"))
    assert wide is not None, "a picture has a width"
    assert high is not None, "a picture has a height"
    return float(wide[1]), float(high[1])


def frame(width: float, height: float, marks: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = (
        f'font-family="DejaVu Sans, Arial, sans-serif" font-size="{FONT}" color="#222" fill="currentColor"'
    )
    paper = '<rect class="paper" width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{paper}{"".join(marks)}</svg>\n'


def _wide(letters: int) -> float:
    return 0.62 * FONT * letters


def _label(x: float, y: float, word: str, anchor: str, turned: bool = False, bold: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    weight = ' font-weight="bold"' if bold else ""
    x = x + 4 if turned else x
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}{turn}>{as_html(word)}</text>'
