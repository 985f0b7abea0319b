"""regard align RUN: which word stands for which; regard align --score FILE --gold FILE: how right an alignment is."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from regard.commands.parsing import parse
from regard.commands.printing import print_json, print_lines
from regard.errors import UserError
from regard.inside.links import Symmetry, written
from regard.inside.output import check_ending, write_record
from regard.runs.aligning import Aligned, By, Way, align, score_links, with_gold
from regard.runs.folder import load
from regard.runs.material import read_pairs
from regard.runs.translations import held_out
from regard.text.parallel import Links, Parallel, built_in


@dataclass(frozen=True, kw_only=True)
class Align:
    """Word alignments (`i-j`), a line a sentence pair, from a translator's attention or by counting; or the error rate of a file."""

    run: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="RUN", help="A translator's run folder.")] = None
    source: str | None = None
    """Sentences. Without files: those held out when the run was trained, or without a run the built-in ones."""
    target: str | None = None
    """Their translations."""
    pairs: str | None = None
    """Both in one file instead: source TAB target."""
    by: By = "attention"
    """A run's attention; or counted on these pairs, without a network: IBM Model 1, or the HMM, which knows that neighbours stay so."""
    way: Way = "shifted"
    """The state before a word is said (shifted), or naively the one that has read it."""
    sinks: bool = False
    """Let words look at the sentence's end too, instead of hiding it."""
    reverse: str | None = None
    """A run of the other direction, to be put together with this one."""
    symmetry: Symmetry | None = None
    """How both directions are put together (grow-diag with --reverse)."""
    out: Path | None = None
    """Show one pair: .html, .svg, .png or .json; what is right is framed where it is known."""
    line: int = 1
    """Which pair --out shows, from 1."""
    score: str | None = None
    """An alignment file to be measured."""
    gold: str | None = None
    """The right one, for --score or beside an alignment: i-j is sure, ipj and i?j possible; an empty line has none."""
    index: int = 0
    """The number of the first word in --score."""
    gold_index: int = 0
    """The number of the first word in --gold."""
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Align, arguments, "align")
    pairs = read_pairs(options.source, options.target, options.pairs)
    if options.score is not None:
        if options.gold is None or options.run is not None:
            raise UserError("--score FILE is measured against --gold FILE, without a run")
        result = score_links(options.score, options.gold, options.index, options.gold_index, pairs)
        (print_json if options.json else print_lines)(result)
        return
    if options.run is None and options.by == "attention":
        raise UserError("name a run (regard align RUN), count without one (--by hmm), or measure a file (--score FILE --gold FILE)")
    if options.out is not None:
        check_ending(options.out)
    run = None if options.run is None else load(options.run)
    if options.gold is not None:
        pairs = with_gold(pairs or (built_in() if run is None else held_out(run)), options.gold, options.gold_index)
    found = align(
        run, pairs, by=options.by, way=options.way, mask_sinks=not options.sinks, reverse=options.reverse, symmetry=options.symmetry
    )
    if options.out is not None:
        lines = _lines(found.pairs, found.links)
        if not 1 <= options.line <= len(lines):
            raise UserError(f"there is no --line {options.line}: they go from 1 to {len(lines)}")
        number = found.pairs.line(options.line - 1)
        if number is None:
            raise UserError(f"--line {options.line} is empty on a side, or too long for the model: it was left out")
        write_record(found.record(number), options.out, f"{options.run or options.by} · pair {options.line}")
    _tell(found, options.json)


def _tell(found: Aligned, as_json: bool) -> None:
    made_by: dict[str, Any] = {"by": found.by} if found.site is None else {"site": found.site, "head": found.head}
    told = made_by | found.measured()
    lines = _lines(found.pairs, found.links)
    if as_json:
        print_json({**told, "alignments": [sorted(one) for one in lines]})
        return
    for one in lines:
        print(written(one))
    if len(lines) > len(found.links):
        print(f"{len(lines) - len(found.links)} pairs are empty on a side or too long: their lines are empty", file=sys.stderr)
    print(", ".join(f"{name} {value if isinstance(value, str) else round(value, 4)}" for name, value in told.items()), file=sys.stderr)


def _lines(pairs: Parallel, links: list[Links]) -> list[Links]:
    """A line for every pair of the text: those that were left out have no links."""
    if pairs.places is None or not pairs.files:
        return links
    lines = [frozenset[tuple[int, int]]()] * pairs.lines
    for place, one in zip(pairs.places, links, strict=True):
        lines[place] = one
    return lines
