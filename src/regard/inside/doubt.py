"""The figures of one prediction: how far its attention can move, and other methods that score its words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.errors import UserError
from regard.inside.attribution import (
    Attribution,
    Judgement,
    attributions,
    disagreement,
    judgements,
    on_words,
)
from regard.inside.controls import Control
from regard.inside.moved_attention import Moved, attention_rows, moved_attention
from regard.inside.pictures import heat_map
from regard.inside.subject import Subject
from regard.tables import Table, TableRows


@dataclass(frozen=True)
class Doubt(Table):
    """The measurements of one prediction."""

    words: list[str]
    target: str
    probability: float
    epsilon: float
    moved: list[Moved]
    moved_words: list[float]  # the mean weight on each word, where all sites were moved farthest
    attributions: list[Attribution]
    judgements: list[Judgement]
    notes: list[str] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)

    @property
    def disagreements(self) -> list[list[float]]:
        """The share of pairs of words that each two methods order differently."""
        scores = [one.scores for one in self.attributions]
        return [[disagreement(first, second) for second in scores] for first in scores]

    def rows(self) -> TableRows:
        """A row for each word, with its score by each method."""
        return [
            {"word": word} | {one.method: one.scores[place] for one in self.attributions}
            for place, word in enumerate(self.words)
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "target": self.target,
            "probability": self.probability,
            "epsilon": self.epsilon,
            "moved": [one.to_json() for one in self.moved],
            "moved_words": self.moved_words,
            "attributions": [one.to_json() for one in self.attributions],
            "judgements": [one.to_json() for one in self.judgements],
            "disagreements": self.disagreements,
            "controls": [one.to_json() for one in self.controls],
            "notes": self.notes,
        }


def check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < 1:
        raise UserError(f"`epsilon` is a total variation: above 0 and below 1, not {epsilon:g}")


def doubt_prediction(subject: Subject, epsilon: float, notes: Sequence[str] = ()) -> Doubt:
    """Measure one prediction. Nothing is trained."""
    check_epsilon(epsilon)
    rows = attention_rows(subject)
    if not rows:
        raise UserError(
            "no head has more than one position to choose among at this prediction: give more words before it"
        )
    moved = moved_attention(subject, rows, epsilon)
    sites = subject.model.sites()
    farthest = [
        on_words(subject, rows[name], weights).mean(0)
        for name, weights in moved[-1].weights.items()
        if sites[name].columns == subject.side
    ]
    moved_words = torch.stack(farthest).mean(0).tolist() if farthest else [0.0] * len(subject.names)
    made = attributions(subject, rows)
    return Doubt(
        list(subject.names),
        subject.target_name,
        float(np.exp(subject.log_prob)),
        epsilon,
        moved,
        moved_words,
        made,
        judgements(subject, made),
        list(notes),
    )


def picture(doubt: Doubt) -> str:
    """Draw a row for each method, shaded by the row's largest score.

    The first two rows are attention before and after the move.
    """
    rows = {"attention": doubt.attributions[0].scores, "attention, moved": doubt.moved_words}
    rows |= {one.method: one.scores for one in doubt.attributions[1:]}
    scaled = [np.array(scores) / max(float(np.abs(scores).max()), 1e-12) for scores in rows.values()]
    title = f"What mattered for “{doubt.target}” (each row by its own largest; orange: against it)"
    return heat_map(np.stack(scaled), list(rows), doubt.words, title)
