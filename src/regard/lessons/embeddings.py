"""The lesson about word embeddings: a narrow layer tells words apart, and neighbours say which are alike.

Shape legend: W words of the lesson, D width.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.lessons.drawing import Grid
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.machine.device import choose_machine
from regard.models.embedding import Embedding
from regard.probabilities.neighbours import reconstructed
from regard.training.loop import descend
from regard.training.options import TrainingOptions, read_options
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
    options = {"kind": "one-hot", "width": width, "epochs": rounds}
    crossed = _one_hot(words, len(animals), {**options, "loss": "cross-entropy"})
    squared = _one_hot(words, len(animals), {**options, "loss": "l2"})
    return [
        _alone(words, len(animals)),
        _cross_entropy(words, width, *crossed),
        _l2(words, width, *squared),
        _neighbours(animals, vehicles, width, rounds),
    ]


def _alone(words: list[str], first: int) -> Step:
    one_hot_WW = torch.eye(len(words))
    return Step(
        "One-hot words",
        "x_w = 1 at the place of w, otherwise 0;  cos(x_v, x_w) = 0",
        "All words are equally far from each other: the mean cosine is 0 within a kind (animals, vehicles) "
        "and between the kinds.",
        _likeness(one_hot_WW, first),
        Grid(numbers(one_hot_WW), words, words, "cosine of each pair"),
        latex=r"x_w = e_w, \quad \cos(x_v, x_w) = 0 \text{ for } v \neq w",
        intro=f"A vocabulary of {len(words)} words. Each word is a vector with a single 1. The picture has "
        "the cosine of each pair: 1 for the same direction, 0 for vectors that share nothing.",
        question=ask(
            f"Which word is nearest to {words[0]!r}?",
            ("none", "The cosine of two different one-hot words is 0."),
            (words[1], "The numbers do not know that both are of one kind."),
        ),
    )


def _cross_entropy(words: list[str], width: int, cosine_WW: Tensor, values: dict[str, float]) -> Step:
    told = f"{values['right']:.0%} of the {len(words)} words"
    return Step(
        "The bottleneck, with cross-entropy",
        "h = E x,  y = U h,  loss = -log softmax(y)_w",
        f"The largest output is the word itself for {told}. Two words of one kind have a mean cosine of "
        f"{values['same kind']:.2f}, two of different kinds {values['other kind']:.2f}: nothing says which "
        "words are alike.",
        values,
        Grid(numbers(cosine_WW), words, words, "cosines"),
        latex=r"h = E x, \quad y = U h, \quad \ell = -\log \mathrm{softmax}(y)_w",
        intro=f"A word in, a layer of {width} numbers, the same word out. The columns of E are the word "
        "vectors.",
        question=ask(
            f"Does a layer of {width} numbers tell {len(words)} words apart?",
            ("yes", "Directions between the axes hold more words than there are axes."),
            (f"only {width} of them", "One word for each axis would be so; but a vector may point anywhere."),
        )
        if values["right"] == 1
        else None,
    )


def _l2(words: list[str], width: int, cosine_WW: Tensor, values: dict[str, float]) -> Step:
    least, told = 1 - width / len(words), f"{values['right']:.0%} of the {len(words)} words"
    return Step(
        "The bottleneck, with the l2 norm",
        "loss = || x - y ||,  on average at least 1 - D / V",
        f"The mean loss is {values['loss']:.3f}; the bound is {least:.3f}. The largest output is the word "
        f"itself for {told}. A product of two narrow matrices is no identity: what it gives up is lost.",
        {**values, "bound": least},
        Grid(numbers(cosine_WW), words, words, "cosines"),
        latex=r"\ell = \lVert x - y \rVert_2, \quad \frac{1}{V} \sum_w \ell_w \ge 1 - \frac{D}{V}",
        intro="The lecture's other loss is the distance between input and output. The matrix U E has rank "
        f"{width}, and the identity has rank {len(words)}: the norms of the columns of their difference "
        f"add up to {len(words)} - {width} or more.",
        question=ask(
            "What is the least mean loss?",
            (f"{least:.3f}", f"({len(words)} - {width}) / {len(words)}."),
            ("0.000", f"Rank {width} cannot be the identity of {len(words)} words."),
        ),
    )


def _one_hot(words: list[str], first: int, options: dict[str, Any]) -> tuple[Tensor, dict[str, float]]:
    """Train a one-hot network. Return the cosines of its words, its loss, and the share of right words."""
    model, ids_W = _trained("\n".join(words), words, options)
    loss, right = reconstructed(model, ids_W)
    cosine_WW = _cosines(model, ids_W)
    return cosine_WW, {"loss": loss, "right": right, **_likeness(cosine_WW, first)}


def _neighbours(animals: tuple[str, ...], vehicles: tuple[str, ...], width: int, rounds: int) -> Step:
    pairs = zip(FRAMES, (animals, vehicles), strict=True)
    lines = [frame.format(word) for frame, kind in pairs for word in kind]
    words = [*animals, *vehicles]
    options = {"width": width, "epochs": max(1, rounds // 6)}
    model, ids_W = _trained("\n".join(lines * REPEATS), words, options)
    cosine_WW = _cosines(model, ids_W)
    values = _likeness(cosine_WW, len(animals))
    return Step(
        "Neighbours (skip-gram)",
        "loss = sum over neighbours c of -log s(x_w . y_c) - sum over samples n of log s(-x_w . y_n),  s: "
        "sigmoid",
        f"Two words of one kind have a mean cosine of {values['same kind']:.2f}, two of different kinds "
        f"{values['other kind']:.2f}.",
        values,
        Grid(numbers(cosine_WW), words, words, "cosines"),
        latex=r"\ell = -\sum_c \Big( \log \sigma(x_w \cdot y_c) + \sum_n \log \sigma(-x_w \cdot y_n) \Big)",
        intro=f"Now a word predicts its neighbours, in sentences such as '{lines[0]}' and '{lines[-1]}'. "
        f"{animals[0]!r} and {animals[1]!r} never stand together, but they have the same neighbours.",
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
        assert isinstance(options.training, TrainingOptions)
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
