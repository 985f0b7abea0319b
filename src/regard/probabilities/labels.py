"""Measures of how well a model labels texts: accuracy, macro-F1, a confusion table and calibration.

Shape legend: P texts, L labels.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from regard.models.classifier import Labeller
from regard.probabilities.intervals import wilson
from regard.tables import Table, TableRows
from regard.tokens.rows import EncodedRows

BINS = 10  # of the expected calibration error


@dataclass(frozen=True)
class LabelFigures:
    """The figures of one label."""

    label: str
    texts: int  # the texts that have this label
    precision: float | None  # None: the model never chose this label
    recall: float | None  # None: no text has this label
    f1: float


@dataclass(frozen=True)
class LabelMeasure(Table):
    """The figures of a model on labelled texts."""

    accuracy: float
    accuracy_interval: tuple[float, float]  # 95% (Wilson 1927)
    macro_f1: float  # the mean of F1 over the labels that a text has or that the model chose
    loss: float  # nats for each text
    calibration_error: float  # expected calibration error: the mean gap between confidence and accuracy
    most_frequent: float  # the accuracy of always choosing the label that most of these texts have
    texts: int
    cut: int  # texts longer than the model reads
    unknown_tokens: int
    texts_per_second: float
    labels: tuple[LabelFigures, ...]
    confusion: tuple[tuple[int, ...], ...]  # a row for each true label, a column for each chosen label

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> TableRows:
        """A row for each label: its texts, precision, recall, F1, and how often each label was chosen."""
        names = [figures.label for figures in self.labels]
        return [
            {**asdict(figures), **{f"as {name}": count for name, count in zip(names, counts, strict=True)}}
            for figures, counts in zip(self.labels, self.confusion, strict=True)
        ]


@torch.inference_mode()
def label_log_probs(model: Labeller, rows: EncodedRows) -> Tensor:
    """(P, L): the log-probability of each label for each text, on the CPU."""
    parts, places = list[Tensor](), list[Tensor]()
    for places_B in rows.batches(model.batch_tokens):
        tokens_BT = rows.rows(places_B, model.padding).to(model.device)
        parts.append(model(tokens_BT).float().cpu())
        places.append(places_B)
    return torch.cat(parts)[torch.cat(places).argsort()]


def measure_labels(
    model: Labeller, rows: EncodedRows, labels_P: Tensor, names: Sequence[str]
) -> LabelMeasure:
    """Label the texts and compare the labels with the true ones."""
    began = time.perf_counter()
    log_probs_PL = label_log_probs(model, rows)
    seconds = time.perf_counter() - began
    chosen_P = log_probs_PL.argmax(1)
    count = len(names)
    confusion_LL = (labels_P * count + chosen_P).bincount(minlength=count * count).view(count, count)
    figures = tuple(_figures(confusion_LL, number, name) for number, name in enumerate(names))
    right, texts = int(confusion_LL.trace()), len(labels_P)
    seen = [one.f1 for number, one in enumerate(figures) if one.texts or int(confusion_LL[:, number].sum())]
    return LabelMeasure(
        accuracy=right / texts,
        accuracy_interval=wilson(right, texts),
        macro_f1=sum(seen) / len(seen),
        loss=-float(log_probs_PL.gather(1, labels_P.unsqueeze(1)).mean()),
        calibration_error=calibration_error(log_probs_PL, labels_P),
        most_frequent=float(labels_P.bincount().max()) / texts,
        texts=texts,
        cut=rows.cut,
        unknown_tokens=rows.unknown,
        texts_per_second=texts / max(seconds, 1e-9),
        labels=figures,
        confusion=tuple(map(tuple, confusion_LL.tolist())),
    )


def _figures(confusion_LL: Tensor, number: int, name: str) -> LabelFigures:
    """Return the figures of one label. F1 = 2 TP / (2 TP + FP + FN)."""
    right = int(confusion_LL[number, number])
    true, chosen = int(confusion_LL[number].sum()), int(confusion_LL[:, number].sum())
    return LabelFigures(
        label=name,
        texts=true,
        precision=right / chosen if chosen else None,
        recall=right / true if true else None,
        f1=2 * right / (true + chosen) if true + chosen else 0.0,
    )


def calibration_error(log_probs_PL: Tensor, labels_P: Tensor) -> float:
    """Return the expected calibration error (Guo et al. 2017, equation 3).

    Texts are sorted into bins by the probability of the chosen label. In each bin, the mean probability is
    compared with the share of right labels.
    """
    best = log_probs_PL.exp().max(1)
    gap_P = best.values - (best.indices == labels_P).float()
    bin_P = (best.values * BINS).long().clamp(max=BINS - 1)
    sums = torch.zeros(BINS, dtype=gap_P.dtype).index_add(0, bin_P, gap_P)
    return float(sums.abs().sum()) / len(labels_P)
