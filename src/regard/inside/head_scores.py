"""Scores of attention heads, each with a definition, and labels for the heads that clearly do one thing.

A score is the share of a head's weight that goes where the definition says. It stands beside its chance: what
uniform weights over the visible positions would give, or, if that is more, what the head of the same model
with its numbers shuffled gives. A head gets the label whose score covers most of the way from chance to 1, if
that is at least half of the way.

Repeated sequences of random tokens as evidence: Elhage et al. 2021 and Olsson et al. 2022 (induction heads).

Shape legend: B rows, H heads, Q rows of weights, K columns, S source positions, T target positions.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.attention_rows import Recorder, Weighing, weight_sites
from regard.models.contract import LanguageModel
from regard.parts.look import Site
from regard.probabilities.attention_links import attention_maps, model_1
from regard.runs.run import Run
from regard.tables import Table, TableRows
from regard.text import parallel
from regard.text.builtin import built_in_text
from regard.text.files import Source
from regard.tokens.contract import Tokenizer

ROWS, REPEATED, LONGEST = 8, 24, 48  # sequences, tokens that are repeated, tokens of a sequence of text
HALFWAY = 0.5  # of the way from chance to 1: from there on a head has a label
KINDS = {
    "previous token": "weight on the position before",
    "induction": "in a random sequence that is repeated: weight on the position after the same token's last "
    "occurrence",
    "same token": "in a random sequence that is repeated: weight on other positions that hold the same token",
    "delimiter or sink": "in text: weight on <s>, </s> and tokens without a letter or digit",
    "alignment": "in held-out pairs: weight on the source words that a target word is linked to "
    "(gold links, or IBM Model 1)",
    "position": "in random sequences: how far the mean weights at a position are from uniform, <s> left out "
    "(total variation)",
}
LAST = "position"  # a head that looks at the position before looks by position as well: this label comes last


@dataclass(frozen=True)
class Score:
    value: float
    chance: float

    @property
    def share(self) -> float:
        """The share of the way from chance to 1 that the score covers."""
        return (self.value - self.chance) / max(1 - self.chance, 1e-9)


@dataclass(frozen=True)
class Head:
    site: str
    name: str  # of the head in its site; empty if the site has one map
    label: str | None
    entropy: float  # of its weights in text, as a share of the largest possible entropy
    scores: dict[str, Score]
    offset: (
        int | None
    )  # the distance that has the most weight on average in random sequences: 1 is the position before

    def to_json(self) -> dict[str, Any]:
        scores = {
            kind: {"score": score.value, "chance": score.chance, "share": score.share}
            for kind, score in self.scores.items()
        }
        own = {"site": self.site, "head": self.name, "label": self.label, "entropy": self.entropy}
        return {**own, "offset": self.offset, "scores": scores}


@dataclass(frozen=True)
class HeadReport(Table):
    heads: list[Head]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        heads = [head.to_json() for head in self.heads]
        return {"kinds": KINDS, "heads": heads, "notes": self.notes}

    def rows(self) -> TableRows:
        """A row for each head, with its label and scores."""
        return [
            {"site": head.site, "head": head.name, "label": head.label, "entropy": head.entropy}
            | {kind: score.value for kind, score in head.scores.items()}
            for head in self.heads
        ]

    def label(self, site: str, head: int = 0) -> str | None:
        """Return the label of a head, given its number in its site."""
        return [one for one in self.heads if one.site == site][head].label


Measured = dict[
    tuple[str, int], dict[str, tuple[float, float]]
]  # of each head: the score and the uniform chance of each kind


@torch.inference_mode()
def head_report(run: Run, text: Sequence[Source] = (), control: LanguageModel | None = None) -> HeadReport:
    """Measure every head. The scores of the model `control` count as chance.

    Without a control, chance is measured on the run's own model with shuffled numbers."""
    model, notes = run.language_model, list[str]()
    sites = weight_sites(model, "whose heads could be measured")
    generator = torch.Generator().manual_seed(1)
    reading = _readings(run, text, notes, generator)
    measured, entropies, offsets = _measure(model, sites, reading)
    baseline, _, _ = _measure(shuffled(model, generator) if control is None else control, sites, reading)
    by_name = {site.name: site for site in sites}
    heads = []
    for (site, number), own in measured.items():
        scores = {
            kind: Score(value, max(chance, baseline[site, number][kind][0]))
            for kind, (value, chance) in own.items()
        }
        name = by_name[site].part(number)
        heads.append(Head(site, name, _label(scores), entropies[site, number], scores, offsets[site, number]))
    return HeadReport(heads, notes)


