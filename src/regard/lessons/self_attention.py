"""Lessons about self-attention: every word attends to all words; and positions.

Shape legend: T positions, D width.
"""

import torch
from torch import Tensor

from regard.errors import UserError
from regard.lessons.attention import Matrix, as_row, scores_of, weights_of
from regard.lessons.drawing import Bars, Grid, Row
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.lessons.shipped import ids_of, shipped
from regard.models.transformer import Transformer
from regard.parts.attention import attend
from regard.parts.look import Look
from regard.parts.masks import everything
from regard.parts.positions import make_positions
from regard.parts.scores import Dot, ScaledDot

FIVE = (
    (0.75, 0.25, 0.0, 0.0, 0.0),
    (0.5, 0.5, 0.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.75, 0.25),
    (0.0, 0.0, 0.0, 0.0, 1.0),
)
PRIZE = "Nobel committee awards Strickland who advanced optics"
BLANK = "___"


def self_attention(
    sentence: str = "I love you a lot", weights: Matrix = FIVE, hidden: str = PRIZE
) -> list[Step]:
    """Every word attends to all words: without parameters, with projections, and in a trained reader."""
    words, count = sentence.split(), len(weights)
    need(len(weights[0]) == count, "the weights need as many columns as rows")
    if len(words) != count:
        raise UserError(f"the sentence has {len(words)} words and the weights {count} rows: give as many")
    return [_bare(words), _projected(words, weights), _reading(hidden)]


def _bare(words: list[str]) -> Step:
    """y_i = sum_j w_ij x_j, by a Transformer block without parameters."""
    torch.manual_seed(1)
    count = len(words)
    config = Transformer.Config(
        layers=1, width=4, heads=1, context=count, projections="none", positions="none"
    )
    model = Transformer(count, config).double().eval()
    x_TD = model.embedding.weight[:count].detach() * 20
    plain = attend(as_row(x_TD), as_row(x_TD), as_row(x_TD), score=Dot(), mask=everything)[0, 0]
    free = weights_of(x_TD, x_TD)
    equal = all(abs(free[i, j] - free[j, i]) < 1e-9 for i in range(count) for j in range(i))
    i, j = max(
        ((i, j) for i in range(count) for j in range(count)),
        key=lambda place: float(free[place] - free[place[::-1]]),
    )
    says = "Each row sums to 1. " + (
        "The matrix is symmetric here."
        if equal
        else f"The scores are symmetric, and the weights are not: '{words[i]}' gives '{words[j]}' "
        f"{free[i, j]:.3f}, and '{words[j]}' gives '{words[i]}' {free[j, i]:.3f}, because each row is "
        "divided by its own sum."
    )
    return Step(
        "Without parameters",
        "y_i = sum_j w_ij x_j,  w = row-wise softmax of x_i^T x_j",
        says,
        {"weights": numbers(free), "row sums": numbers(free.sum(1)), "y": numbers(plain)},
        Grid(numbers(free), words, words, "w: row i attends to column j"),
        latex=r"y_i = \sum_j w_{ij} x_j, \qquad w = \mathrm{softmax}_j(x_i^\top x_j)",
        intro="The weights come from the words' vectors alone (random here). A vector x_i has three roles: "
        "it is weighed in the outputs of others, it asks for its own weights, and it answers when others "
        "ask.",
        question=ask(
            "x_i . x_j equals x_j . x_i. Is w_ij equal to w_ji?",
            (
                "no" if not equal else "yes",
                "The softmax divides each row by its own sum, so equal scores become different weights."
                if not equal
                else "With these vectors all row sums are equal.",
            ),
            (
                "yes" if not equal else "no",
                "The scores are equal. The weights are scores after a softmax over the row."
                if not equal
                else "With these vectors all row sums are equal.",
            ),
        ),
    )


