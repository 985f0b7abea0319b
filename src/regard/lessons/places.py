"""The lesson about positions: self-attention maps sets to sets, so the order must be told.

Shape legend: T positions, D width.
"""

import torch
from torch import Tensor

from regard.lessons.drawing import Bars, Curves, Grid, Row
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.parts.attention import attend
from regard.parts.masks import everything
from regard.parts.positions import make_positions, sinusoids
from regard.parts.scores import ScaledDot

MANY, FEATURES = 40, 32  # positions and features of the picture of sines


def positions(first: str = "Jack gave water to Jill", second: str = "Jill gave water to Jack") -> list[Step]:
    """Self-attention maps sets to sets: without positions, two orders of the same words look the same."""
    words_1, words_2 = first.split(), second.split()
    vocabulary = sorted(set(words_1 + words_2))
    need(
        sorted(words_1) == sorted(words_2) and words_1 != words_2 and len(words_1) <= 16,
        "give two sentences of the same words in another order, at most 16",
    )
    torch.manual_seed(1)
    embedding_VD = torch.randn(len(vocabulary), 8, dtype=torch.float64)
    differences = {}
    for name in KINDS:
        with torch.no_grad():
            outputs = [
                _placed(name, torch.stack([embedding_VD[vocabulary.index(word)] for word in words]))
                for words in (words_1, words_2)
            ]
        differences[name] = max(float((row - outputs[1]).abs().amax(1).min()) for row in outputs[0])
    none = differences["none"]
    return [
        Step(
            "Two sentences of the same words",
            "{x_1, ..., x_n} -> {y_1, ..., y_n}",
            f"Without positions the outputs of both sentences are the same set (difference {none:.1e}): "
            "self-attention cannot tell who gave and who got.",
            {"words": len(vocabulary), "difference with none": none},
            latex=r"\{x_1, \ldots, x_n\} \to \{y_1, \ldots, y_n\}",
            intro=f"{first} / {second}",
            question=ask(
                "Does self-attention without positions tell the two sentences apart?",
                ("no", "Every word sees the same set of words in both, so it gets the same new vector."),
                ("yes", "The order enters nowhere: w_ij depends on the vectors of the words i and j only."),
            ),
        ),
        *(_encoded(name, words_1, difference) for name, difference in differences.items() if name != "none"),
        _many_sines(),
        Step(
            "All encodings beside each other",
            "the largest distance of an output to the nearest output of the other sentence",
            "Every encoding makes the two sentences different. Which one is best is a matter of "
            "measurement: see `--positions` of regard train transformer.",
            {},
            Bars(list(differences.values()), list(differences)),
        ),
    ]


KINDS = {
    "none": ("", ""),
    "index": ("[x_t; t]", r"[x_t; t]"),
    "onehot": ("[x_t; (0, ..., 1, ..., 0)]", r"[x_t; e_t]"),
    "sinusoidal": (
        "x_t + [sin(w_1 t), cos(w_1 t), sin(w_2 t), ...]",
        r"x_t + [\sin(\omega_1 t), \cos(\omega_1 t), \ldots]",
    ),
    "learned": ("x_t + p_t", r"x_t + p_t"),
    "rotary": ("q_t and k_t, turned by angles w_i t", r"R(\omega t)\, q_t, \; R(\omega t)\, k_t"),
}
ABOUT = {
    "index": "The number of the word is appended to its vector.",
    "onehot": "A one-hot vector of the position is appended.",
    "sinusoidal": "Sines and cosines of several frequencies are added.",
    "learned": "Each position has a vector of its own, which is learned (random here).",
    "rotary": "Queries and keys are rotated by angles that grow with the position, so that their product "
    "depends on the distance. The picture shows the angles.",
}


def _encoded(name: str, words: list[str], difference: float) -> Step:
    formula, latex = KINDS[name]
    says = f"The outputs of the two sentences now differ by {difference:.3g}: the model sees the order."
    return Step(
        f"positions: {name}",
        formula,
        says,
        {f"difference with {name}": difference},
        _picture(name, words),
        latex,
        ABOUT[name],
    )


def _picture(name: str, words: list[str]) -> Grid:
    """Draw the vectors that positions add or append, or the angles by which they rotate."""
    torch.manual_seed(2)
    kind = make_positions(name, 16, 8, 1).double()  # type: ignore[arg-type]
    position_BT = torch.arange(len(words))[None]
    angles = kind.angles(position_BT)
    nothing_BTD = torch.zeros(1, len(words), 8, dtype=torch.float64)
    with torch.no_grad():
        drawn = (
            kind.place(nothing_BTD, position_BT)[0]
            if angles is None
            else torch.atan2(angles[1], angles[0]).reshape(len(words), -1)
        )
    if name in ("index", "onehot"):
        drawn = drawn[:, 8:]
    columns = [str(number) for number in range(drawn.shape[1])]
    return Grid(numbers(drawn), words, columns, digits=2)


def _placed(name: str, x_TD: Tensor) -> Tensor:
    """Unmasked self-attention without parameters over words with positions."""
    torch.manual_seed(2)
    kind = make_positions(name, 16, x_TD.shape[1], 1).double()  # type: ignore[arg-type]
    position_BT = torch.arange(len(x_TD))[None]
    placed = kind.place(x_TD[None], position_BT)
    turned = kind.turn(placed[:, None], kind.angles(position_BT))
    return attend(turned, turned, placed[:, None], score=ScaledDot(), mask=everything)[0, 0]


def _many_sines() -> Step:
    """The sinusoidal encoding of many positions, and the products of its rows."""
    code_TD = sinusoids(torch.arange(MANY, dtype=torch.float64)[None], FEATURES)[0]
    product_TT = code_TD @ code_TD.T
    by_distance = {
        start: [(float(k), float(product_TT[start, start + k])) for k in range(MANY // 2)]
        for start in (0, MANY // 2)
    }
    first, second = by_distance.values()
    difference = max(abs(a - b) for (_, a), (_, b) in zip(first, second, strict=True))
    return Step(
        "Sines, drawn for many positions",
        "p_t = [sin(w_1 t), cos(w_1 t), ...],  w_i = 10000^(-2i / d);  p_t . p_{t+k} = sum_i cos(w_i k)",
        f"p_t . p_t+k is the same from t = 0 and from t = {MANY // 2} (they differ by at most "
        f"{difference:.0e}): the product of two codes tells their distance, wherever they stand. It falls "
        f"from "
        f"{first[0][1]:.3g} at k = 0 to {first[1][1]:.3g} at 1 and {first[8][1]:.3g} at 8.",
        {
            "largest difference from another start": difference,
            "product at distance": [value for _, value in first],
        },
        Row(
            [
                Grid(
                    numbers(code_TD),
                    [str(t) for t in range(MANY)],
                    [str(d) for d in range(FEATURES)],
                    f"p_t: a row for each position, {FEATURES} features (blue above 0, orange below)",
                ),
                Curves({"p_t . p_t+k": first}, "distance k", "product", "product of two codes"),
            ]
        ),
        latex=r"p_t \cdot p_{t+k} = \sum_i \cos(\omega_i k), \qquad \omega_i = 10000^{-2i/d}",
        intro="The first features turn fast and tell neighbours apart; the last turn slowly and tell "
        "the beginning of a long text from its end, like the hands of a clock.",
        question=ask(
            "Does p_3 . p_7 differ from p_20 . p_24?",
            ("no", "Both are 4 apart, and the product depends on the distance alone."),
            ("yes", "sin a sin b + cos a cos b = cos(a - b): only the distance is left."),
        ),
    )
