"""Lessons about attention: scores, softmax, output; four score functions; self-attention; masks; positions.

Shape legend: T positions, D width, Q queries, K keys.
"""

import math

import torch
from torch import Tensor

from regard.errors import UserError
from regard.lessons.lesson import Step, grid, need, numbers, shaded
from regard.models.dan import Dan
from regard.models.predictions import SoftmaxPrediction
from regard.models.transformer import Transformer
from regard.parts.attention import attend, softmax, softmax_base, weigh
from regard.parts.look import Look
from regard.parts.masks import Mask, causal, everything
from regard.parts.positions import make_positions
from regard.parts.scores import Dot, ScaledDot, Score, ScoreName, make_score

FAR_BELOW = -1e4  # a score whose softmax is 0


def _row(vectors: Tensor | tuple) -> Tensor:
    return torch.as_tensor(vectors, dtype=torch.float64)[None, None]


def _weigh(
    query_QD: Tensor,
    key_KD: Tensor,
    mask: Mask = everything,
    base: float = math.e,
    score: Score | None = None,
) -> Tensor:
    return weigh(_row(query_QD), _row(key_KD), score=score or Dot(), mask=mask, normalise=softmax_base(base))[
        0, 0
    ]


def average_of(sequence: str, embedding_VD: Tensor) -> Tensor:
    """Return the average of the letters' embeddings, computed by a deep averaging network."""
    dan = (
        Dan(len(embedding_VD), Dan.Config(lookback=0, layers=1, width=embedding_VD.shape[1])).double().eval()
    )
    with torch.no_grad():
        dan.embedding.weight[: len(embedding_VD)] = embedding_VD
        look = Look(["average"])
        dan.read_from_start(torch.tensor([letters(sequence)]), look=look)
    return look.values["average"][0, -1]


def letters(sequence: str) -> list[int]:
    if not sequence or set(sequence) - set("AB"):
        raise UserError(f"the sequence is made of A and B, not {sequence!r}")
    return ["AB".index(letter) for letter in sequence]


def attention(sequence: str = "AABA", q: tuple[float, ...] = (0.0, 1.0), base: float = 3.0) -> list[Step]:
    """Attention finds a B at any position: scores, softmax and output, beside the plain average."""
    need(len(q) == 2, f"q needs 2 numbers, one for A and one for B; it has {len(q)}")
    need(base > 0, "the base of a softmax is above 0")
    embedding_VD = torch.eye(2, dtype=torch.float64)  # k_A = [1, 0], k_B = [0, 1]
    key_KD, query_QD = embedding_VD[letters(sequence)], torch.tensor([q], dtype=torch.float64)
    sharp_QD = embedding_VD[1:] @ (10 * torch.eye(2, dtype=torch.float64))  # W^Q = 10 I applied to e_B
    steps = [
        Step(
            "Scores",
            "s_i = k_i . q",
            "The dot product of each letter's key with the query.",
            {"scores": numbers(Dot()(_row(query_QD), _row(key_KD))[0, 0, 0])},
        )
    ]
    for name, number in ((f"base {base:g}", base), ("base e", math.e)):
        weights_QK = _weigh(query_QD, key_KD, base=number)
        steps.append(
            Step(
                f"Softmax and output, {name}",
                f"a_i = b^s_i / sum_j b^s_j, b = {number:g};  output = sum_i a_i e_i",
                "",
                {
                    f"weights in {name}": numbers(weights_QK[0]),
                    f"output in {name}": numbers((weights_QK @ key_KD)[0]),
                },
                grid(numbers(weights_QK), ["q"], list(sequence)),
            )
        )
    sharp = attend(_row(sharp_QD), _row(key_KD), _row(key_KD), score=Dot(), mask=everything)[0, 0, 0]
    return [
        *steps,
        Step(
            "A sharper query",
            "W^K = I, W^Q = 10 I, e_B = [0, 1]: q = [0, 10]",
            "Nearly all the weight is on the B.",
            {"output of a sharp query": numbers(sharp)},
        ),
        Step(
            "Beside the average",
            "1/n sum_i e_i",
            "The deep averaging network gives all letters the same weight. Attention gives the B more.",
            {"average": numbers(average_of(sequence, embedding_VD))},
        ),
    ]


