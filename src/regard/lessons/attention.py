"""The lesson about attention in three steps: scores, softmax, output.

Shape legend: T positions, D width, Q queries, K keys.
"""

import math

import torch
from torch import Tensor

from regard.lessons.averages import average_of, letters
from regard.lessons.drawing import Bars, Curves, Grid, Picture, plain
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, listed, numbers, vector
from regard.lessons.question import ask
from regard.parts.attention import attend, softmax_base, weigh
from regard.parts.masks import Mask, everything
from regard.parts.scores import Dot, Score

FAR_BELOW = -1e4  # a score whose softmax is 0
CASES = ("AAAA", "ABAA", "BAAB")
LEARNING_STEPS = 100
Matrix = tuple[tuple[float, ...], ...]


def as_row(vectors: Tensor | tuple) -> Tensor:
    return torch.as_tensor(vectors, dtype=torch.float64)[None, None]


def weights_of(
    query_QD: Tensor,
    key_KD: Tensor,
    mask: Mask = everything,
    base: float = math.e,
    score: Score | None = None,
) -> Tensor:
    """(Q, K): attention weights of plain vectors, by the library's own attention."""
    normalise = softmax_base(base)
    return weigh(as_row(query_QD), as_row(key_KD), score=score or Dot(), mask=mask, normalise=normalise)[0, 0]


def scores_of(weights: Matrix) -> Tensor:
    """Return scores whose softmax is these weights: logarithms, and a very low score for weight 0."""
    return torch.tensor(weights, dtype=torch.float64).log().clamp(min=FAR_BELOW)


def attention(
    sequence: str = "AABA",
    q: tuple[float, ...] = (0.0, 1.0),
    base: float = 3.0,
    W_K: Matrix = ((1.0, 0.0), (0.0, 1.0)),
    W_Q: Matrix = ((10.0, 0.0), (0.0, 10.0)),
) -> list[Step]:
    """Attention finds a B at any position: scores, softmax and output, beside the plain average."""
    need(len(q) == 2, f"q needs 2 numbers, one for A and one for B; it has {len(q)}")
    need(base > 0, "the base of a softmax is above 0")
    need(len(W_K) == len(W_K[0]) == len(W_Q) == len(W_Q[0]) == 2, "W_K and W_Q have 2 rows of 2 numbers")
    embedding_KD = torch.eye(2, dtype=torch.float64)[letters(sequence)]  # e_A = [1, 0], e_B = [0, 1]
    key_KD = embedding_KD @ torch.tensor(W_K, dtype=torch.float64)
    query_QD = torch.tensor([q], dtype=torch.float64)
    scores = numbers(Dot()(as_row(query_QD), as_row(key_KD))[0, 0, 0])
    learned = learned_query(torch.tensor(W_K, dtype=torch.float64))
    steps = [_scores(sequence, q, scores)]
    for name, number in ((f"base {base:g}", base), ("base e", math.e)):
        weights_QK = weights_of(query_QD, key_KD, base=number)
        steps.append(
            _softmax(sequence, name, number, scores, numbers(weights_QK[0]), weights_QK @ embedding_KD)
        )
    return [
        *steps,
        _projected(sequence, W_K, W_Q, embedding_KD),
        _beside_the_average(sequence, query_QD, key_KD, base),
        _ideal(W_K, learned[0]),
        _learned(W_K, *learned),
    ]


def _scores(sequence: str, q: tuple[float, ...], scores: list[float]) -> Step:
    best = [
        f"{letter} at {place}" for place, letter in enumerate(sequence, 1) if scores[place - 1] == max(scores)
    ]
    all_equal = len(set(scores)) == 1
    places = [place for place, score in enumerate(scores, 1) if score == max(scores)]
    wrong = [0.0 if letter == "B" else 1.0 for letter in sequence]
    return Step(
        "Scores",
        "s_i = k_i . q",
        f"All {len(sequence)} scores are {plain(scores[0])}: no letter stands out."
        if all_equal
        else f"The highest score, {plain(max(scores))}, belongs to the {listed(best)}.",
        {"scores": scores},
        Bars(
            scores,
            [f"{letter} ({place})" for place, letter in enumerate(sequence, 1)],
            f"scores of q = {vector(q)}",
        ),
        latex=r"s_i = k_i \cdot q",
        intro="The task: the next letter is A if all letters are A, and B if there is a B anywhere. So a "
        "model must find a B, wherever it stands. Attention looks it up by content: each letter offers a "
        f"key (k_A = [1, 0], k_B = [0, 1] times W^K), and the query q = {vector(q)} says what is looked "
        "for. The dot product of a key with the query says how well they match.",
        question=ask(
            f"Which scores does q = {vector(q)} give {' '.join(sequence)}?",
            (
                vector(scores),
                f"k_A . q and k_B . q, letter by letter; the maximum is at {listed([*map(str, places)])}.",
            ),
            (
                vector(wrong),
                "These are the first components of the keys. The query decides which component counts.",
            ),
            (
                vector([1 / len(sequence)] * len(sequence)),
                "That is the plain average. Scores are not yet weights.",
            ),
        ),
    )


