"""regard forget RUN...: measure how far back models remember."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from regard import tables
from regard.errors import UserError
from regard.inside.forgetting import Forgetting, forgetting, own_sources
from regard.inside.sheet import Heading, Part, Picture, Prose, Table, check_sheet, text_table, write_sheet
from regard.runs.formats import as_run
from regard.runs.run import Run
from regard.text.files import read
from regard.verbs.arguments import Files, Out
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

Runs = Annotated[
    Run | str | Path | Sequence[Run | str | Path], Argument(tuple[str, ...], positional=True, metavar="RUN")
]
SHOWN = (1, 5, 20, 50, 100, 200, 500)
READING = (
    "The gradient measures how much the loss of a word changes with the vector of the word k positions "
    "before, relative to the word just before. A small gradient means that training learns little from that "
    "word; the trained model may still use it. The rise of the loss measures the value of the distant words: "
    "they are cut off, shuffled (words without their order), or every second one is left out. Compare only "
    "runs with the same kind of tokens, because distances are counted in tokens."
)


@dataclass(frozen=True)
class Forgettings(tables.Table):
    """The measurements of several runs."""

    results: list[Forgetting]

    def rows(self) -> tables.TableRows:
        """A row for each run and distance, with the gradient relative to distance 1."""
        return [
            {"run": result.name, "back": k, "gradient": value}
            for result in self.results
            for k, value in result.reach.items()
        ]

    def to_json(self) -> dict[str, Any]:
        return {"runs": [result.to_json() for result in self.results]}


def forget(runs: Runs, *, text: Files = (), out: Out = None) -> Forgettings:
    """Measure how far back runs remember: gradients, gates, the worth of distant words, time by length.

    >>> regard.forget(["runs/rnn", "runs/transformer"]).results[0].reach[100]  # doctest: +SKIP

    Args:
        runs: Run folders, ARPA files or GPT-2 checkpoints that read text.
        text: Text to measure on. Without it, each run's own held-out text.
        out: Write it to a file: .html, .svg, .png or .json.
    """
    check_sheet(out)
    every = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    if not every:
        raise UserError("which runs? regard forget RUN...")
    opened = [as_run(run) for run in every]
    sources = read(text)
    results = []
    for run, name in zip(opened, _names(opened, every), strict=True):
        own, notes = (sources, []) if sources else own_sources(run)
        results.append(forgetting(run, name, own, notes))
    forgot = Forgettings(results)
    if out is not None:
        write_sheet(out, "What is forgotten", _page(forgot), _svg(forgot), forgot.to_json())
    return forgot


def _names(opened: list[Run], given: list[Any]) -> list[str]:
    """Return the families, with the names of the runs if a family comes twice."""
    families = [run.language_model.family for run in opened]
    if len(set(families)) == len(families):
        return families
    return [
        f"{run.language_model.family} {Path(str(given)).name}"
        for run, given in zip(opened, given, strict=True)
    ]


def _table(forgot: Forgettings) -> Table:
    rows = []
    for result in forgot.results:
        cells = [_small(result.reach.get(k)) for k in SHOWN]
        rows.append([result.name, *cells])
    return Table(["gradient, relative to 1 back", *(f"{k} back" for k in SHOWN)], rows)


def _rises(forgot: Forgettings) -> Table:
    rows = []
    for result in forgot.results:
        by_change = {(rise.change, rise.beyond): rise.rise for rise in result.rises}
        cells = [
            "-" if (change, k) not in by_change else f"{by_change[change, k]:+.2f}"
            for change in ("cut", "shuffled", "thinned")
            for k in (1, 10, 50)
        ]
        rows.append([result.name, f"{result.loss:.2f}", str(result.words), *cells])
    changes = (f"{change} {k}" for change in ("cut", "shuffled", "thinned") for k in (1, 10, 50))
    return Table(["the loss, and its rise", "loss", "words", *changes], rows)


def _carriers(forgot: Forgettings) -> Table:
    rows = []
    for result in forgot.results:
        for what, curves in (("‖V^k‖", result.powers), ("mean product of", result.holds)):
            rows += [
                [f"{result.name} {what} {name}", *(_small(curve.get(k)) for k in SHOWN)]
                for name, curve in curves.items()
            ]
    return Table(["what carries the state", *(f"k = {k}" for k in SHOWN)], rows)


def _speeds(forgot: Forgettings) -> Table:
    lengths = sorted({speed.length for result in forgot.results for speed in result.speeds})
    rows = []
    for result in forgot.results:
        by_length = {speed.length: speed for speed in result.speeds}
        cells = [
            "-"
            if length not in by_length
            else f"{by_length[length].steps} / {by_length[length].seconds * 1e3:.1f}"
            for length in lengths
        ]
        rows.append([result.name, *cells])
    return Table(["sequential steps / ms", *(f"{length} tokens" for length in lengths)], rows)


def _small(value: float | None) -> str:
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:.2f}" if 0.095 <= value < 1000 else f"{value:.1e}"


def _tables(forgot: Forgettings) -> list[Table]:
    carriers = _carriers(forgot)
    return [_table(forgot), *([carriers] if carriers.rows else []), _rises(forgot), _speeds(forgot)]


def _svg(forgot: Forgettings) -> str:
    from regard.inside.drawing import chart_to_svg
    from regard.inside.forgetting_charts import chart

    return chart_to_svg(chart(forgot.results))


def _page(forgot: Forgettings) -> list[Part]:
    notes = [Prose(f"{result.name}: {note}") for result in forgot.results for note in result.notes]
    return [Picture(_svg(forgot)), Prose(READING), *notes, Heading("Numbers"), *_tables(forgot)]


def main(arguments: list[str]) -> None:
    call = parse(forget, arguments)
    forgot = forget(**call.values)
    if call.values["out"] is not None:
        tell(f"{call.values['out']} shows it.")
    if call.json:
        print_json(forgot.to_json())
        return
    for result in forgot.results:
        for note in result.notes:
            tell(f"{result.name}: {note}")
    print("\n\n".join(text_table(table) for table in _tables(forgot)))
