"""Lessons about averages and recurrence: the DAN, the RNN, the LSTM's gates, and attention to past states.

Shape legend: T positions, D width, V vocabulary.
"""

import torch

from regard.lessons.attention import average_of, letters
from regard.lessons.lesson import Step, grid, need, numbers
from regard.models.attentive import Attentive
from regard.models.recurrent import Lstm, RecurrentState, Rnn
from regard.parts.look import Look
from regard.tokens.choose import TokenOptions, train_tokenizer

BATCH = ("students opened their books", "people walked their dog", "the classroom fell silent")


def averaging(sequence: str = "AABA") -> list[Step]:
    """The deep averaging network knows which letters were read, and not their order."""
    embedding = torch.eye(2, dtype=torch.float64)
    letters(sequence)
    turned = [
        sequence[turn:] + sequence[:turn] for turn in range(len(sequence))
    ]  # every letter comes first once
    orders = sorted({*turned, *(order[::-1] for order in turned)})
    outputs = [numbers(average_of(order, embedding)) for order in orders]
    return [
        Step(
            "The average",
            "1/n sum_i e_i",
            f"The average of {' '.join(sequence)}, with e_A = [1, 0] and e_B = [0, 1].",
            {"average": numbers(average_of(sequence, embedding))},
        ),
        Step(
            "Order does not matter",
            "sum_i e_i = sum_pi(i) e_pi(i)",
            f"Other orders of the same letters: {' '.join(orders)}.",
            {"averages": outputs},
        ),
    ]


def recurrence(
    sentence: str = "students opened their books",
    width: int = 3,
    gates: tuple[float, ...] = (1.0, 0.0, 0.0, 0.5),
) -> list[Step]:
    """The RNN: one vector for the whole context, the loss of a batch, gradients through time, and gates."""
    torch.manual_seed(1)
    lines = [sentence, *BATCH[1:]]
    tokenizer, _ = train_tokenizer(["\n".join(lines)], TokenOptions(tokens="word", document="line"))
    model = Rnn(tokenizer.size, Rnn.Config(layers=1, width=width, dropout=0.0)).double().eval()
    rows = [tokenizer.prompt(line) for line in lines]
    words = sentence.split()
    advice = "the first is given, the others are predicted"
    need(len(words) > 1, f"give a sentence of at least two words: {advice}")
    look = Look(["hidden", "embedding"])
    ids = torch.tensor([rows[0]])
    prediction, _ = model.read_from_start(ids, look=look)
    # The first word is given, and the sentence has no end token.
    losses = prediction.nll(torch.tensor([[*rows[0][1:], -1]]))[0, :-1]
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [tokenizer.padding] * (longest - len(row)) for row in rows])
    targets = torch.tensor([[*row[1:], -1] + [-1] * (longest - len(row)) for row in rows])
    batch, _ = model.read_from_start(tokens)
    batch_loss, weight = batch.loss(targets)
    nll = numbers(batch.nll(targets))
    embedded = look.values["embedding"]
    loss = prediction.nll(torch.tensor([[-1] * (len(rows[0]) - 2) + [rows[0][-1], -1]])).sum()
    (gradient,) = torch.autograd.grad(loss, embedded, retain_graph=True)
    return [
        Step(
            "Reading",
            "h_i = tanh(W w_i + V h_{i-1})",
            "Every step has the same weights. Each state is computed from the word and the state before it.",
            {"h": numbers(look.values["hidden"][0])},
            grid(numbers(look.values["hidden"][0]), words, [f"h{n}" for n in range(width)]),
        ),
        Step(
            "The loss of a sentence",
            "L = (L_1 + L_2 + L_3) / 3,  L_t = -log P(w_{t+1} | w_1..w_t)",
            "The first word is given.",
            {"losses": numbers(losses), "loss": float(losses.detach().mean())},
        ),
        Step(
            "The loss of the batch",
            "the average over all tokens of all sentences",
            " / ".join(lines),
            {
                "loss of the batch": float(batch_loss.detach() / weight),
                "losses of the batch": [row[: len(ids) - 1] for row, ids in zip(nll, rows, strict=True)],
            },
        ),
        Step(
            "Gradients through time",
            "dL_3 / dw_j",
            "The gradient of the last loss with respect to each word's vector: smaller for earlier words.",
            {"gradient": numbers(gradient[0].norm(dim=1))},
        ),
        _powers(),
        _gated(gates),
    ]