def _softmax(
    sequence: str, name: str, base: float, scores: list[float], weights: list[float], output_QD: Tensor
) -> Step:
    output = numbers(output_QD[0])
    b_share = sum(weight for weight, letter in zip(weights, sequence, strict=True) if letter == "B")
    fair = sequence.count("B") / len(sequence)
    if "B" not in sequence:
        says = f"There is no B, so all the weight is on As and the output is {vector(output)}."
    else:
        more = (
            "more than" if b_share > fair + 1e-9 else "less than" if b_share < fair - 1e-9 else "as much as"
        )
        says = f"B has {b_share:.3f} of the weight, {more} in an average ({fair:.3f})."
        says += f" The output is {vector(output)}."
    powers = [base**score for score in scores]
    flat = [1 / len(scores)] * len(scores)
    return Step(
        f"Softmax and output, {name}",
        f"a_i = b^s_i / sum_j b^s_j, b = {base:g};  output = sum_i a_i e_i",
        says,
        {f"weights in {name}": weights, f"output in {name}": output},
        Grid([weights], ["q"], list(sequence), f"weights in {name}"),
        latex=r"a_i = \frac{b^{s_i}}{\sum_j b^{s_j}}, \quad b = "
        + f"{base:.4g}"
        + r"; \qquad o = \sum_i a_i e_i",
        intro=f"The powers are {vector(powers)} and sum to {plain(sum(powers))}. "
        "The output is the average of the letters' vectors, weighted by a.",
        question=ask(
            "What are the weights?",
            (vector(weights), f"Each power is divided by their sum, {plain(sum(powers))}."),
            (vector(powers), "These are the powers. Divided by their sum, they add up to 1."),
            (vector(flat), "Equal weights need equal scores; these scores differ."),
        ),
    )


def _projected(sequence: str, W_K: Matrix, W_Q: Matrix, embedding_KD: Tensor) -> Step:
    """Keys and queries as learned maps of the embeddings: (E W^K)(W^Q e)."""
    key_KD = embedding_KD @ torch.tensor(W_K, dtype=torch.float64)
    e_B = torch.tensor([0.0, 1.0], dtype=torch.float64)
    query_1D = (torch.tensor(W_Q, dtype=torch.float64) @ e_B)[None]
    weights_QK = weights_of(query_1D, key_KD)
    sharp = attend(as_row(query_1D), as_row(key_KD), as_row(embedding_KD), score=Dot(), mask=everything)[
        0, 0, 0
    ]
    weights = numbers(weights_QK[0])
    b_share = sum(weight for weight, letter in zip(weights, sequence, strict=True) if letter == "B")
    if "B" not in sequence:
        says = f"The query asks for a B and there is none: the As share the weight, {vector(weights)}."
    elif b_share > 0.95:
        says = f"{b_share:.4f} of the weight is on the {'B' if sequence.count('B') == 1 else 'Bs'}."
    else:
        says = f"Only {b_share:.3f} of the weight is on B: these maps do not separate the letters enough."
    return Step(
        "Keys and queries are maps of the embeddings",
        "scores = (E W^K)(W^Q e_B)",
        f"{says} The output is {vector(sharp)}.",
        {
            "E": numbers(embedding_KD),
            "E W^K": numbers(key_KD),
            "W^Q e_B": numbers(query_1D[0]),
            "weights of the mapped query": weights,
            "output of a sharp query": numbers(sharp),
        },
        Grid(
            numbers(key_KD),
            [f"{letter} ({place})" for place, letter in enumerate(sequence, 1)],
            ["k_1", "k_2"],
            "E W^K",
        ),
        latex=r"s = (E W^K)(W^Q e_B)",
        intro=f"W^K = {_matrix(W_K)} and W^Q = {_matrix(W_Q)}, applied to e_B = [0, 1], the letter to look "
        "for. A model learns both maps.",
    )


def _matrix(rows: Matrix) -> str:
    return f"[{', '.join(vector(row) for row in rows)}]"


def _beside_the_average(sequence: str, query_QD: Tensor, key_KD: Tensor, base: float) -> Step:
    embedding_VD = torch.eye(2, dtype=torch.float64)
    average = numbers(average_of(sequence, embedding_VD))
    attended = numbers((weights_of(query_QD, key_KD, base=base) @ embedding_VD[letters(sequence)])[0])
    gain = attended[1] - average[1]
    says = (
        f"Attention raises the share of B from {plain(average[1])} to {plain(attended[1])}."
        if gain > 1e-9
        else f"Attention lowers the share of B from {plain(average[1])} to {plain(attended[1])}."
        if gain < -1e-9
        else "Attention gives the same output as the average here, because all scores are equal."
    )
    return Step(
        "Beside the average",
        "1/n sum_i e_i",
        says,
        {"average": average},
        Grid([average, attended], ["average", "attention"], ["A", "B"], "output"),
        latex=r"\frac{1}{n} \sum_i e_i",
        intro="The deep averaging network gives all letters the same weight.",
    )


