"""regard bench [NAME...]: measure this machine, and regard on it beside peers that are installed."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from regard import tables
from regard.boundary import check_ranges
from regard.errors import UserError
from regard.inside.sheet import Heading, Part, Picture, Prose, Table, check_sheet, text_table, write_sheet
from regard.machine.timing import Spread
from regard.ranges import Count
from regard.verbs.arguments import Out
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

Names = Annotated[str | tuple[str, ...], Argument(tuple[str, ...], positional=True, metavar="NAME")]
READING = (
    "Ours and the peer take turns, after one pass to warm up: medians, and the ratio of two speeds in the "
    "same pass with its range. All in fp32. The limit is what the machine's fastest large matrix product, "
    "or a copy in memory, would allow for the same work; small models stay far below it."
)


@dataclass(frozen=True)
class Figure:
    """One benchmark: units of work a second."""

    name: str
    unit: str
    ours: Spread
    peer_name: str
    peer: Spread | None = None  # None: the peer is not installed
    ratio: Spread | None = None
    limit: float | None = None
    limited_by: str = ""


@dataclass(frozen=True)
class Figures(tables.Table):
    """The figures of a machine."""

    machine: str
    limits: dict[str, float]
    figures: list[Figure]
    growth: list[dict[str, Any]]

    def rows(self) -> tables.TableRows:
        """A row for each benchmark, with medians."""
        return [
            {
                "name": figure.name,
                "ours": figure.ours.median,
                "peer": None if figure.peer is None else figure.peer.median,
                "ratio": None if figure.ratio is None else figure.ratio.median,
                "limit": figure.limit,
                "unit": f"{figure.unit}/s",
            }
            for figure in self.figures
        ]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@check_ranges
def bench(
    names: Names = (),
    *,
    passes: Count = 5,
    out: Out = None,
    listener: Callable[[str], None] = lambda name: None,
) -> Figures:
    """Measure speeds on this machine, each in turn with a peer.

    >>> regard.bench("generate-1").rows()[0]["ratio"]  # doctest: +SKIP

    $ regard bench
    $ regard bench train-lstm --passes 9
    $ regard bench --out growth.svg

    Args:
        names: Benchmarks to run. Without a name, all of them.
        passes: Number of passes. The result is their median.
        out: Measure how time and memory grow as well, and draw it: .html, .svg, .png or .json.
        listener: A function that is called with the name of each benchmark before it runs.
    """
    check_sheet(out)
    from regard.benchmarks.contests import CONTESTS
    from regard.benchmarks.growth import growth
    from regard.benchmarks.limits import measure_limits
    from regard.machine.device import describe_machine

    chosen = [names] if isinstance(names, str) else list(names) or list(CONTESTS)
    if unknown := [name for name in chosen if name not in CONTESTS]:
        raise UserError(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(CONTESTS)}")
    listener("limits")
    limits, figures = measure_limits(), list[Figure]()
    for name in chosen:
        listener(name)
        figures.append(_measure(name, passes, limits))
    points = list[dict[str, Any]]()
    if out is not None:
        listener("growth")
        points = [point.to_json() for point in growth()]
    result = Figures(describe_machine(), asdict(limits), figures, points)
    if out is not None:
        svg = _svg(result)
        parts: list[Part] = [
            Prose(result.machine),
            _table(result),
            Prose(READING),
            Heading("Growth"),
            Picture(svg),
        ]
        write_sheet(out, "Speed of this machine", parts, svg, result.to_json())
    return result


def _measure(name: str, passes: int, limits: Any) -> Figure:
    from regard.benchmarks.contests import CONTESTS
    from regard.machine.timing import interleaved

    contest = CONTESTS[name](limits)
    ways = {"ours": contest.ours} | ({} if contest.peer is None else {"peer": contest.peer})
    speeds = interleaved(ways, passes)
    installed = contest.peer is not None
    return Figure(
        name,
        contest.unit,
        speeds.spread("ours"),
        contest.peer_name,
        speeds.spread("peer") if installed else None,
        speeds.ratio("ours", "peer") if installed else None,
        contest.limit,
        contest.limited_by,
    )


def _table(figures: Figures) -> Table:
    rows = [
        [
            figure.name,
            f"{_short(figure.ours.median)} {figure.unit}/s",
            "absent" if figure.peer is None else _short(figure.peer.median),
            "-" if figure.ratio is None else _ratio(figure.ratio),
            "-" if figure.limit is None else f"{_short(figure.limit)} ({figure.limited_by})",
            figure.peer_name,
        ]
        for figure in figures.figures
    ]
    return Table(["", "ours", "peer", "ours / peer", "limit", "the peer"], rows)


def _ratio(ratio: Spread) -> str:
    return f"{ratio.median:.2f} [{ratio.low:.2f}-{ratio.high:.2f}]"


def _short(speed: float) -> str:
    """Three digits are more than such a figure holds."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if speed >= size:
            return f"{speed / size:.3g}{letter}"
    return f"{speed:.3g}"


def _svg(figures: Figures) -> str:
    from regard.benchmarks.growth_charts import chart
    from regard.inside.drawing import chart_to_svg

    return chart_to_svg(chart(figures.growth))


def main(arguments: list[str]) -> None:
    call = parse(bench, arguments)
    figures = bench(**call.values, listener=lambda name: tell(f"{name} ..."))
    if call.json:
        print_json(figures.to_json())
        return
    limits = figures.limits
    print(figures.machine)
    print(
        f"matrix product {limits['operations'] / 1e9:,.0f} GFLOP/s "
        f"(F.linear {limits['mkl_operations'] / 1e9:,.0f}), memory {limits['bandwidth'] / 1e9:,.1f} GB/s\n"
    )
    print(text_table(_table(figures)))
    if call.values["out"] is not None:
        tell(f"{call.values['out']} shows how time and memory grow.")
