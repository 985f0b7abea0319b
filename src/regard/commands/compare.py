"""regard compare: several families on one text under one budget."""

import sys
from dataclasses import dataclass
from typing import Literal

from regard.commands.parsing import names, parse
from regard.commands.printing import print_json
from regard.errors import UserError
from regard.runs.comparing import Result, compare, for_people, go_on_comparing
from regard.text.documents import Document


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Train families on one text under one budget each; measure them on a tenth of it that none has seen."""

    text: tuple[str, ...] = ()
    """The text: files, folders, globs, or - for standard input. Without it, the built-in text."""
    families: tuple[str, ...] = ()
    """Which, with spaces or commas between; all without it. A family may name its own tokens: ngram:word."""
    tokens: Literal["char", "word", "byte", "bpe"] = "bpe"
    """What a token is."""
    document: Document = "file"
    """What a document is."""
    minutes: float | None = None
    """Training time each (0.3)."""
    tokens_each: int | None = None
    """Training tokens each, instead of a time."""
    seeds: int = 1
    """How often each is trained; the table then has intervals."""
    out: str = "comparison"
    """The folder for runs, report.html, report.md and results.json."""
    resume: bool = False
    """Finish the comparison in --out, which was stopped; its text and options are those it began with."""
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Compare, arguments, "compare")

    def finished(result: Result) -> None:
        figure = result.measure.bits_per_byte
        reached = "no figure" if figure is None else f"{figure:.3f} bits per byte"
        print(f"{result.name:<14} {reached:<22} after {result.seconds:.1f} s", file=sys.stderr, flush=True)

    if options.resume:
        if options != Compare(out=options.out, json=options.json, resume=True):
            raise UserError("--resume goes on with the text and options a comparison began with: give --out alone")
        comparison = go_on_comparing(options.out, finished)
    else:
        comparison = compare(
            options.text, families=names(options.families), tokens=options.tokens, document=options.document, minutes=options.minutes,
            tokens_each=options.tokens_each, seeds=options.seeds, out=options.out, finished=finished,
        )  # fmt: skip
    if options.json:
        print_json(comparison.to_json())
        return
    _print_table([for_people(row) for row in comparison.table()])
    for note in comparison.notes:
        print(note)
    print(f"\n{options.out}/report.html shows it.")


def _print_table(rows: list[dict[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    family, *figures = rows[0]
    table = Table(
        Column(family, no_wrap=True), *(Column(name, justify="right", no_wrap=True) for name in figures), box=None, padding=(0, 1)
    )
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)
