"""regard heads RUN: measure and label attention heads."""

from pathlib import Path
from typing import Any

import numpy as np

from regard.inside.head_scores import KINDS, Head, HeadReport, head_report
from regard.inside.pictures import table as picture_of_table
from regard.inside.sheet import Heading, Part, Picture, Prose, Table, check_sheet, text_table, write_sheet
from regard.runs.formats import as_run
from regard.text.files import read
from regard.verbs.arguments import Files, Out, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

READING = (
    "A score is the share of a head's weight on the positions of its definition. The number after the slash "
    "is chance: the score of uniform weights, or of the same model with shuffled numbers, whichever is "
    "higher. A head has the label whose score covers most of the way from chance to 1, if that is at least "
    "half of the way. A label says where a head looks, not what the model does with it. A head without a "
    "label may do several things."
)


def heads(run: RunLike, *, text: Files = (), out: Out = None) -> HeadReport:
    """Measure where every attention head looks, and label the heads that clearly do one thing.

    >>> regard.heads("runs/transformer").label("layer0.attention", head=1)  # doctest: +SKIP
    'previous token'

    Args:
        run: A run folder, or a GPT-2 checkpoint.
        text: Text in which delimiters and entropy are measured. Without it, the run's own held-out text.
        out: Write it to a file: .html, .svg, .png or .json.
    """
    check_sheet(out)
    report = head_report(as_run(run), read(text))
    if out is not None:
        title = f"What the heads of {run if isinstance(run, str | Path) else 'a run'} do"
        write_sheet(out, title, _page(report), _picture(report), report.to_json())
    return report


def _kinds(report: HeadReport) -> list[str]:
    """Return the kinds of scores that the heads of this run have, in the order of their definitions."""
    return [kind for kind in KINDS if any(kind in head.scores for head in report.heads)]


def _name(head: Head) -> str:
    return f"{head.site} {head.name}".strip()


def _table(report: HeadReport) -> Table:
    kinds = _kinds(report)
    rows = []
    for head in report.heads:
        cells = [_cell(head, kind) for kind in kinds]
        offset = "" if head.offset is None else f"{head.offset:+d}"
        rows.append([_name(head), head.label or "-", f"{head.entropy:.2f}", *cells, offset])
    return Table(["head", "label", "entropy", *kinds, "offset"], rows)


def _cell(head: Head, kind: str) -> str:
    if kind not in head.scores:
        return "-"
    return f"{head.scores[kind].value:.2f}/{head.scores[kind].chance:.2f}"


def _picture(report: HeadReport) -> str:
    """Draw a table of heads and kinds, shaded by the share of the way from chance to 1."""
    kinds = _kinds(report)
    shares = [
        [head.scores[kind].share if kind in head.scores else 0.0 for kind in kinds] for head in report.heads
    ]
    words = [[_picture_cell(head, kind) for kind in kinds] for head in report.heads]
    title = "Weight where each definition says (darker: further from chance; ● the label)"
    names = ["delimiter/sink" if kind == "delimiter or sink" else kind for kind in kinds]
    rows = [_name(head).replace(" head ", " ") for head in report.heads]  # long names would be cut
    return picture_of_table(np.clip(np.array(shares), 0, 1), rows, names, words, title)


def _picture_cell(head: Head, kind: str) -> str:
    if kind not in head.scores:
        return ""
    return ("● " if head.label == kind else "") + f"{head.scores[kind].value:.2f}"


def _page(report: HeadReport) -> list[Part]:
    definitions = [Prose(f"{kind.capitalize()}: {KINDS[kind]}.") for kind in _kinds(report)]
    parts: list[Part] = [Prose(note) for note in report.notes]
    parts += [Picture(_picture(report)), Prose(READING), Heading("Definitions"), *definitions]
    return [*parts, Heading("Every score"), _table(report)]


def main(arguments: list[str]) -> None:
    call = parse(heads, arguments)
    report = heads(**call.values)
    if call.values["out"] is not None:
        tell(f"{call.values['out']} shows it.")
    if call.json:
        print_json(report.to_json())
        return
    for note in report.notes:
        tell(note)
    print(text_table(_table(report)))
    print("\nscore/chance; offset: the distance that has most weight. Labels:", _labels(report))


def _labels(report: HeadReport) -> str:
    counted: dict[str, Any] = {}
    for head in report.heads:
        counted[head.label or "none"] = counted.get(head.label or "none", 0) + 1
    return ", ".join(f"{label} {count}" for label, count in counted.items())
