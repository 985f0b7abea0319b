"""regard align RUN: which word stands for which; regard align --score FILE --gold FILE: how right an alignment is."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from regard.commands.parsing import parse
from regard.commands.printing import print_json, print_lines
from regard.errors import UserError
from regard.inside.alignment import Links, Symmetry, agreement, parse_links, symmetrise, written
from regard.inside.showing import write_picture
from regard.runs.folder import load
from regard.runs.material import read_pairs
from regard.runs.translations import Way, align
from regard.text.files import read_file
from regard.text.parallel import BUILT_IN, Parallel


@dataclass(frozen=True, kw_only=True)
class Align:
    """Word alignments (`i-j`) from a translator's attention, a line a sentence pair; or the error rate of an alignment file."""

    run: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="RUN", help="A translator's run folder.")] = None
    source: str | None = None
    """Sentences. Without files: those held out when the run was trained."""
    target: str | None = None
    """Their translations."""
    pairs: str | None = None
    """Both in one file instead: source TAB target."""
    way: Way = "shifted"
    """The state before a word is said (shifted), or naively the one that has read it."""
    sinks: bool = False
    """Let words look at the sentence's end too, instead of hiding it."""
    reverse: str | None = None
    """A run of the other direction, to be put together with this one."""
    symmetry: Symmetry = "grow-diag"
    """How both directions are put together."""
    baseline: bool = False
    """Print IBM Model 1's alignment instead."""
    out: Path | None = None
    """Draw one pair's weights, .svg or .png; what is right is framed where it is known."""
    line: int = 1
    """Which pair --out draws, from 1."""
    score: str | None = None
    """An alignment file to be measured."""
    gold: str | None = None
    """The right one, for --score or beside a run: i-j is sure, ipj and i?j possible; an empty line has none."""
    index: int = 0
    """The number of the first word in --score."""
    gold_index: int = 0
    """The number of the first word in --gold."""
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Align, arguments, "align")
    if options.score is not None:
        if options.gold is None or options.run is not None:
            raise UserError("--score FILE is measured against --gold FILE, without a run")
        result = vars(
            scored(
                options.score, options.gold, options.index, options.gold_index, read_pairs(options.source, options.target, options.pairs)
            )
        )
        (print_json if options.json else print_lines)(result)
        return
    if options.run is None:
        raise UserError("name a run (regard align RUN), or an alignment to be measured (--score FILE --gold FILE)")
    _align(options, options.run)


def _align(options: Align, run: str) -> None:
    pairs = read_pairs(options.source, options.target, options.pairs)
    found = align(run, pairs, way=options.way, mask_sinks=not options.sinks)
    if options.out is not None:
        if options.out.suffix not in (".svg", ".png"):
            raise UserError(f"{options.out}: --out writes .svg or .png")
        if not 1 <= options.line <= len(found.pairs):
            raise UserError(f"there is no --line {options.line}: they go from 1 to {len(found.pairs)}")
        write_picture(found.picture(options.line - 1), options.out)
    links = found.baseline if options.baseline else found.links
    if options.reverse is not None:
        turned = Parallel(found.pairs.name, found.pairs.targets, found.pairs.sources)
        _check_reverse(options.reverse, turned)
        back = align(options.reverse, turned, way=options.way, mask_sinks=not options.sinks)
        links = [
            symmetrise(one, frozenset((i, j) for j, i in other), options.symmetry) for one, other in zip(links, back.links, strict=True)
        ]
    told: dict[str, Any] = {"site": found.site, "head": found.head, "agreement_with_model_1": 1 - agreement(links, found.baseline).aer}
    gold = _gold(options, found.pairs)
    if gold is not None:
        told |= vars(agreement(links, *gold))
        told |= {"model_1_aer": agreement(found.baseline, *gold).aer}
    if options.baseline:
        told = {"site": "IBM Model 1", **{name: value for name, value in told.items() if name not in ("site", "head")}}
    lines = _lines(found.pairs, links)
    if options.json:
        print_json({**told, "alignments": [sorted(one) for one in lines]})
        return
    for one in lines:
        print(written(one))
    if len(lines) > len(links):
        print(f"{len(lines) - len(links)} pairs are empty on a side or too long: their lines are empty", file=sys.stderr)
    print(", ".join(f"{name} {value if isinstance(value, str) else round(value, 4)}" for name, value in told.items()), file=sys.stderr)


def _check_reverse(run: str, turned: Parallel) -> None:
    """A run of the same direction would hardly know a word."""
    tokenizer = load(run).source
    if tokenizer is not None and tokenizer.unknown is not None:
        ids = [token for line in turned.sources for token in tokenizer.prompt(line)]
        if sum(token == tokenizer.unknown for token in ids) > len(ids) / 2:
            raise UserError(f"{run}: knows few of the target's words; --reverse is a run that translates back")


def _lines(pairs: Parallel, links: list[Links]) -> list[Links]:
    """A line for every pair of the text: those that were left out have no links."""
    if pairs.places is None or pairs.name == BUILT_IN:
        return links
    lines = [frozenset[tuple[int, int]]()] * max(pairs.places[-1] + 1, len(pairs) + pairs.empty)
    for place, one in zip(pairs.places, links, strict=True):
        lines[place] = one
    return lines


def _gold(options: Align, pairs: Parallel) -> tuple[list[Links], list[Links]] | None:
    if options.gold is not None:
        right = checked(options.gold, options.gold_index, None if pairs.empty else pairs)
        if pairs.places is not None and len(right) == len(pairs) + pairs.empty:
            right = [right[place] for place in pairs.places]
        if len(right) != len(pairs):
            raise UserError(f"{options.gold} has {len(right)} lines for {len(pairs)} sentence pairs")
        return [sure for sure, _ in right], [possible for _, possible in right]
    return None if pairs.alignments is None else (pairs.alignments, [frozenset()] * len(pairs))


def scored(found: str, gold: str, index: int, gold_index: int, pairs: Parallel | None = None):
    """Precision, recall and error rate of one alignment file against another."""
    one, right = checked(found, index, pairs), checked(gold, gold_index, pairs)
    if len(one) != len(right):
        raise UserError(f"{found} has {len(one)} lines and {gold} {len(right)}: give alignments of the same sentences")
    return agreement([sure | possible for sure, possible in one], [sure for sure, _ in right], [possible for _, possible in right])


def checked(name: str, index: int, pairs: Parallel | None) -> list[tuple[Links, Links]]:
    """An alignment file; where the sentences are given, no link lies outside its sentence."""
    if index not in (0, 1):
        raise UserError("--index and --gold-index are 0 or 1: the number of the first word")
    text = Path(name).read_text(encoding="utf-8") if Path(name).is_file() and Path(name).stat().st_size == 0 else read_file(name).text
    found = parse_links(text, name, index)
    for number, (both, (source, target)) in enumerate(
        zip(found, [] if pairs is None else zip(pairs.sources, pairs.targets, strict=True), strict=False), 1
    ):
        for i, j in both[0] | both[1]:
            if i >= len(source.split()) or j >= len(target.split()):
                raise UserError(f"{name}: line {number}: {i + index}-{j + index} lies outside its sentence")
    return found
