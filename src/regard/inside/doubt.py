"""The figures of one prediction: how far its attention can move, and other methods that score its words."""

from collections.abc import Generator, Iterator, Mapping, Sequence
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
from regard.inside.image_pictures import panels
from regard.inside.least_change import LeastChange, least_changes
from regard.inside.moved_attention import Moved, Row, attention_rows, moving
from regard.inside.pictures import heat_map
from regard.inside.record import ShownImage
from regard.inside.stages import Stage, finished, share_of
from regard.inside.subject import Subject
from regard.parts.look import Side
from regard.tables import Table, TableRows
from regard.tokens.contract import Tokenizer


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
    changes: list[LeastChange] = field(default_factory=list)  # that make the model say another word
    parts: str = "words"  # what the words of this sheet are: words, or regions of an image
    image: ShownImage | None = None  # whose regions they are

    @property
    def least(self) -> LeastChange | None:
        """The least change of attention that makes the model say the word, if one was found."""
        reached = [one for one in self.changes if one.moved is not None]
        return min(reached, key=lambda one: one.moved or 0.0, default=None)

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
            "changes": [one.to_json() for one in self.changes],
            "parts": self.parts,
            "notes": self.notes,
        }


def check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < 1:
        raise UserError(f"`epsilon` is a total variation: above 0 and below 1, not {epsilon:g}")


def doubt_prediction(subject: Subject, epsilon: float, notes: Sequence[str] = ()) -> Doubt:
    """Measure one prediction. Nothing is trained."""
    return finished(doubt_stages(subject, epsilon, notes))


def doubt_stages(
    subject: Subject, epsilon: float, notes: Sequence[str] = ()
) -> Generator[Stage, None, Doubt]:
    """Yield each stage before it begins, and return the measurements."""
    check_epsilon(epsilon)
    rows = _rows(subject)
    moved = yield from share_of(
        "the weights are moved as far as they can be", (0, 0.8), moving(subject, rows, epsilon)
    )
    sites = subject.model.sites()
    farthest = [
        on_words(subject, rows[name], weights).mean(0)
        for name, weights in moved[-1].weights.items()
        if sites[name].columns == subject.side
    ]
    moved_words = torch.stack(farthest).mean(0).tolist() if farthest else [0.0] * len(subject.names)
    yield Stage("the words are scored by other methods", 0.8)
    made = attributions(subject, rows)
    yield Stage("the scores are judged", 0.9)
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


def _rows(subject: Subject) -> dict[str, Row]:
    rows = attention_rows(subject)
    if not rows:
        raise UserError(
            "no head has more than one position to choose among at this prediction: give more words before it"
        )
    return rows


def changes_to_say(
    subject: Subject, tokenizer: Tokenizer, word: tuple[int, str], names: Mapping[Side, Sequence[str]]
) -> Iterator[LeastChange]:
    """Yield the least changes of attention that make the model say a word, or give a label."""
    with torch.no_grad():
        says = int(subject.log_probs()[0].argmax())
    if says == word[0]:
        raise UserError(f"the model says “{word[1]}” here already: `say` names another word")
    yield from least_changes(subject, _rows(subject), tokenizer, word, names)


def picture(doubt: Doubt) -> str:
    """Draw a row for each method, shaded by the row's largest score, or the image for each method.

    The first two rows are attention before and after the move.
    """
    rows = {"attention": doubt.attributions[0].scores, "attention, moved": doubt.moved_words}
    rows |= {one.method: one.scores for one in doubt.attributions[1:]}
    if doubt.image is not None:
        return panels(doubt.image, _by_region(doubt, rows), f"What mattered for “{doubt.target}”")
    scaled = [np.array(scores) / max(float(np.abs(scores).max()), 1e-12) for scores in rows.values()]
    title = f"What mattered for “{doubt.target}” (each row by its own largest; orange: against it)"
    return heat_map(np.stack(scaled), list(rows), doubt.words, title)


def _by_region(doubt: Doubt, rows: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    """Return the scores of every region in the grid. Scores below 0, and regions outside the image, get 0."""
    assert doubt.image is not None
    made = {}
    for name, scores in rows.items():
        made[name] = np.zeros(len(doubt.image.boxes))
        made[name][list(map(int, doubt.words))] = np.maximum(scores, 0)
    return made
