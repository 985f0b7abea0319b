"""The lesson about word embeddings: a narrow layer tells words apart, and neighbours say which are alike.

Shape legend: W words of the lesson, D width.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.lessons.lesson import Step, grid, need, numbers
from regard.machine.device import choose_machine
from regard.models.embedding import Embedding
from regard.probabilities.neighbours import reconstructed
from regard.training.loop import descend
from regard.training.options import read_options
from regard.training.task import ignore_reports
from regard.training.tasks import make_task

ANIMALS, VEHICLES = ("cat", "dog", "cow"), ("car", "bus", "van")
FRAMES = ("the {} drinks cold milk now", "the {} drives along wide roads today")
REPEATS = 20  # of each sentence
DEFAULTS = {"cutoff": 1, "hold": 0.0, "document": "line", "subsample": 0.0, "learning_rate": 0.1}


def embedding(
    animals: tuple[str, ...] = ANIMALS,
    vehicles: tuple[str, ...] = VEHICLES,
    width: int = 4,
    rounds: int = 300,
) -> list[Step]:
    """A word in, a narrow layer, the word out: words get vectors, but no meaning. Neighbours give it."""
    words = [*animals, *vehicles]
    need(min(len(animals), len(vehicles)) > 1, "give two words or more of each kind")
    need(len(set(words)) == len(words), "a word stands there twice: give different words")
    need(not any(word.split() != [word] for word in words), "a word has no blanks")
    need(1 < width < len(words), f"the layer is narrow: width lies between 2 and {len(words) - 1}")
    share, least = width / len(words), 1 - width / len(words)
    one_hot_WW = torch.eye(len(words))
    return [
        Step(
            "One-hot words",
            "x_w = 1 at the place of w, otherwise 0;  cos(x_v, x_w) = 0",
            "All words are equally far from each other.",
            _likeness(one_hot_WW, len(animals)),
            grid(numbers(one_hot_WW), words, words),
        ),
        _one_hot(
            words,
            len(animals),
            {"kind": "one-hot", "loss": "cross-entropy", "width": width, "epochs": rounds},
            "The bottleneck, with cross-entropy",
            "h = E x,  y = U h,  loss = -log softmax(y)_w",
            f"A layer of {width} numbers tells the {len(words)} words apart.",
        ),
        _one_hot(
            words,
            len(animals),
            {"kind": "one-hot", "loss": "l2", "width": width, "epochs": rounds},
            "The bottleneck, with the l2 norm",
            f"loss = || x - y ||,  on average at least 1 - D / V = {least:.3g}",
            f"A layer of {width} numbers keeps {share:.0%} of what {len(words)} directions hold.",
        ),
        _neighbours(animals, vehicles, width, rounds),
    ]


def _one_hot(
    words: list[str], first: int, options: dict[str, Any], title: str, formula: str, says: str
) -> Step:
    model, ids_W = _trained("\n".join(words), words, options)
    loss, right = reconstructed(model, ids_W)
    cosine_WW = _cosines(model, ids_W)
    return Step(
        title,
        formula,
        f"{says} Nothing tells it which words are alike.",
        {"loss": loss, "right": right, **_likeness(cosine_WW, first)},
        grid(numbers(cosine_WW), words, words),
    )


def _neighbours(animals: tuple[str, ...], vehicles: tuple[str, ...], width: int, rounds: int) -> Step:
    lines = [
        frame.format(word) for frame, kind in zip(FRAMES, (animals, vehicles), strict=True) for word in kind
    ]
    words = [*animals, *vehicles]
    model, ids_W = _trained(
        "\n".join(lines * REPEATS), words, {"width": width, "epochs": max(1, rounds // 6)}
    )
    cosine_WW = _cosines(model, ids_W)
    return Step(
        "Neighbours (skip-gram)",
        "loss = sum over neighbours c of -log s(x_w . y_c) - sum over samples n of log s(-x_w . y_n)",
        f"{animals[0]!r} and {animals[1]!r} never stand together, but they have the same neighbours.",
        _likeness(cosine_WW, len(animals)),
        grid(numbers(cosine_WW), words, words),
    )


def _trained(text: str, words: list[str], given: dict[str, Any]) -> tuple[Embedding, Tensor]:
    """Train an embedding on a text. Return it, and the tokens of the words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_text(f"{text}\n", encoding="utf-8")
        options = read_options(Embedding, {**DEFAULTS, "text": str(path), "evaluate_every": 1 << 30, **given})
        task = make_task(Embedding, options)
        torch.manual_seed(1)
        model = task.make(Embedding, options.model)
        assert options.training is not None
        descend(model, task, options.training, 1, Path(folder), choose_machine("fp32"), ignore_reports)
    ids = [token for word in words for token in task.tokenizer.prompt(word)]
    return model.cpu().eval(), torch.tensor(ids)


@torch.no_grad()
def _cosines(model: Embedding, ids_W: Tensor) -> Tensor:
    unit_WD = normalize(model.embedding.weight[ids_W], dim=1)
    return unit_WD @ unit_WD.T


def _likeness(cosine_WW: Tensor, first: int) -> dict[str, float]:
    """Return the mean cosines of two words of one kind, and of two words of different kinds."""
    kind_W = torch.arange(len(cosine_WW)) < first
    same_WW = kind_W.unsqueeze(1) == kind_W
    other_WW = ~torch.eye(len(cosine_WW), dtype=torch.bool)
    return {
        "same kind": float(cosine_WW[same_WW & other_WW].mean()),
        "other kind": float(cosine_WW[~same_WW].mean()),
    }
