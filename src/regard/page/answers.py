"""A record, and distributions, as the page's answers to questions about a text.

Shape legend: T positions, V vocabulary.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.inside.image_pictures import png_uri
from regard.inside.observe import Reading, distributions
from regard.inside.record import Map, Record, ShownImage
from regard.models.contract import LanguageModel
from regard.page import protocol
from regard.runs.run import Run
from regard.tokens.contract import Tokenizer
from regard.tokens.word_groups import word_groups

TERMS = 12  # the largest terms of a prediction
REGIONS = "regions"  # the site of the regions of an image


def read_of(
    record: Record, before: Record | None, kind: str, vocabulary: int, words: bool = False
) -> protocol.Read:
    """Return the predictions of a record, and its sites. `words`: the subwords were joined, or were words."""
    axes = list[list[str]]()
    # weights that come from no model (without a vocabulary) may look ahead
    causal = vocabulary > 0 and record.labels is None and not record.fills
    shown = [site_map for site_map in record.maps.values() if site_map.site.holds != "scores"]
    sites = [_site(site_map, axes, causal) for site_map in shown]
    return protocol.Read(
        tokens=record.tokens,
        word=_word_numbers(record.tokens, "word" if words else kind),
        spans=_spans(record.groups),
        given_spans=_spans(record.given_groups),
        surprisal=_short(record.surprisal),
        ranks=record.ranks or [None] * len(record.tokens),
        likeliest=[[(token, digits(p)) for token, p in place] for place in record.likeliest],
        given=record.given,
        before=None if before is None else _short(before.surprisal),
        # the first note of a labelled text tells the labels, which have an answer of their own
        notes=record.notes if record.labels is None else record.notes[1:],
        kind=kind,
        vocabulary=vocabulary,
        axes=axes,
        sites=sites,
        terms=[_terms(record, place - 1) for place in range(len(record.tokens))],
        terms_of=None if record.parts is None else record.parts.of,
        labels=_labels(record, before or record),
        image=picture_of(record.image),
        right=None if record.right is None else sorted(record.right),
        fills=record.fills,
    )


def info_of(run: Run, number: str = "r0", name: str = "") -> protocol.RunInfo:
    """Describe an open run."""
    reads: protocol.Reads = "text"
    if run.model.reads in ("pairs", "captions", "blanks"):
        reads = run.model.reads
    elif run.model.label_count is not None:
        reads = "labels"
    family, tokens = run.model.family, run.tokenizer.kind
    return protocol.RunInfo(number, name or str(run), str(run), family, tokens, reads, run.config.loss)


def next_of(
    before_V: Tensor, after_V: Tensor, name: Callable[[int], str], true: int | None, top: int
) -> protocol.Next:
    """Compare two distributions: the likeliest of both, the true token if it is known, and what moved."""
    largest = torch.maximum(before_V, after_V).topk(min(top, len(before_V)))
    known = true is not None and true < len(before_V)

    def chance(token: int) -> protocol.Chance:
        return protocol.Chance(token, name(token), float(before_V[token]), float(after_V[token]))

    def rank(p_V: Tensor) -> int | None:
        return int((p_V > p_V[true]).sum()) + 1 if known else None

    return protocol.Next(
        chances=sorted(map(chance, largest.indices.tolist()), key=lambda one: -one.after),
        true=chance(true) if known and true is not None else None,
        true_rank_before=rank(before_V),
        true_rank_after=rank(after_V),
        moved=float((after_V - before_V).abs().sum() / 2),
    )


def compared(
    before: LanguageModel, after: LanguageModel, reading: Reading, tokenizer: Tokenizer, top: int
) -> list[protocol.Next]:
    """Compare the distributions of two models after each position of a text."""
    answers = list[protocol.Next]()
    pairs = zip(distributions(before, reading), distributions(after, reading), strict=True)
    for before_TV, after_TV in pairs:
        for before_V, after_V in zip(before_TV.exp(), after_TV.exp(), strict=True):
            true = reading.ids[len(answers) + 1] if len(answers) + 1 < len(reading.ids) else None
            answers.append(next_of(before_V, after_V, tokenizer.name, true, top))
    return answers


def _labels(record: Record, before: Record) -> protocol.Next | None:
    """Return the distribution of all labels, before and after the edits."""
    if record.labels is None or before.labels is None:
        return None
    after, was = dict(record.labels), dict(before.labels)
    chances = [
        protocol.Chance(number, name, was[name], share) for number, (name, share) in enumerate(record.labels)
    ]
    moved = sum(abs(after[name] - was[name]) for name in after) / 2
    return protocol.Next(chances, None, None, None, moved)


def picture_of(image: ShownImage | None) -> protocol.Picture | None:
    if image is None:
        return None
    height, width, _ = image.pixels.shape
    return protocol.Picture(png_uri(image.pixels), width, height, image.columns, list(image.boxes), REGIONS)


def _site(site_map: Map, axes: list[list[str]], causal: bool) -> protocol.SiteInfo:
    def axis(names: tuple[str, ...]) -> int:
        if list(names) not in axes:
            axes.append(list(names))
        return axes.index(list(names))

    site = site_map.site
    whole = site_map.more is not None and len(site_map.rows) == 1
    # A long text has only its last row computed; the other rows are computed when they are looked at.
    square = whole and site.rows == site.columns
    return protocol.SiteInfo(
        name=site.name,
        holds="weights" if site_map.weighs else "values",
        heads=list(site_map.heads),
        rows=axis(site_map.column_names[: site_map.rows[-1] + 1] if square else site_map.row_names),
        columns=axis(site_map.column_names) if site_map.weighs else -site_map.numbers.shape[2],
        row_side=site.rows,
        column_side=site.columns,
        causal=causal and site_map.weighs and site.rows == site.columns == "read",
        first=site_map.first if square else site_map.rows[0],
        first_column=site_map.first,
        ahead=site_map.ahead,
        extra=site.extra is not None and site.columns == "read",
        most=1.0 if site_map.weighs else digits(float(site_map.numbers.abs().max())),
    )


def _word_numbers(tokens: list[str], kind: str) -> list[int]:
    numbers = [0] * len(tokens)
    for number, group in enumerate(word_groups(tokens, kind)):
        for place in group:
            numbers[place] = number
    return numbers


def _spans(groups: Sequence[range] | None) -> list[tuple[int, int]] | None:
    return None if groups is None else [(group.start, group.stop) for group in groups]


def _terms(record: Record, place: int) -> list[tuple[str, float]]:
    terms = sorted(record.terms(place), key=lambda term: -abs(term[1]))
    rest = sum(value for _, value in terms[TERMS:])
    short = [(name, digits(value)) for name, value in terms[:TERMS]]
    return [*short, (f"{len(terms) - TERMS} smaller", digits(rest))] if len(terms) > TERMS else short


def _short(numbers: list[float | None]) -> list[float | None]:
    return [None if number is None else digits(number) for number in numbers]


def digits(number: float) -> float:
    return float(f"{number:.6g}")