def _powers() -> Step:
    """Norms of the powers of a matrix."""
    return Step(
        "V^k",
        "h_i is about sum_j V^(i-j) W w_j",
        "Powers of a matrix vanish or explode with its largest eigenvalue, and so do the gradients.",
        {
            f"eigenvalue {value}": [
                float(
                    torch.linalg.matrix_norm(
                        torch.linalg.matrix_power(value * torch.eye(2, dtype=torch.float64), k), 2
                    )
                )
                for k in (1, 10, 50)
            ]
            for value in (0.9, 1.0, 1.1)
        },
    )


def _gated(gates: tuple[float, ...]) -> Step:
    """An LSTM with a given forget gate and an input gate of 0: the cell is multiplied by the forget gate."""
    model = Lstm(2, Lstm.Config(layers=1, width=len(gates), dropout=0.0)).double().eval()
    cell = torch.ones(1, 1, len(gates), dtype=torch.float64)
    state = RecurrentState(torch.zeros(1, dtype=torch.long), torch.zeros_like(cell), cell)

    def set_gates(gates_BGTD: torch.Tensor, place: object) -> torch.Tensor:
        changed = gates_BGTD.clone()
        changed[:, 0], changed[:, 1] = 0.0, torch.tensor(gates, dtype=torch.float64)
        return changed

    _, after = model(torch.tensor([[0]]), state, Look(changes={"layer0.gates": set_gates}))
    assert after.cell_BLD is not None
    return Step(
        "The LSTM's gates",
        "c_i = f * c_{i-1} + i * g",
        "A gate scales each component of the cell. Here the input gate is 0.",
        {
            "cell before": numbers(cell[0, 0]),
            "forget gate": list(gates),
            "cell after": numbers(after.cell_BLD[0, 0]),
        },
    )


def attentive(sentence: str = "the students opened their books unwillingly", width: int = 4) -> list[Step]:
    """A recurrent model that attends to its earlier states: 4 scores at the fifth word, 5 at the sixth."""
    torch.manual_seed(1)
    words = sentence.split()
    tokenizer, _ = train_tokenizer([sentence], TokenOptions(tokens="word", document="line"))
    model = (
        Attentive(
            tokenizer.size,
            Attentive.Config(layers=1, width=width, lookback=len(words), score="dot", dropout=0.0),
        )
        .double()
        .eval()
    )
    look = Look(["hidden", "attention", "context"])
    prediction, _ = model.read_from_start(torch.tensor([tokenizer.prompt(sentence)]), look=look)
    weights_TT = look.maps["attention"]()[0, 0]
    counts = (weights_TT > 0).sum(1).tolist()
    chances = prediction.log_probs()[0, -1].exp()
    return [
        Step(
            "Looking back",
            "a_ij = softmax over j < i of h_i . h_j",
            "Only strictly earlier states have weights, so the first word has none.",
            {"scores at each word": counts, "weights": numbers(weights_TT)},
            grid(numbers(weights_TT), words, words),
        ),
        Step(
            "The weighted average",
            "c_i = sum_j a_ij h_j",
            "The context is the average of the earlier states by the weights.",
            {
                "hidden": numbers(look.values["hidden"][0, -1]),
                "context": numbers(look.values["context"][0, -1]),
            },
        ),
        Step(
            "Join and predict",
            "P(w) = softmax(U tanh(W [h_i; c_i]))",
            "State and context are concatenated, and one softmax over the vocabulary follows.",
            {
                "joined width": 2 * width,
                "vocabulary": tokenizer.size,
                "sum of probabilities": float(chances.detach().sum()),
            },
        ),
    ]
