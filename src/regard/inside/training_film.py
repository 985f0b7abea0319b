"""The figures of attention heads at every kept step of a training."""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from regard.errors import UserError
from regard.inside.attention_rows import weight_sites
from regard.inside.head_scores import KINDS, Head, head_report
from regard.models.model import Model
from regard.probabilities.attention_links import attention_error_rate
from regard.runs.run import Run
from regard.tables import Table, TableRows
from regard.text.files import Source
from regard.training.film import frames
from regard.training.log import METRICS


@dataclass(frozen=True)
class Frame:
    """The figures at one step."""

    step: int
    loss: float | None  # on the validation text, or on the training text without one; None before training
    alignment_error: float | None  # of the best head; None unless the gold links are known
    heads: list[Head]

    def to_json(self) -> dict[str, Any]:
        heads = [head.to_json() for head in self.heads]
        own = {"step": self.step, "loss": self.loss, "alignment_error": self.alignment_error}
        return {**own, "heads": heads}


@dataclass(frozen=True)
class TrainingFilm(Table):
    """The figures at every kept step of a training."""

    frames: list[Frame]
    notes: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        """The kinds of scores that the heads of this run have, in the order of their definitions."""
        heads = self.frames[-1].heads
        return [kind for kind in KINDS if any(kind in head.scores for head in heads)]

    def to_json(self) -> dict[str, Any]:
        return {"frames": [frame.to_json() for frame in self.frames], "notes": self.notes}

    def rows(self) -> TableRows:
        """A row for each step and head, with the label, the entropy and the scores."""
        return [
            {"step": frame.step, "site": head.site, "head": head.name}
            | {"label": head.label, "entropy": head.entropy}
            | {kind: score.value for kind, score in head.scores.items()}
            for frame in self.frames
            for head in frame.heads
        ]


def training_film(run: Run, text: Sequence[Source] = ()) -> TrainingFilm:
    """Measure the heads at every kept step, as `regard heads` does, on the same text."""
    weight_sites(run.language_model, "to film")
    kept = [] if run.folder is None else frames(run.folder)
    if not kept or run.folder is None:
        raise UserError(f"{run}: its training kept no film; train it with `film`")
    losses = _losses(run.folder)
    model, made, notes = copy.deepcopy(run.language_model), list[Frame](), list[str]()
    for step, path in kept:
        load_frame(model, path)
        then = replace(run, model=model.eval())
        report = head_report(then, text)
        made.append(Frame(step, losses.get(step), _alignment_error(then), report.heads))
        notes = report.notes
    return TrainingFilm(made, notes)


def load_frame(model: Model, path: Path) -> None:
    """Load the weights of a frame. A damaged frame is refused, because a film with a gap would mislead."""
    try:
        model.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError):
        raise UserError(f"{path}: is damaged; remove it, and the film is shown without this step") from None


def _losses(folder: Path) -> dict[int, float]:
    """Return the loss at each validation."""
    try:
        rows = [json.loads(line) for line in (folder / METRICS).read_text("utf-8").splitlines()]
        return {
            row["step"]: row["train_loss"] if row["valid_loss"] is None else row["valid_loss"] for row in rows
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _alignment_error(run: Run) -> float | None:
    if run.language_model.given is None or not run.config.texts.valid:
        return None
    try:
        encoded, pairs = run.encode_pairs(run.held_out_pairs())
    except (UserError, OSError):  # the pairs are gone; the notes of the report say so
        return None
    return attention_error_rate(run.language_model, *run.both_tokenizers(), encoded, pairs)