def scores(
    q: tuple[float, ...] = (1.0, 2.0),
    k: tuple[float, ...] = (3.0, -1.0),
    widths: tuple[float, ...] = (2.0, 8.0, 32.0, 128.0, 512.0),
) -> list[Step]:
    """Four score functions on the same vectors, and why the dot product is scaled."""
    need(len(q) == len(k), f"q and k need as many numbers; they have {len(q)} and {len(k)}")
    need(min(widths) >= 1, "widths are 1 or more")
    torch.manual_seed(1)
    values = {}
    names: tuple[ScoreName, ...] = ("additive", "bilinear", "dot", "scaled-dot")
    for name in names:
        score = make_score(name, len(q), len(k)).double().requires_grad_(False)
        values[name] = (score.formula, float(score(_row((q,)), _row((k,)))))
    measured = [_spread(int(width)) for width in widths]
    return [
        Step(
            "The same two vectors",
            "; ".join(f"{name}: {formula}" for name, (formula, _) in values.items()),
            "The first two have learned weights, which are random here. Bahdanau's score is the additive "
            "score, Vaswani's is the scaled dot product.",
            {name: value for name, (_, value) in values.items()},
        ),
        Step(
            "Why scale",
            "q . k of d numbers of spread 1 has spread sqrt(d);  softmax(Q K^T / sqrt(d_k))",
            "Measured over random vectors: dot products grow with the width, and the softmax saturates.",
            {
                "width": list(widths),
                "spread of dot": [figures[0] for figures in measured],
                "spread of scaled dot": [figures[1] for figures in measured],
                "entropy of softmax of dot": [figures[2] for figures in measured],
                "entropy of softmax of scaled dot": [figures[3] for figures in measured],
            },
            grid(
                [list(figures) for figures in measured],
                [f"d={int(width)}" for width in widths],
                ["dot", "scaled", "entropy", "scaled's"],
            ),
        ),
    ]


def _spread(width: int) -> tuple[float, float, float, float]:
    generator = torch.Generator().manual_seed(width)
    query, key = (
        torch.randn(1, 1, count, width, generator=generator, dtype=torch.float64) for count in (64, 64)
    )
    figures = []
    for score in (Dot(), ScaledDot()):
        values = score(query, key)
        chances = torch.distributions.Categorical(probs=softmax(values))
        figures.append((float(values.std()), float(chances.entropy().mean())))
    (dot_spread, dot_entropy), (scaled_spread, scaled_entropy) = figures
    return dot_spread, scaled_spread, dot_entropy, scaled_entropy


FIVE = (
    (0.75, 0.25, 0.0, 0.0, 0.0),
    (0.5, 0.5, 0.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.75, 0.25),
    (0.0, 0.0, 0.0, 0.0, 1.0),
)


def scores_of(weights: tuple[tuple[float, ...], ...]) -> Tensor:
    """Return scores whose softmax is these weights: logarithms, and a very low score for weight 0."""
    return torch.tensor(weights, dtype=torch.float64).log().clamp(min=FAR_BELOW)


def self_attention(
    sentence: str = "I love you a lot", weights: tuple[tuple[float, ...], ...] = FIVE, heads: int = 3
) -> list[Step]:
    """Every word attends to all words: without parameters, with the lecture's matrix, in several heads."""
    words, count = sentence.split(), len(weights)
    need(len(weights[0]) == count, "the weights need as many columns as rows")
    if len(words) != count:
        raise UserError(f"the sentence has {len(words)} words and the weights {count} rows: give as many")
    torch.manual_seed(1)
    bare = Transformer.Config(layers=1, width=4, heads=1, context=count, projections="none", positions="none")
    model = Transformer(count, bare).double().eval()
    x_TD = model.embedding.weight[:count].detach() * 20
    plain = attend(_row(x_TD), _row(x_TD), _row(x_TD), score=Dot(), mask=everything)[0, 0]
    free = _weigh(x_TD, x_TD)
    keys = torch.eye(count, dtype=torch.float64)
    chosen = _weigh(scores_of(weights), keys)
    nobel = ["Nobel", "committee", "awards", "Strickland", "who", "advanced", "optics"]
    config = Transformer.Config(layers=1, width=4 * heads, heads=heads, context=9)
    wide = Transformer(len(nobel), config).double().eval()
    look = Look(["layer0.attention", "layer0.heads", "layer0.attended"])
    with torch.no_grad():
        wide.read_from_start(torch.arange(len(nobel))[None], look=look)
    return [
        Step(
            "Without parameters",
            "y_i = sum_j w_ij x_j,  w = row-wise softmax of x_i^T x_j",
            "The weights come from the words' vectors alone. Each row sums to 1.",
            {"weights": numbers(free), "row sums": numbers(free.sum(1)), "y": numbers(plain)},
            grid(numbers(free), words, words),
        ),
        Step(
            "With projections",
            "w_ij = softmax(q_i^T k_j): queries and keys that give the lecture's matrix",
            "A weight of 0 comes from a score far below the others.",
            {"lecture": numbers(chosen)},
            grid(numbers(chosen), words, words),
        ),
        Step(
            "Several heads",
            "head_h = softmax(Q_h K_h^T / sqrt(d_k)) V_h; joined, then projected",
            f"'{' '.join(nobel)}' in {heads} heads, each with a causal map. Their outputs are concatenated "
            "and projected.",
            {
                "maps": list(look.maps["layer0.attention"]().shape[1:]),
                "mixed": list(look.values["layer0.heads"].shape[1:]),
                "projected": list(look.values["layer0.attended"].shape[1:]),
                "first head": numbers(look.maps["layer0.attention"]()[0, 0]),
            },
        ),
    ]


