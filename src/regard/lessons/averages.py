"""Lessons about averages and windows: the deep averaging network, and the fixed window.

Shape legend: V vocabulary, D width.
"""

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.lessons.drawing import Bars, Curves
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers, vector
from regard.lessons.question import ask
from regard.models.dan import Dan
from regard.models.recurrent import Lstm, Rnn
from regard.models.window import Window
from regard.parts.look import Look


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


def averaging(sequence: str = "AABA") -> list[Step]:
    """The deep averaging network knows which letters were read, and not their order."""
    embedding = torch.eye(2, dtype=torch.float64)
    letters(sequence)
    turned = [sequence[turn:] + sequence[:turn] for turn in range(len(sequence))]
    orders = sorted({*turned, *(order[::-1] for order in turned)})
    outputs = [numbers(average_of(order, embedding)) for order in orders]
    average, count = outputs[0], len(sequence)
    bs = sequence.count("B")
    same = "Every order gives the same average" if len(orders) > 1 else "There is only one order"
    return [
        Step(
            "The average",
            "1/n sum_i e_i",
            f"{bs} of {count} letters {'is a B' if bs == 1 else 'are Bs'}, so the second component is "
            f"{bs}/{count}. In 1000 letters, one B would be {1 / 1000:g}.",
            {"average": average},
            Bars(average, ["A", "B"], f"average of {' '.join(sequence)}"),
            latex=r"\frac{1}{n} \sum_i e_i",
            intro="A task for the next lessons: the next letter is A if all letters so far are A, and B "
            "if there "
            "is a B anywhere. A deep averaging network (DAN) averages the vectors of all letters, and a "
            "small "
            f"network reads the average. Here: {' '.join(sequence)}, with e_A = [1, 0] and e_B = [0, 1].",
            question=ask(
                f"What is the average of the {count} vectors?",
                (vector(average), f"{count - bs} times [1, 0] and {bs} times [0, 1], divided by {count}."),
                (
                    vector([count - bs, bs]),
                    "That is the sum. The average divides it by the number of letters.",
                ),
                (vector([bs / count, (count - bs) / count]), "The first component belongs to A."),
            ),
        ),
        Step(
            "Order does not matter",
            "sum_i e_i = sum_pi(i) e_pi(i)",
            f"{same}: a model that averages cannot tell '{orders[0]}' from '{orders[-1]}'."
            if len(orders) > 1
            else f"{same} of these letters.",
            {"averages": outputs},
            latex=r"\sum_i e_i = \sum_i e_{\pi(i)}",
            intro=f"Orders of the same letters: {' '.join(orders)}.",
            question=ask(
                f"Does the average of {orders[-1]} differ from the average of {orders[0]}?",
                ("no", "A sum does not depend on the order of its terms."),
                ("yes", "Only if the sum depended on the order of its terms."),
            ),
        ),
    ]


def window(widths: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0), width: int = 32) -> list[Step]:
    """The fixed window: it sees the last n words in their order, and each further word needs new weights."""
    need(min(widths) >= 1, "widths are 1 or more")
    vocabulary, sizes = 1000, [int(size) for size in widths]
    windows = (
        Window(vocabulary, Window.Config(window=size, distant=0, layers=1, width=width)) for size in sizes
    )
    parameters = [_weights(model.read) for model in windows]
    recurrent = {
        "rnn": _weights(Rnn(vocabulary, Rnn.Config(layers=1, width=width)).recurrence),
        "lstm": _weights(Lstm(vocabulary, Lstm.Config(layers=1, width=width)).recurrence),
    }
    grown = parameters[-1] / recurrent["rnn"]
    lines = {"window": [(float(size), float(count)) for size, count in zip(sizes, parameters, strict=True)]}
    lines |= {name: [(float(size), float(count)) for size in sizes] for name, count in recurrent.items()}
    return [
        Step(
            "What a window sees",
            "h = tanh(W [e_{i-n+1}; ...; e_i])",
            f"A window of {sizes[-1]} words knows nothing about the word {sizes[-1] + 1} places back: for "
            "the question whether a B came, it must be as long as the text.",
            {"windows": sizes},
            latex=r"h = \tanh\left(W \, [e_{i-n+1}; \ldots; e_i]\right)",
            intro="The vectors of the last n words are joined, so that each place has weights of its own. "
            "Unlike an average, the window knows the order of its words.",
            question=ask(
                f"The only B stands {sizes[-1] + 1} letters back. What does a window of {sizes[-1]} "
                f"letters see?",
                ("only As", f"Its {sizes[-1]} places hold the letters after the B."),
                ("the B, weakly", "A window has no weak places: what lies outside is not read at all."),
            ),
        ),
        Step(
            "Its weights grow",
            "W has n x d columns; W and V of a recurrent layer have d each",
            f"At {sizes[-1]} words, the window's layer has {parameters[-1]:,} weights, {grown:.1f} times "
            f"as many as the recurrent layer, which reads any number of words with {recurrent['rnn']:,}.",
            {"window": parameters} | recurrent,
            Curves(lines, "words of context", "weights", f"weights at width {width}"),
            latex=r"W \in \mathbb{R}^{d \times n d} \quad \text{but} \quad W, V \in \mathbb{R}^{d \times d}",
            intro=f"Parameters without embeddings and readout, at width {width}.",
            question=ask(
                f"The window grows from {sizes[0]} to {sizes[-1]} words. What happens to the recurrent "
                "model's weights?",
                (
                    "nothing",
                    "It applies the same W and V at every step, so its size is independent of length.",
                ),
                (
                    "they grow as much",
                    "A recurrent model uses the same weights at every step; only the window has weights "
                    "for each place.",
                ),
                ("they shrink", "No model here loses weights when the context grows."),
            ),
        ),
    ]


def _weights(part: nn.Module) -> int:
    return sum(weight.numel() for weight in part.parameters())
