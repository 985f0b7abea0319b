"""The small trained runs inside the package, which bench/lesson_runs.py makes."""

from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import Prediction
from regard.parts.look import Look
from regard.runs.formats import load
from regard.runs.run import Run


def shipped(name: str) -> Run:
    """Load one of the runs of the lessons. `regard look` and every other verb take its path, too."""
    return load(path_of(name))


def path_of(name: str) -> Path:
    return Path(str(files("regard.lessons"))) / "runs" / name


def ids_of(run: Run, text: str) -> Tensor:
    """(1, T): a start mark and the words of a text, all of them known to the run."""
    words = text.split()
    known = {run.tokenizer.name(token) for token in range(run.tokenizer.size)}
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        told = ", ".join(sorted(word for word in known if not word.startswith("<") and word.strip()))
        raise UserError(
            f"the run does not know {' '.join(unknown) or 'an empty text'}; its words are: {told}"
        )
    return torch.tensor([[run.language_model.start, *run.tokenizer.prompt(text)]])


@torch.no_grad()
def watched(run: Run, ids_1T: Tensor, *sites: str) -> tuple[Prediction, Look]:
    """Read a text and watch sites of the model, in float64."""
    look = Look(sites)
    prediction, _ = run.language_model.double().read_from_start(ids_1T, look=look)
    return prediction, look


def likeliest(run: Run, prediction: Prediction, count: int = 5) -> list[tuple[str, float]]:
    """Return the likeliest next words after the whole text, with their probabilities."""
    best = prediction.log_probs()[0, -1].exp().topk(count)
    return [
        (run.tokenizer.name(token), p)
        for token, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
