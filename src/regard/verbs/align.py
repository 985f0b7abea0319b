"""regard align: word alignments from attention or by counting, or the error rate of an alignment file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from regard.boundary import check_ranges
from regard.errors import UserError
from regard.inside.output import check_ending
from regard.inside.record import Map, Record
from regard.page.files import write_record
from regard.parts.look import Site
from regard.probabilities.attention_links import (
    Way,
    attention_maps,
    best_head,
    links_of_heads,
    model_1,
    sentences_to_measure,
)
from regard.probabilities.ibm_models import CountedName, count_links
from regard.probabilities.links import (
    Symmetry,
    agreement,
    check_links,
    format_links,
    symmetrised,
)
from regard.probabilities.translation import crossing_sites
from regard.ranges import Count, Index
from regard.runs.formats import as_run
from regard.runs.run import Run, require_translator
from regard.tables import Table, TableRows, html_table
from regard.text import parallel
from regard.text.parallel import Links, Parallel, words
from regard.verbs.align_files import Combined, LinkFiles, Scored, read_links
from regard.verbs.arguments import File, OtherRun, Out
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, print_lines, tell

By = Literal["attention", "model-1", "hmm"]
MaybeRun = Annotated[Run | str | Path | None, Argument(str | None, positional=True, metavar="RUN")]
Texts = Annotated[str | Path | Parallel | None, Argument(str | None, metavar="FILE")]


@dataclass(frozen=True)
class Aligned(Table):
    """Word alignments of sentence pairs, and how they were made."""

    pairs: Parallel
    links: list[Links]
    by: By
    baseline: list[Links]  # the links of IBM Model 1
    site: str | None = None
    head: int | None = None
    weights: list[Tensor] | None = None  # (target words, source words) of each pair, if attention was read
    chosen_on: int = 0  # the head was chosen by the gold links of so many first pairs, which are not measured

    def figures(self) -> dict[str, Any]:
        """Return the agreement with IBM Model 1, and with the gold links if they are known."""
        figures: dict[str, Any] = {"by": self.by}
        if self.site is not None:
            figures = {"site": self.site, "head": self.head}
        figures["agreement_with_model_1"] = 1 - agreement(self.links, self.baseline).aer
        if self.pairs.alignments is None:
            return figures
        rest = sentences_to_measure(self.chosen_on, self.pairs)
        sure, possible = self.pairs.alignments[rest], (self.pairs.possible or self.pairs.alignments)[rest]
        figures |= vars(agreement(self.links[rest], sure, possible))
        figures["model_1_aer"] = agreement(self.baseline[rest], sure, possible).aer
        return figures | {"measured_on": len(sure)}

    def lines(self) -> list[Links]:
        """Return the links of every line of the text. Lines that were left out have none."""
        if self.pairs.places is None or not self.pairs.files:
            return self.links
        lines = [frozenset[tuple[int, int]]()] * self.pairs.lines
        for place, links in zip(self.pairs.places, self.links, strict=True):
            lines[place] = links
        return lines

    def record(self, number: int) -> Record:
        """Make the record of one pair: its weights (or links, if nothing was weighed) and the gold links."""
        source, target = words(self.pairs.sources[number]), words(self.pairs.targets[number])
        if self.weights is None:
            map_JI = torch.zeros(len(target), len(source))
            for i, j in self.links[number]:
                map_JI[j, i] = 1
        else:
            map_JI = self.weights[number]
            source += ["</s>"] * (map_JI.shape[1] - len(source))  # the end token, if words may attend to it
        right = None
        if self.pairs.alignments is not None:
            right = frozenset((j, i) for i, j in self.pairs.alignments[number])
        name = self.site or self.by
        site, rows = Site(name, "BHTS", "weights", columns="given"), tuple(range(len(target)))
        head = "" if self.head is None else f"head {self.head}"
        drawn = Map(site, (head,), rows, tuple(target), tuple(source), map_JI.unsqueeze(0))
        size = len(target)
        return Record(
            target, list(range(size)), [None] * size, [[] for _ in target], source, {name: drawn}, right=right
        )

    def to_json(self) -> dict[str, Any]:
        return {**self.figures(), "alignments": [sorted(links) for links in self.lines()]}

    def rows(self) -> TableRows:
        """A row for each sentence pair: source, target and links."""
        triples = zip(self.pairs.sources, self.pairs.targets, self.links, strict=True)
        return [
            {"source": source, "target": target, "links": format_links(links)}
            for source, target, links in triples
        ]

    def _repr_html_(self) -> str:
        return html_table([self.figures()]) + html_table(self.rows())


@check_ranges
def align(
    run: MaybeRun = None,
    *,
    source: File = None,
    target: File = None,
    pairs: Texts = None,
    by: By = "attention",
    way: Way = "shifted",
    sinks: bool = False,
    reverse: OtherRun = None,
    symmetry: Symmetry | None = None,
    out: Out = None,
    line: Count = 1,
    links: File = None,
    reverse_links: File = None,
    turn: bool = False,
    score: File = None,
    gold: File = None,
    index: Index = 0,
    gold_index: Index = 0,
) -> Aligned | Combined | Scored:
    """Align the words of sentence pairs by attention or by counting; combine or measure files of links.

    The printed links are i-j, a line for each sentence pair: source word i and target word j, from 0.

    >>> regard.align(by="hmm", symmetry="grow-diag").links[0]  # doctest: +SKIP

    Args:
        run: A translator's run folder.
        source: Source sentences. Without files, those held out in the run's training, or the built-in ones.
        target: Their translations.
        pairs: Both in one file instead: source TAB target.
        by: The attention of a run, or counting on these pairs by IBM Model 1 or the HMM.
        way: The attention of the state that predicts a word (shifted), or that has read it (naive).
        sinks: Do not hide the end of the source sentence from the attention.
        reverse: A run of the other direction, whose links are combined with those of this run.
        symmetry: How the links of both directions are combined (of runs and files: grow-diag).
        out: Draw one pair: .html, .svg, .png, .tsv or .json. Right links are framed if they are known.
        line: The number of the pair that `out` draws, from 1.
        links: A file of links, to combine with `reverse_links`.
        reverse_links: The links of the other direction, also as source-target.
        turn: The links of `reverse_links`, or of `score`, are target-source: turn them round.
        score: An alignment file that is measured against `gold`.
        gold: The right links: i-j is sure, ipj and i?j are possible. An empty line has no links.
        index: The number of the first word in `score`, `links` and `reverse_links`.
        gold_index: The number of the first word in `gold`.
    """
    text = pairs if isinstance(pairs, Parallel) else parallel.read_pairs(source, target, pairs)
    if (files := LinkFiles(links, reverse_links, score, gold, index, gold_index, turn)).named:
        return files.result(run, symmetry, text)
    if out is not None:
        check_ending(Path(out))
    opened = _opened(run, by)
    if gold is not None:
        held_out = parallel.built_in if opened is None else opened.held_out_pairs
        text = with_gold(text or held_out(), str(gold), gold_index)
    aligned = _align(opened, text, by, way, sinks, reverse, symmetry)
    if out is not None:
        write_record(aligned.record(_number(aligned, line)), Path(out), f"{run or by} · pair {line}")
    return aligned


def _opened(run: MaybeRun, by: By) -> Run | None:
    """Open the run that attention needs."""
    if run is None and by == "attention":
        others = "count without a run (`by` hmm), or measure a file (`score` and `gold`)"
        raise UserError(f"attention needs a run: regard align RUN; {others}")
    return None if run is None else as_run(run)


def _align(
    run: Run | None,
    pairs: Parallel | None,
    by: By,
    way: Way,
    sinks: bool,
    reverse: OtherRun,
    symmetry: Symmetry | None,
) -> Aligned:
    if by == "attention":
        assert run is not None
        if symmetry is not None and reverse is None:
            both = "name a run of the other one with `reverse`, or count `by` hmm"
            raise UserError(f"`symmetry` puts two directions together: {both}")
        return _attended(require_translator(run), pairs, way, sinks, reverse, symmetry or "grow-diag")
    if reverse is not None:
        raise UserError(f"`by` {by} counts both directions itself: give `symmetry` without `reverse`")
    pairs = pairs or (parallel.built_in() if run is None else run.held_out_pairs())
    return Aligned(pairs, _counted(pairs, by, symmetry), by, model_1(pairs))


def _counted(pairs: Parallel, by: CountedName, symmetry: Symmetry | None) -> list[Links]:
    return count_links(
        [words(line) for line in pairs.sources], [words(line) for line in pairs.targets], by, symmetry
    )


def _attended(
    run: Run, pairs: Parallel | None, way: Way, sinks: bool, reverse: OtherRun, symmetry: Symmetry
) -> Aligned:
    if not crossing_sites(run.language_model):
        raise UserError("this translator has no attention (`score` none): there is nothing to align by")
    encoded, pairs = run.encode_pairs(pairs or run.held_out_pairs())
    baseline = model_1(pairs)
    maps = attention_maps(run.language_model, *run.both_tokenizers(), encoded, pairs, way, not sinks)
    links = links_of_heads(maps, pairs)
    (site, head), chosen_on = best_head(links, pairs.alignments or baseline)
    best_links = links[site, head]
    if reverse is not None:
        back = _attended(_backwards(reverse, pairs), pairs.swapped(), way, sinks, None, symmetry)
        if len(back.pairs) != len(pairs):
            raise UserError(
                f"{reverse}: reads shorter sentences than {run.folder}; leave the longest pairs out"
            )
        best_links, chosen_on = symmetrised(best_links, back.links, symmetry), max(chosen_on, back.chosen_on)
    return Aligned(pairs, best_links, "attention", baseline, site, head, maps[site, head], chosen_on)


def _backwards(reverse: OtherRun, pairs: Parallel) -> Run:
    """Open the run of the other direction. A run of the same direction would know few of the words."""
    assert reverse is not None
    run = require_translator(as_run(reverse))
    tokenizer = run.both_tokenizers()[0]
    ids = [token for line in pairs.targets for token in tokenizer.prompt(line)]
    if sum(token == tokenizer.unknown for token in ids) > len(ids) / 2:
        raise UserError(f"{reverse}: knows few words of the target; `reverse` is a run that translates back")
    return run


def _number(aligned: Aligned, line: int) -> int:
    """Return the index of the pair at a line of the text."""
    lines = len(aligned.lines())
    if not 1 <= line <= lines:
        raise UserError(f"there is no `line` {line}: they go from 1 to {lines}")
    number = aligned.pairs.line(line - 1)
    if number is None:
        raise UserError(f"`line` {line} is empty on a side, or too long for the model: it was left out")
    return number


def with_gold(pairs: Parallel, name: str, index: int) -> Parallel:
    """Add the gold links of a file, which has a line for each pair or for each line of the text."""
    right = read_links(name, index)
    places = range(len(pairs)) if pairs.places is None or len(right) == len(pairs) else pairs.places
    if len(right) not in (len(pairs), pairs.lines):
        raise UserError(f"{name} has {len(right)} lines for {len(pairs)} sentence pairs")
    gold_links = [right[place] for place in places]
    for place, (sure, possible), source, target in zip(
        places, gold_links, pairs.sources, pairs.targets, strict=True
    ):
        check_links(sure | possible, source, target, f"{name}: line {place + 1}", index)
    return replace(
        pairs,
        alignments=[sure for sure, _ in gold_links],
        possible=[sure | possible for sure, possible in gold_links],
    )


def print_links(lines: list[Links]) -> None:
    for links in lines:
        print(format_links(links))


def main(arguments: list[str]) -> None:
    call = parse(align, arguments)
    result = align(**call.values)
    if isinstance(result, Scored):
        (print_json if call.json else print_lines)(result.to_json())
        return
    if call.json:
        print_json(result.to_json())
        return
    if isinstance(result, Combined):
        print_links(result.links)
        return
    lines = result.lines()
    print_links(lines)
    if len(lines) > len(result.links):
        tell(f"{len(lines) - len(result.links)} pairs are empty on a side or too long: their lines are empty")
    figures = result.figures().items()
    tell(
        ", ".join(f"{name} {value if isinstance(value, str) else round(value, 4)}" for name, value in figures)
    )
