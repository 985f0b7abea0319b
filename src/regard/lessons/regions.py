"""The lesson about captions: a region weighted for each word, beside one vector for the whole image.

Shape legend: Q words, K regions, V features.
"""

import torch
from torch import Tensor

from regard.lessons.drawing import Grid
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, listed, numbers
from regard.lessons.question import ask
from regard.parts.attention import mix, weigh
from regard.parts.masks import everything
from regard.parts.scores import Dot

SHAPES = ("red circle", "blue square")


def regions(shapes: tuple[str, ...] = SHAPES, sharpness: float = 3.0) -> list[Step]:
    """A caption weighs regions for each word. One vector for the image loses which colour has which shape."""
    need(2 <= len(shapes) <= 6, "give two to six shapes, one for each region")
    named = [shape.split() for shape in shapes]
    need(all(len(words) == 2 for words in named), "a shape is a colour and a name, such as red circle")
    colours, names = [words[0] for words in named], [words[1] for words in named]
    features = [*dict.fromkeys(colours), *dict.fromkeys(names)]
    need(len(features) == len({*colours}) + len({*names}), "no word can be a colour and a name")
    value_KV, places = _values(named, features), [f"region {k}" for k in range(len(named))]
    return [
        Step(
            "Regions as vectors",
            "H_k = [colour; shape] of region k",
            f"Each region holds what is there: {listed(list(shapes))}, from left to right.",
            {"H": numbers(value_KV)},
            Grid(numbers(value_KV), places, features, digits=0),
            latex=r"H_k = [\text{colour}; \text{shape}]",
            intro="A convolution turns each part of an image into a vector. Here a feature is 1 if the "
            "region has this colour or this shape.",
        ),
        _one_vector(named, features, value_KV),
        _each_word(named, features, value_KV, sharpness),
        _moved(named, features, value_KV, sharpness),
    ]


def _values(named: list[list[str]], features: list[str]) -> Tensor:
    """(K, V): 1 for the colour and the shape of each region."""
    return torch.tensor([[float(feature in words) for feature in features] for words in named]).double()


def _one_vector(named: list[list[str]], features: list[str], value_KV: Tensor) -> Step:
    names = [name for _, name in named]
    colours = [colour for colour, _ in named]
    swapped = [list(pair) for pair in zip([*colours[1:], colours[0]], names, strict=True)]
    average_V, other_V = value_KV.mean(0), _values(swapped, features).mean(0)
    scene, other = (listed([f"a {' '.join(words)}" for words in each]) for each in (named, swapped))
    return Step(
        "One vector for the image",
        "c = 1/K sum_k H_k",
        f"The average of {scene} is also the average of {other}. The vector says which colours and which "
        "shapes there are, and not which belong together.",
        {"average": numbers(average_V), "average of the other scene": numbers(other_V)},
        Grid([numbers(average_V), numbers(other_V)], ["this scene", "the other"], features),
        latex=r"c = \frac{1}{K} \sum_k H_k",
        intro="A translator without attention has one vector for the sentence. The same for an image is the "
        f"average of its regions. The other scene is {other}: the same shapes, and the colours have moved.",
        question=ask(
            "How far apart are the averages of the two scenes?",
            ("0", "Each colour and each shape occurs as often in both scenes."),
            ("1", "An average has no place for the pairs: it counts colours and shapes on their own."),
        ),
    )


def _weights(rows: list[int], regions_: int, sharpness: float) -> Tensor:
    """(Q, K): the weights of queries that ask for these regions. Keys are the places of the regions."""
    key_KK = torch.eye(regions_).double()
    query_QK = sharpness * key_KK[rows]
    return weigh(query_QK[None, None], key_KK[None, None], score=Dot(), mask=everything)[0, 0]


def _read(context_V: Tensor, features: list[str], among: list[str]) -> str:
    """Return the word whose feature is the largest."""
    return max(among, key=lambda word: float(context_V[features.index(word)]))


def _caption(named: list[list[str]], features: list[str], context_QV: Tensor) -> list[str]:
    """Return the colour and the name that are read at each step."""
    colours, names = [colour for colour, _ in named], [name for _, name in named]
    return [_read(row_V, features, (colours, names)[step % 2]) for step, row_V in enumerate(context_QV)]


def _each_word(named: list[list[str]], features: list[str], value_KV: Tensor, sharpness: float) -> Step:
    steps = [word for words in named for word in words]
    weights_QK = _weights([step // 2 for step in range(len(steps))], len(named), sharpness)
    said = _caption(named, features, mix(weights_QK[None, None], value_KV[None, None])[0, 0])
    right = float(weights_QK[0, 0])
    verdict = "The caption is right." if said == steps else "The weights are too flat for this scene."
    return Step(
        "A region weighted for each word",
        "a_qk = softmax_k(s_q . k_k);  c_q = sum_k a_qk H_k",
        f"Each word gives its own region {right:.4g} of the weight, and reads: {', '.join(said)}. {verdict}",
        {"weights": numbers(weights_QK), "said": said, "right": right},
        Grid(numbers(weights_QK), steps, [f"region {k}" for k in range(len(named))]),
        latex=r"a_{qk} = \operatorname{softmax}_k(s_q \cdot k_k), \quad c_q = \sum_k a_{qk} H_k",
        intro="The decoder's state asks for a place, and the key of a region is its place. The query of a "
        f"word is {sharpness:g} at the place of its shape. Each shape has two words, a colour and a name.",
        question=ask(
            f"How much of the weight lies on the right one of {len(named)} regions?",
            (f"{right:.3f}", f"e^{sharpness:g} / (e^{sharpness:g} + {len(named) - 1})"),
            (f"{1 / len(named):.3f}", "That would be an average: the scores differ."),
            ("1.000", "A softmax gives every region some weight."),
        ),
    )


def _moved(named: list[list[str]], features: list[str], value_KV: Tensor, sharpness: float) -> Step:
    rows = [step // 2 for step in range(2 * len(named))]
    rows[0] = len(named) - 1  # the first colour looks at the last region
    context_QV = mix(_weights(rows, len(named), sharpness)[None, None], value_KV[None, None])[0, 0]
    said = _caption(named, features, context_QV)
    return Step(
        "Move the weight, and the caption changes",
        "a_0 = the weights of the last region",
        f"Now the caption is: {', '.join(said)}. Only the colour has changed, because only its weights have. "
        "regard caption RUN IMAGE --edit does the same in a trained captioner.",
        {"moved": said},
        latex=r"a_0 = a_{\text{last}}",
        intro="The first colour word now looks at the last region. All other words look where they did.",
    )