def _ideal(W_K: Matrix, learned_D: Tensor) -> Step:
    """The ideal output, [1, 0] for all As and [0, 1] for any B, tried on sequences and queries."""
    queries = {"q = [0, 1]": (0.0, 1.0), "q = [0, 10]": (0.0, 10.0)}
    queries["learned W^Q"] = tuple(numbers(learned_D))
    table, distance = {}, dict[str, float]()
    for name, query in queries.items():
        rows = [_output(case, query, W_K) for case in CASES]
        table[name] = rows
        distance[name] = max(abs(row[1] - float("B" in case)) for row, case in zip(rows, CASES, strict=True))
    best = min(distance, key=lambda name: distance[name])
    grids: list[list[float]] = [[row[1] for row in rows] for rows in table.values()]
    return Step(
        "How close to the ideal",
        "ideal: [1, 0] if all letters are A, [0, 1] if any is B",
        "The largest error is "
        f"{listed([f'{error:.3f} with {name}' for name, error in distance.items()])}. The best is {best}; "
        "AAAA is right with every query, because there is only A to average.",
        {"outputs": table, "largest error": distance},
        Grid(grids, list(table), list(CASES), "share of B in the output (ideal: 0, 1, 1)"),
        latex=r"o = [1, 0] \text{ if all letters are A}, \quad o = [0, 1] \text{ if any is B}",
        intro=f"The next letter is A after {CASES[0]}, and B after {CASES[1]} and {CASES[2]}. "
        "Each query is tried on all three, in base e.",
        question=ask(
            f"With q = [0, 1], how large is the share of B for {CASES[1]}?",
            (
                f"{table['q = [0, 1]'][1][1]:.3f}",
                "e / (e + 3) if W^K = I: a score of 1 beats three scores of 0, but not by enough.",
            ),
            ("1.000", "A softmax never gives exactly 1; with scores of 1 and 0 it is far from it."),
            ("0.250", "That is the plain average of one B among four letters."),
        ),
    )


def _output(sequence: str, query: tuple[float, ...], W_K: Matrix) -> list[float]:
    embedding_KD = torch.eye(2, dtype=torch.float64)[letters(sequence)]
    key_KD = embedding_KD @ torch.tensor(W_K, dtype=torch.float64)
    return numbers((weights_of(torch.tensor([query], dtype=torch.float64), key_KD) @ embedding_KD)[0])


def learned_query(W_K_DD: Tensor) -> tuple[Tensor, list[float]]:
    """Learn W^Q by gradient descent on the ideal: the query W^Q e_B, and the loss of every step."""
    W_Q_DD = torch.eye(2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([W_Q_DD], lr=0.3)
    embedding = torch.eye(2, dtype=torch.float64)
    rows = torch.stack([embedding[letters(case)] for case in CASES])
    right = torch.tensor([float("B" in case) for case in CASES], dtype=torch.float64)
    losses = []
    for _ in range(LEARNING_STEPS):
        query_D = W_Q_DD @ embedding[1]
        weights_NK = softmax_base(math.e)((rows @ W_K_DD) @ query_D)
        output_ND = (weights_NK.unsqueeze(1) @ rows)[:, 0]
        loss = torch.nn.functional.binary_cross_entropy(output_ND[:, 1].clamp(1e-9, 1 - 1e-9), right)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return (W_Q_DD @ embedding[1]).detach(), losses


def _learned(W_K: Matrix, query_D: Tensor, losses: list[float]) -> Step:
    points = [(float(step), losses[step - 1]) for step in (1, 3, 10, 30, LEARNING_STEPS)]
    keys_VD = torch.tensor(W_K, dtype=torch.float64)  # the keys of A and B
    gap = float((keys_VD[1] - keys_VD[0]) @ query_D)
    picture: Picture = Curves({"loss": points}, "step", "loss", "learning W^Q", log_x=True)
    return Step(
        "Learning the query",
        "W^Q <- W^Q - step x gradient of the loss",
        f"After {LEARNING_STEPS} steps the query is {vector(numbers(query_D))} and the loss fell from "
        f"{losses[0]:.3f} to {losses[-1]:.3f}. Nobody wrote it: the scores of B and A now differ by "
        f"{gap:.2g}, because a sharper softmax has a lower loss.",
        {"learned query": numbers(query_D), "first loss": losses[0], "last loss": losses[-1]},
        picture,
        latex=r"W^Q \leftarrow W^Q - \eta \, \nabla_{W^Q} L",
        intro=f"W^Q begins as I, and Adam lowers the cross-entropy of the ideal on {listed(list(CASES))}.",
    )