def _projected(words: list[str], weights: Matrix) -> Step:
    """Projections of one-hot words that give the wanted weights: q_i^T k_j = log w_ij."""
    count = len(words)
    x_TD = torch.eye(count, dtype=torch.float64)
    W_q, W_k, W_v = (
        scores_of(weights),
        torch.eye(count, dtype=torch.float64),
        torch.eye(count, dtype=torch.float64),
    )
    query_TD, key_TD, value_TD = x_TD @ W_q, x_TD @ W_k, x_TD @ W_v
    chosen = weights_of(query_TD, key_TD)
    mixed = attend(as_row(query_TD), as_row(key_TD), as_row(value_TD), score=Dot(), mask=everything)[0, 0]
    first = weights[0]
    parts = [f"{weight:g} {word}" for weight, word in zip(first, words, strict=True) if weight]
    most = max(range(count), key=lambda j: first[j])
    says = f"The new vector of '{words[0]}' is {' + '.join(parts)}: a word in its context."
    return Step(
        "With projections",
        "q_i = W_q x_i, k_i = W_k x_i, v_i = W_v x_i;  w_ij = softmax(q_i^T k_j);  y_i = sum_j w_ij v_j",
        f"{says} A weight of 0 comes from a score far below the others.",
        {
            "W_q": numbers(W_q),
            "W_k": numbers(W_k),
            "W_v": numbers(W_v),
            "lecture": numbers(chosen),
            "y": numbers(mixed),
        },
        Row(
            [
                Grid(numbers(W_q.clamp(min=-10)), words, words, "W_q; -10 stands for -10000", 2),
                Grid(numbers(chosen), words, words, "w"),
            ]
        ),
        latex=r"q_i = W_q x_i, \; k_i = W_k x_i, \; v_i = W_v x_i; \quad "
        r"w_{ij} = \mathrm{softmax}_j(q_i^\top k_j); \quad y_i = \sum_j w_{ij} v_j",
        intro="Three maps give each role its own vector. Here the words are one-hot, W_k = W_v = I, and W_q "
        "holds the logarithms of the wanted weights, so that the softmax gives them back.",
        question=ask(
            f"Which word has the largest share in the new vector of '{words[0]}'?",
            (words[most], f"Its weight is {first[most]:g}."),
            *(
                (word, f"Its weight is {first[j]:g}.")
                for j, word in enumerate(words)
                if first[j] < first[most]
            ),
        ),
    )


def _reading(sentence: str) -> Step:
    """One trained reader that sees all words, and one that sees only earlier ones, on the same sentence."""
    words = [BLANK, *sentence.split()[1:]]
    hidden = sentence.split()[0]
    maps, chances = {}, {}
    for name, causal in (("reader", False), ("causal-reader", True)):
        run = shipped(name)
        run.language_model.double().trunk.causal = causal  # type: ignore[union-attr]
        ids_1T = ids_of(run, sentence)[:, 1:]
        (token,) = run.tokenizer.prompt(hidden)
        look = Look(["layer0.attention"])
        with torch.no_grad():
            blank_1T = torch.cat([ids_1T.new_tensor([[run.language_model.start]]), ids_1T[:, 1:]], 1)
            prediction, _ = run.language_model.read_from_start(blank_1T, look=look)
        maps[name] = numbers(look.maps["layer0.attention"]()[0, 0])
        chances[name] = float(prediction.log_probs().detach()[0, 0, token].exp())
    row = maps["reader"][0]
    best = max(range(len(words)), key=lambda place: row[place])
    return Step(
        "A trained reader",
        "row 1 without a mask: all words;  with the causal mask: itself alone",
        f"Without a mask, {BLANK} gives '{words[best]}' {row[best]:.3f} of its weight, and P({hidden}) = "
        f"{chances['reader']:.3f}. With the causal mask the first word sees only itself: its weight is "
        f"{maps['causal-reader'][0][0]:g}, and P({hidden}) = {chances['causal-reader']:.3f}, one guess "
        "among three prizes. A recurrent model is in the same place: its state at the first word knows "
        "the first word only.",
        {
            "P without a mask": chances["reader"],
            "P with a mask": chances["causal-reader"],
            "reader": maps["reader"],
            "causal reader": maps["causal-reader"],
        },
        Row(
            [
                Grid(maps["reader"], words, words, "without a mask", 2),
                Grid(maps["causal-reader"], words, words, "causal", 2),
            ]
        ),
        latex=r"w_{1\cdot} \in \mathbb{R}^n \text{ without a mask}, \qquad w_{1\cdot} = [1, 0, \ldots, 0] "
        r"\text{ causal}",
        intro=f"Two Transformers of one layer, trained for seconds on sentences such as '{sentence}'. The "
        "first word is hidden. The field at the end decides which prize it is.",
        question=ask(
            f"Where does {BLANK} look, in the reader without a mask?",
            (words[best], f"It has {row[best]:.3f} of the weight: the word that decides the hidden one."),
            (
                words[0] if best else words[1],
                "Its own place is blank and holds no information."
                if best
                else f"It has {row[1]:.3f} of the weight.",
            ),
            (words[3], f"The winner's name says nothing about the prize here: {row[3]:.3f}."),
        ),
    )


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