def masking(
    weights: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0), (0.3, 0.7, 0.0), (0.3, 0.5, 0.2)),
) -> list[Step]:
    """A language model must not see the next word: the mask, all rows at once, and a model without a mask."""
    count = len(weights)
    need(len(weights[0]) == count > 1, "the weights need as many columns as rows, and at least two")
    values = torch.eye(count, dtype=torch.float64)  # v_1, v_2, ... are unit vectors: outputs equal weights
    queries, keys = scores_of(weights), torch.eye(count, dtype=torch.float64)
    once = attend(_row(queries), _row(keys), _row(values), score=Dot(), mask=causal)[0, 0]
    alone = torch.cat(
        [
            attend(
                _row(queries[t : t + 1]),
                _row(keys[: t + 1]),
                _row(values[: t + 1]),
                score=Dot(),
                mask=everything,
            )[0, 0]
            for t in range(count)
        ]
    )
    # Each query asks for the next position.
    ask = torch.eye(count, dtype=torch.float64).roll(1, 1) * 20
    losses = {}
    for name, mask in (("future hidden", causal), ("future seen", everything)):
        seen = attend(_row(ask), _row(keys), _row(values), score=Dot(), mask=mask)[0]
        prediction = SoftmaxPrediction(
            seen[:, :-1] * 20, torch.eye(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
        )
        losses[name] = float(prediction.nll(torch.arange(1, count)[None]).mean())
    return [
        Step(
            "The mask",
            "row t sees 1..t",
            "A full square is a position that the row may attend to.",
            {"visible": causal.visible(count, count)[0].int().tolist()},
            causal.picture(count, count),
        ),
        Step(
            "All rows at once",
            "h_3 = 0.3 v_1 + 0.5 v_2 + 0.2 v_3",
            "The scores are chosen to give the lecture's weights. Hidden positions have weight 0.",
            {f"h_{t + 1}": numbers(once[t]) for t in range(count)},
            grid(numbers(once), [f"h_{t + 1}" for t in range(count)], [f"v_{t + 1}" for t in range(count)]),
        ),
        Step(
            "One row at a time",
            "the same sums",
            "Training computes all rows in parallel. Generation computes one row after the other.",
            {"largest difference": float((once - alone).abs().max())},
        ),
        Step(
            "Cheating",
            "no q_2 . k_3",
            "Without the mask, a query for the next word finds the next word: the loss falls, and the model "
            "learns nothing.",
            losses,
        ),
    ]


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
    steps = [
        Step(
            "Two sentences of the same words",
            "{x_1, ..., x_n} -> {y_1, ..., y_n}",
            f"{first} / {second}",
            {"words": len(vocabulary)},
        )
    ]
    for name in ("none", "index", "onehot", "sinusoidal", "learned", "rotary"):
        with torch.no_grad():
            outputs = [
                _placed(name, torch.stack([embedding_VD[vocabulary.index(word)] for word in words]))
                for words in (words_1, words_2)
            ]
        difference = max(float((row - outputs[1]).abs().amax(1).min()) for row in outputs[0])
        says = (
            "The sets of outputs are equal: the model does not see the order."
            if name == "none"
            else "The sets of outputs differ: the model sees the order."
        )
        steps.append(
            Step(
                f"positions: {name}",
                "the largest distance of an output to the nearest output of the other sentence",
                says,
                {f"difference with {name}": difference},
                _picture(name, words_1),
            )
        )
    return steps


def _picture(name: str, words: list[str]) -> str:
    """Draw the vectors that positions add or append, or the angles by which they rotate."""
    torch.manual_seed(2)
    kind = make_positions(name, 16, 8, 1).double()  # type: ignore[arg-type]
    position_BT = torch.arange(len(words))[None]
    angles = kind.angles(position_BT)
    nothing_BTD = torch.zeros(1, len(words), 8, dtype=torch.float64)
    with torch.no_grad():
        drawn = (
            kind.place(nothing_BTD, position_BT)[0, :, -16:]
            if angles is None
            else angles[0].reshape(len(words), -1)
        )
    return "" if name == "none" else shaded(numbers(drawn), words)


def _placed(name: str, x_TD: Tensor) -> Tensor:
    """Unmasked self-attention without parameters over words with positions."""
    torch.manual_seed(2)
    kind = make_positions(name, 16, x_TD.shape[1], 1).double()  # type: ignore[arg-type]
    position_BT = torch.arange(len(x_TD))[None]
    placed = kind.place(x_TD[None], position_BT)
    turned = kind.turn(placed[:, None], kind.angles(position_BT))
    return attend(turned, turned, placed[:, None], score=ScaledDot(), mask=everything)[0, 0]
