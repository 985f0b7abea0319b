"""The lesson about score functions, and why the dot product is scaled.

Shape legend: Q queries, K keys.
"""

import torch

from regard.lessons.attention import as_row
from regard.lessons.drawing import Bars, Curves
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, vector
from regard.lessons.question import ask
from regard.parts.attention import softmax
from regard.parts.scores import Dot, ScaledDot, ScoreName, make_score

Q, K = (1.0, 2.0), (3.0, -1.0)
WIDTHS = (2.0, 8.0, 32.0, 128.0, 512.0)


def scores(
    q: tuple[float, ...] = Q, k: tuple[float, ...] = K, widths: tuple[float, ...] = WIDTHS
) -> list[Step]:
    """Four score functions on the same vectors, and why the dot product is scaled."""
    need(len(q) == len(k), f"q and k need as many numbers; they have {len(q)} and {len(k)}")
    need(min(widths) >= 1, "widths are 1 or more")
    torch.manual_seed(1)
    values, formulas = dict[str, float](), list[str]()
    names: tuple[ScoreName, ...] = ("additive", "bilinear", "dot", "scaled-dot")
    for name in names:
        score = make_score(name, len(q), len(k)).double().requires_grad_(False)
        values[name] = float(score(as_row((q,)), as_row((k,))))
        formulas.append(f"{name}: {score.formula}")
    dot, scaled = values["dot"], values["scaled-dot"]
    return [
        Step(
            "The same two vectors",
            "; ".join(formulas),
            f"The dot product is {dot:g}. Divided by sqrt({len(q)}), it is {scaled:.4g}. The additive and "
            "the bilinear score depend on their weights: after training they can call any two vectors "
            "alike.",
            dict(values),
            Bars(list(values.values()), list(values), f"scores of q = {vector(q)} and k = {vector(k)}"),
            latex=r"w_2 \cdot \tanh(W_1 [q;k]), \quad q^\top W k, \quad q^\top k, \quad "
            r"\frac{q^\top k}{\sqrt{d_k}}",
            intro="The first two have learned weights, which are random here. Bahdanau's score is the "
            "additive score, Vaswani's is the scaled dot product.",
            question=ask(
                f"What is the scaled dot product of {vector(q)} and {vector(k)}?",
                (f"{scaled:.4g}", f"q . k = {dot:g}, divided by the square root of the width {len(q)}."),
                (f"{dot:.4g}", "That is the dot product without the scale."),
                (f"{dot / len(q):.4g}", "The scale is the square root of the width, not the width."),
            ),
        ),
        _why_scale(widths),
    ]


def _why_scale(widths: tuple[float, ...]) -> Step:
    measured = [_spread(int(width)) for width in widths]
    columns = {
        "width": list(widths),
        "spread of dot": [figures[0] for figures in measured],
        "spread of scaled dot": [figures[1] for figures in measured],
        "entropy of softmax of dot": [figures[2] for figures in measured],
        "entropy of softmax of scaled dot": [figures[3] for figures in measured],
    }
    places = range(len(widths))
    lines = {
        name: [(widths[place], columns[f"entropy of softmax of {name}"][place]) for place in places]
        for name in ("dot", "scaled dot")
    }
    first, last = measured[0], measured[-1]
    return Step(
        "Why scale",
        "q . k of d numbers of spread 1 has spread sqrt(d);  softmax(Q K^T / sqrt(d_k))",
        f"At width {int(widths[-1])} the spread of the dot products is {last[0]:.1f}, that of the scaled "
        f"ones {last[1]:.2f}. The entropy of the softmax is {last[2]:.2f} nats without the scale (width "
        f"{int(widths[0])}: {first[2]:.2f}): nearly all weight is on one key, and the gradient of a "
        f"saturated softmax is nearly 0. With the scale it is {last[3]:.2f}.",
        columns,
        Curves(lines, "width", "entropy (nats)", "softmax over 64 random keys", log_x=True),
        latex=r"\mathrm{Var}(q \cdot k) = d \quad\Rightarrow\quad "
        r"\mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right)",
        intro="Measured over random vectors of 64 queries and 64 keys at each width.",
        question=ask(
            "What happens to the softmax of dot products as the vectors get wider?",
            (
                "its weight gathers on one key",
                "The scores spread out as sqrt(d), and a softmax of large differences is sharp.",
            ),
            ("it becomes uniform", "It would if the scores shrank. They grow as sqrt(d)."),
            ("nothing", "A sum of d random products has spread sqrt(d), so scores grow with the width."),
        ),
    )


def _spread(width: int) -> tuple[float, float, float, float]:
    """(spread of dot, of scaled dot, entropy of the softmax of dot, of scaled dot) over random vectors."""
    generator = torch.Generator().manual_seed(width)
    query, key = (torch.randn(1, 1, 64, width, generator=generator, dtype=torch.float64) for _ in range(2))
    figures = []
    for score in (Dot(), ScaledDot()):
        values = score(query, key)
        chances = torch.distributions.Categorical(probs=softmax(values))
        figures.append((float(values.std()), float(chances.entropy().mean())))
    (dot_spread, dot_entropy), (scaled_spread, scaled_entropy) = figures
    return dot_spread, scaled_spread, dot_entropy, scaled_entropy