def _label(scores: dict[str, Score]) -> str | None:
    clear = {kind: score.share for kind, score in scores.items() if score.share >= HALFWAY}
    special = {kind: share for kind, share in clear.items() if kind != LAST}
    return max(special or clear, key=lambda kind: clear[kind], default=None)


def shuffled(model: LanguageModel, generator: torch.Generator) -> LanguageModel:
    """Return a copy of the model with the numbers of each parameter in a random order."""
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.data = parameter.data.flatten()[order].view_as(parameter)
    return other


@dataclass(frozen=True)
class Sequences:
    """The inputs of the measurements: random sequences and text, with sources for translators."""

    repeated_BT: Tensor
    repeated_source_BS: Tensor | None
    text: Sequence[tuple[Tensor, Tensor | None]]  # one row each
    delimiters: Tensor  # ids of the target side
    source_delimiters: Tensor | None
    aligned: Callable[[LanguageModel], dict[tuple[str, int], tuple[float, float]]] | None


def _readings(run: Run, text: Sequence[Source], notes: list[str], generator: torch.Generator) -> Sequences:
    model, tokenizer = run.language_model, run.tokenizer
    length = min(REPEATED, ((model.context or LONGEST + 1) - 1) // 2)
    repeated_BT = _repeated(tokenizer, length, generator, (tokenizer.start,), ())
    if model.given is None:
        sources = list(text) or _own_text(run, notes)
        rows = _text_rows(
            tokenizer, [source.text for source in sources], min(LONGEST, model.context or LONGEST)
        )
        return Sequences(repeated_BT, None, [(row, None) for row in rows], _delimiters(tokenizer), None, None)
    source, target = run.both_tokenizers()
    pairs = _own_pairs(run, notes)
    encoded, pairs = run.encode_pairs(pairs)
    rows_of_text = []
    for place in range(min(ROWS, len(pairs))):
        given = torch.tensor([[*source.prompt(pairs.sources[place]), source.end]])
        rows_of_text.append((torch.tensor([[target.start, *target.prompt(pairs.targets[place])]]), given))
    links = pairs.alignments or model_1(pairs)
    if pairs.alignments is None:
        notes.append(f"links of words are those of IBM Model 1, counted on {len(pairs)} held-out pairs")

    def aligned(read: LanguageModel) -> dict[tuple[str, int], tuple[float, float]]:
        return _alignment(attention_maps(read, source, target, encoded, pairs, mask_sinks=False), links)

    repeated_source = _repeated(source, length, generator, (), (source.end,))
    return Sequences(
        repeated_BT, repeated_source, rows_of_text, _delimiters(target), _delimiters(source), aligned
    )


def _own_text(run: Run, notes: list[str]) -> list[Source]:
    """Return the run's held-out text, or the built-in text if the run has none or the file is gone."""
    try:
        return run.own_text()
    except (UserError, OSError):
        notes.append(
            "the run's own held-out text is gone or was never given: text means the built-in text here"
        )
        return [built_in_text()]


def _own_pairs(run: Run, notes: list[str]) -> parallel.Parallel:
    try:
        if run.config.texts.valid:
            return run.held_out_pairs()
    except (UserError, OSError):
        pass
    notes.append(
        "the run's own held-out pairs are gone or were never given: pairs means the built-in pairs here"
    )
    return parallel.hold_out(parallel.built_in())[1]


def _repeated(
    tokenizer: Tokenizer,
    length: int,
    generator: torch.Generator,
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> Tensor:
    """(ROWS, 2 length + 1): a sequence of different random tokens, then the same sequence again."""
    usable = [token for token in range(tokenizer.size) if token not in (tokenizer.end, tokenizer.unknown)]
    rows = []
    for _ in range(ROWS):
        order = torch.randperm(len(usable), generator=generator)[:length]
        drawn = [usable[place] for place in order.tolist()]
        rows.append([*before, *drawn, *drawn, *after])
    return torch.tensor(rows)


def _text_rows(tokenizer: Tokenizer, texts: list[str], longest: int) -> list[Tensor]:
    """Return rows from the beginnings of the longest of the first documents."""
    encoded = tokenizer.encode_texts([text[: 1 << 16] for text in texts[:ROWS]])
    order = encoded.lengths_D[: 8 * ROWS].argsort(descending=True)[:ROWS]
    rows = []
    for start, end in zip(encoded.starts_D[order].tolist(), encoded.ends_D[order].tolist(), strict=True):
        step = longest - 1
        for first in range(start, min(end, start + step * ROWS), step):
            rows.append(
                torch.tensor([[tokenizer.start, *encoded.ids_N[first : min(end, first + step)].tolist()]])
            )
    return rows[: 2 * ROWS]


def _delimiters(tokenizer: Tokenizer) -> Tensor:
    """Return the tokens without a letter or digit, and the tokens that begin or end a text."""
    ids = [token for token in range(tokenizer.size) if not any(map(str.isalnum, tokenizer.name(token)))]
    return torch.tensor([*ids, tokenizer.end, tokenizer.start, tokenizer.padding])


def _alignment(
    maps: dict[tuple[str, int], list[Tensor]], links: list[Any]
) -> dict[tuple[str, int], tuple[float, float]]:
    """Return the mean weight on the linked source words of each target word, and that of uniform weights."""
    scores = {}
    for head, maps_TS in maps.items():
        values, chances = list[float](), list[float]()
        for map_TS, linked in zip(maps_TS, links, strict=True):
            by_target = dict[int, set[int]]()
            for i, j in linked:
                by_target.setdefault(j, set()).add(i)
            for j, words in by_target.items():
                values.append(float(map_TS[j, sorted(words)].sum()))
                chances.append(len(words) / map_TS.shape[1])
        scores[head] = (_mean(values), _mean(chances))
    return scores


def _measure(
    model: LanguageModel, sites: list[Site], reading: Sequences
) -> tuple[Measured, dict[tuple[str, int], float], dict[tuple[str, int], int | None]]:
    """Return scores with uniform chances, entropies, and the offsets with the most weight, for every head."""
    random = _record(model, sites, reading.repeated_BT, reading.repeated_source_BS)
    texts = [_record(model, sites, *row) for row in reading.text]
    aligned = reading.aligned(model) if reading.aligned is not None else {}
    measured: Measured = {}
    entropies, offsets = dict[tuple[str, int], float](), dict[tuple[str, int], int | None]()
    for site in sites:
        if site.name not in random:
            continue
        own_side = site.rows == site.columns
        columns_BK = reading.repeated_BT if site.columns == "read" else reading.repeated_source_BS
        delimiters = reading.delimiters if site.columns == "read" else reading.source_delimiters
        assert columns_BK is not None
        assert delimiters is not None
        by_kind = _of_random(random[site.name], columns_BK) if own_side else {}
        ids = [row[0 if site.columns == "read" else 1] for row in reading.text]
        by_kind["delimiter or sink"] = _joined(
            [
                _weight_on(weighing[site.name], torch.isin(_padded(row, weighing[site.name]), delimiters))
                for row, weighing in zip(ids, texts, strict=True)
                if row is not None
            ]
        )
        by_kind["position"], most = _by_position(random[site.name], site)
        entropy_H = torch.stack([_entropy(weighing[site.name]) for weighing in texts]).nanmean(0)
        for head in range(random[site.name].weights_BHQK.shape[1]):
            key = (site.name, head)
            measured[key] = {
                kind: (float(value[head]), float(chance)) for kind, (value, chance) in by_kind.items()
            }
            if key in aligned:
                measured[key]["alignment"] = aligned[key]
            entropies[key], offsets[key] = float(entropy_H[head].nan_to_num()), most[head]
    return measured, entropies, offsets


def _record(
    model: LanguageModel, sites: list[Site], tokens_BT: Tensor, source_BS: Tensor | None
) -> dict[str, Weighing]:
    recorder = Recorder(sites)
    source_BS = None if source_BS is None else source_BS.to(model.device)
    model.read_from_start(tokens_BT.to(model.device), source_BS, recorder.look())
    return {name: _on_positions(weighing) for name, weighing in recorder.weighings.items()}


def _on_positions(weighing: Weighing) -> Weighing:
    """Return the weights on positions, without extra columns such as the vocabulary of a gate."""
    assert weighing.place.column_BK is not None
    columns = weighing.place.column_BK.shape[1]
    weights_BHQK = weighing.weights_BHQK[..., :columns].cpu()
    return Weighing(weighing.site, weights_BHQK, weighing.visible_BHQK[..., :columns].cpu(), weighing.place)


def _padded(ids_BK: Tensor, weighing: Weighing) -> Tensor:
    """Return the ids of the columns."""
    return ids_BK[:, : weighing.weights_BHQK.shape[3]]


def _of_random(weighing: Weighing, ids_BK: Tensor) -> dict[str, tuple[Tensor, float]]:
    """Score heads that attend to their own side, on repeated random sequences."""
    length = ids_BK.shape[1]
    place = torch.arange(length)
    row_QK, column_QK = place.unsqueeze(1), place.unsqueeze(0)
    same_BQK = ids_BK.unsqueeze(2) == ids_BK.unsqueeze(1)
    after_BQK = torch.nn.functional.pad(same_BQK, (1, 0))[..., :-1]  # the column before holds the row's token
    earlier_QK = column_QK < row_QK
    masks = {
        "previous token": (column_QK == row_QK - 1).expand_as(same_BQK) & (row_QK > 1),
        "induction": after_BQK & (column_QK <= row_QK) & (column_QK - 1 < row_QK),
        "same token": same_BQK & (column_QK != row_QK) & (earlier_QK | ~earlier_QK.any()),
    }
    # the row's own token stands in the column before its next position: that is no earlier occurrence
    masks["induction"] &= column_QK - 1 != row_QK
    return {kind: _weight_on(weighing, mask) for kind, mask in masks.items()}


def _weight_on(weighing: Weighing, wanted_BQK: Tensor) -> tuple[Tensor, float]:
    """Return the (H,) mean weight on the wanted columns, and the same for uniform weights.

    The mean is over rows that see a wanted column and another one."""
    wanted_BQK = wanted_BQK.unsqueeze(1) if wanted_BQK.dim() == 2 else wanted_BQK
    seen_BQK = weighing.visible_BHQK[:, 0]
    both_BQK = wanted_BQK & seen_BQK
    chance_BQ = both_BQK.sum(2) / seen_BQK.sum(2).clamp(min=1)
    rows_BQ = (chance_BQ > 0) & (chance_BQ < 1)
    count = rows_BQ.sum().clamp(min=1)
    on_BHQ = (weighing.weights_BHQK * both_BQK.unsqueeze(1)).sum(3)
    return (on_BHQ * rows_BQ.unsqueeze(1)).sum((0, 2)) / count, float((chance_BQ * rows_BQ).sum() / count)


def _by_position(weighing: Weighing, site: Site) -> tuple[tuple[Tensor, float], list[int | None]]:
    """Return the (H,) total variation between mean and uniform weights, and the offset with the most weight.

    The chance of the total variation is 0."""
    half = weighing.weights_BHQK.shape[2] // 2 + 1 if site.rows == site.columns else None
    first = 1 if site.columns == "read" else 0  # without <s>
    mean_HQK = weighing.weights_BHQK[:, :, :half, first:].mean(0)
    seen_QK = weighing.visible_BHQK[:, 0, :half, first:].all(0)
    rows_Q = seen_QK.sum(1) > 1
    if not bool(rows_Q.any()):
        return (torch.zeros(len(mean_HQK)), 0.0), [None] * len(mean_HQK)
    uniform_HQK = mean_HQK.sum(2, keepdim=True) * seen_QK / seen_QK.sum(1, keepdim=True).clamp(min=1)
    variation_HQ = (mean_HQK - uniform_HQK).abs().sum(2) / 2
    size_H = variation_HQ[:, rows_Q].mean(1)
    offset_QK = torch.arange(seen_QK.shape[0]).unsqueeze(1) - torch.arange(first, first + seen_QK.shape[1])
    most = list[int | None]()
    for mean_QK in mean_HQK:
        by_offset = {
            int(offset): float(mean_QK[(offset_QK == offset) & rows_Q.unsqueeze(1)].sum())
            for offset in offset_QK[seen_QK].unique()
        }
        most.append(max(by_offset, key=lambda offset: by_offset[offset]))
    return (size_H, 0.0), most


def _entropy(weighing: Weighing) -> Tensor:
    """(H,): the entropy as a share of its largest value. A head whose rows see one column has NaN."""
    weights_BHQK, seen_BHQ = weighing.weights_BHQK, weighing.visible_BHQK.sum(3)
    entropy_BHQ = torch.special.entr(weights_BHQK.clamp(min=0)).sum(3)
    rows_BHQ = seen_BHQ > 1
    share_BHQ = torch.where(rows_BHQ, entropy_BHQ / seen_BHQ.clamp(min=2).log(), math.nan)
    return share_BHQ.transpose(0, 1).flatten(1).nanmean(1)


def _joined(parts: list[tuple[Tensor, float]]) -> tuple[Tensor, float]:
    return torch.stack([value for value, _ in parts]).mean(0), _mean([chance for _, chance in parts])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
