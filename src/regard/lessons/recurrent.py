"""Lessons about recurrence: the RNN, the LSTM's gates, and attention to past states.

Shape legend: B rows, T positions, D width, V vocabulary.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor

from regard.lessons.drawing import Bars, Curves, Grid, Row
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers, vector
from regard.lessons.question import ask
from regard.lessons.shipped import ids_of, likeliest, shipped, watched
from regard.models.attentive import Attentive
from regard.models.recurrent import Lstm, RecurrentState, Rnn
from regard.parts.look import Look
from regard.tokens.choose import TokenOptions, train_tokenizer

BATCH = ("students opened their books", "people walked their dog", "the classroom fell silent")
STORY = "Olga called David in the garden . he sang . that was"
LAYERS = 2


def recurrence(
    sentence: str = BATCH[0], width: int = 3, gates: tuple[float, ...] = (1.0, 0.0, 0.0, 0.5)
) -> list[Step]:
    """The RNN: one vector for the whole context, the loss of a batch, gradients through time, and gates."""
    torch.manual_seed(1)
    lines = [sentence, *BATCH[1:]]
    tokenizer, _ = train_tokenizer(["\n".join(lines)], TokenOptions(tokens="word", document="line"))
    model = Rnn(tokenizer.size, Rnn.Config(layers=LAYERS, width=width, dropout=0.0)).double().eval()
    rows = [tokenizer.prompt(line) for line in lines]
    words = sentence.split()
    advice = "the first is given, the others are predicted"
    need(len(words) > 1, f"give a sentence of at least two words: {advice}")
    look = Look(["hidden", "embedding", "layer*.hidden"])
    prediction, _ = model.read_from_start(torch.tensor([rows[0]]), look=look)
    # The first word is given, and the sentence has no end token.
    losses = prediction.nll(torch.tensor([[*rows[0][1:], -1]]))[0, :-1]
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [tokenizer.padding] * (longest - len(row)) for row in rows])
    targets = torch.tensor([[*row[1:], -1] + [-1] * (longest - len(row)) for row in rows])
    batch, _ = model.read_from_start(tokens)
    batch_loss, weight = batch.loss(targets)
    nll = numbers(batch.nll(targets))
    loss = prediction.nll(torch.tensor([[-1] * (len(rows[0]) - 2) + [rows[0][-1], -1]])).sum()
    (gradient,) = torch.autograd.grad(loss, look.values["embedding"], retain_graph=True)
    return [
        *_reading(model, words, look, width),
        _sentence_loss(words, losses, tokenizer.size),
        Step(
            "The loss of the batch",
            "the average over all tokens of all sentences",
            f"{int(weight)} words are predicted in {len(lines)} sentences. A longer sentence counts more, "
            "because it has more words.",
            {
                "loss of the batch": float(batch_loss.detach() / weight),
                "losses of the batch": [row[: len(ids) - 1] for row, ids in zip(nll, rows, strict=True)],
            },
            latex=r"L = \frac{1}{N} \sum_{\mathrm{sentences}} \sum_t L_t",
            intro=" / ".join(lines),
        ),
        _through_time(words, numbers(gradient[0].norm(dim=1))),
        _gated(gates),
    ]


def _reading(model: Rnn, words: list[str], look: Look, width: int) -> list[Step]:
    kernel = model.recurrence.kernels[0]
    W, V = (kernel.get_parameter(f"weight_{part}_l0").detach() for part in ("ih", "hh"))
    names = [f"{place}" for place in range(width)]
    states = [numbers(look.values[f"layer{layer}.hidden"][0]) for layer in range(LAYERS)]
    return [
        Step(
            "The weights",
            "h_i = tanh(W w_i + V h_{i-1}),  P(w_{i+1}) = softmax(U h_i)",
            f"W and V have {width} x {width} numbers each, whatever the length of the sentence. U has one "
            "row for each word.",
            {"W": numbers(W), "V": numbers(V)},
            Row([Grid(numbers(W), names, names, "W", 2), Grid(numbers(V), names, names, "V", 2)]),
            latex=r"h_i = \tanh(W w_i + V h_{i-1}), \qquad P(w_{i+1}) = \mathrm{softmax}(U h_i)",
            intro="The weights are random: this model has not been trained. (`lesson walk` has a trained "
            "one.)",
            question=ask(
                "The sentence becomes twice as long. How many more weights does the model need?",
                ("none", "Every step uses the same W and V."),
                ("twice as many", "That is the fixed window. Here every step uses the same W and V."),
            ),
        ),
        Step(
            "Reading",
            "layer 1 reads the words, layer 2 reads the states of layer 1",
            f"After '{words[-1]}' the state of layer 1 is {vector(states[0][-1])}. It is all that the "
            f"model keeps of {len(words)} words. At '{words[0]}' the state knows '{words[0]}' only.",
            {"h": states[-1]},
            Row(
                [
                    Grid(rows, words, [f"h_{n}" for n in names], f"layer {layer + 1}", 2)
                    for layer, rows in enumerate(states)
                ]
            ),
            latex=r"h^{(2)}_i = \tanh(W^{(2)} h^{(1)}_i + V^{(2)} h^{(2)}_{i-1})",
            intro="Each state is computed from the word and from the state before it. Layers are stacked.",
        ),
        _unrolled(model, words, look, width),
    ]


def _unrolled(model: Rnn, words: list[str], look: Look, width: int) -> Step:
    """The state without tanh: a sum over the words."""
    kernel = model.recurrence.kernels[0]
    W, V = (kernel.get_parameter(f"weight_{part}_l0").detach() for part in ("ih", "hh"))
    names = [f"{place}" for place in range(width)]
    bias = sum(kernel.get_parameter(f"bias_{part}_l0").detach() for part in ("ih", "hh"))
    w_TD, h_D = look.values["embedding"][0].detach(), torch.zeros(width, dtype=torch.float64)
    summed, exact = [], []
    for place in range(len(words)):
        h_D = W @ w_TD[place] + bias + V @ h_D  # without tanh, so the state is a sum over the words
        summed.append(h_D)
        exact.append(look.values["layer0.hidden"][0, place].detach())
    terms = torch.stack(
        [torch.linalg.matrix_power(V, len(words) - 1 - j) @ (W @ w_TD[j] + bias) for j in range(len(words))]
    )
    return Step(
        "The state as a sum over the words",
        "h_i is about sum_j V^(i-j) W w_j",
        f"Without tanh the state at '{words[-1]}' is exactly this sum, {vector(numbers(summed[-1]))}; "
        f"with tanh it is {vector(numbers(exact[-1]))}. The first word's term, "
        f"{vector(numbers(terms[0]))}, has been multiplied by V {len(words) - 1} times.",
        {
            "sum": numbers(summed[-1]),
            "sum of the terms": numbers(terms.sum(0)),
            "state": numbers(exact[-1]),
        },
        Grid(
            [*numbers(terms), numbers(summed[-1]), numbers(exact[-1])],
            [f"V^{len(words) - 1 - j} W {word}" for j, word in enumerate(words)] + ["sum", "h with tanh"],
            [f"h_{n}" for n in names],
            "terms of h",
            2,
        ),
        latex=r"h_i \approx \sum_j V^{i-j} W w_j",
        intro="Take tanh away and unroll. What a word leaves in the state is its vector, times a power of V.",
    )


def _sentence_loss(words: list[str], losses: Tensor, size: int) -> Step:
    count, values = len(losses), numbers(losses)
    names = [f"L_{place}" for place in range(1, count + 1)]
    return Step(
        "The loss of a sentence",
        f"L = ({' + '.join(names)}) / {count},  L_t = -log P(w_{{t+1}} | w_1..w_t)",
        f"Their average is {float(losses.detach().mean()):.3f}. A guess among all {size} tokens would "
        f"have log {size} = "
        f"{math.log(size):.3f}: random weights know "
        f"{'less' if float(losses.detach().mean()) > math.log(size) else 'more'}.",
        {"losses": values, "loss": float(losses.detach().mean())},
        Bars(values, [f"-log P({word} | ...)" for word in words[1:]], "losses"),
        latex=r"L = \frac{1}{T} \sum_t L_t, \qquad L_t = -\log P(w_{t+1} \mid w_1 \ldots w_t)",
        intro="The first word is given, and there is no end mark: one pass from left to right predicts all "
        "others.",
        question=ask(
            f"How many losses does '{' '.join(words)}' have?",
            (str(count), "One for each word but the first, which is given."),
            (str(count + 1), "The first word is given, and the end is not predicted here."),
            ("1", "One pass predicts every word."),
        ),
    )


def _through_time(words: list[str], norms: list[float]) -> Step:
    eigen = {
        f"eigenvalue {value}": [
            float(
                torch.linalg.matrix_norm(
                    torch.linalg.matrix_power(value * torch.eye(2, dtype=torch.float64), k), 2
                )
            )
            for k in (1, 10, 50)
        ]
        for value in (0.9, 1.0, 1.1)
    }
    read = norms[:-1]
    falls = all(left < right for left, right in pairwise(read))
    says = (
        f"The gradient of '{words[0]}' is {read[0] / max(read[-1], 1e-300):.3f} of that of '{words[-2]}'."
        if len(read) > 1
        else "There is only one word before the last."
    )
    lines = {name: list(zip((1.0, 10.0, 50.0), norm, strict=True)) for name, norm in eigen.items()}
    return Step(
        "Gradients through time",
        "dL_last / dw_j contains V^(i-j);  V^k vanishes or explodes with its largest eigenvalue",
        f"{says} "
        f"{'Gradients shrink with the distance.' if falls else 'A gradient need not shrink at every step.'} "
        f"After 50 steps, an eigenvalue of 0.9 leaves {eigen['eigenvalue 0.9'][2]:.4f} and 1.1 makes "
        f"{eigen['eigenvalue 1.1'][2]:.0f}. The lesson `forgetting` measures this on trained models.",
        {"gradient": norms} | eigen,
        Row([Bars(norms, words, "gradient of the last loss"), Curves(lines, "k", "norm of V^k", log_y=True)]),
        latex=r"\frac{\partial L_t}{\partial w_j} \propto V^{t-j}",
        intro="The gradient of the last loss with respect to each word's vector. The last word itself is "
        "predicted, not read.",
        question=ask(
            f"Which word moves the last loss least, of those that are read: {', '.join(words[:-1])}?",
            (words[min(range(len(read)), key=lambda j: read[j])], f"Norms: {vector(read)}."),
            *((word, f"Norms: {vector(read)}.") for word in words[:-1]),
        ),
    )


def _gated(gates: tuple[float, ...]) -> Step:
    """An LSTM with a given forget gate and an input gate of 0: the cell is multiplied by the forget gate."""
    model = Lstm(2, Lstm.Config(layers=1, width=len(gates), dropout=0.0)).double().eval()
    cell = torch.ones(1, 1, len(gates), dtype=torch.float64)
    state = RecurrentState(torch.zeros(1, dtype=torch.long), torch.zeros_like(cell), cell)

    def set_gates(gates_BGTD: Tensor, place: object) -> Tensor:
        changed = gates_BGTD.clone()
        changed[:, 0], changed[:, 1] = 0.0, torch.tensor(gates, dtype=torch.float64)
        return changed

    _, after = model(torch.tensor([[0]]), state, Look(changes={"layer0.gates": set_gates}))
    assert after.cell_BLD is not None
    kept, forgotten = sum(gate == 1 for gate in gates), sum(gate == 0 for gate in gates)
    return Step(
        "The LSTM's gates",
        "c_i = f * c_{i-1} + i * g",
        f"{kept} of {len(gates)} components are kept whole and {forgotten} are erased. An RNN overwrites "
        "all of its memory at every step; a gate of 1 keeps a component, and its gradient, for as long "
        "as it stays open.",
        {
            "cell before": numbers(cell[0, 0]),
            "forget gate": list(gates),
            "cell after": numbers(after.cell_BLD[0, 0]),
        },
        Grid(
            [numbers(cell[0, 0]), list(gates), numbers(after.cell_BLD[0, 0])],
            ["cell before", "forget gate", "cell after"],
            [str(place) for place in range(len(gates))],
            digits=2,
        ),
        latex=r"c_i = f \odot c_{i-1} + i \odot g",
        intro=f"The cell is all ones, the input gate is 0, and the forget gate is {vector(gates)}.",
    )


def attentive(
    sentence: str = "the students opened their books unwillingly", width: int = 4, story: str = STORY
) -> list[Step]:
    """A recurrent model that attends to its earlier states: 4 scores at the fifth word, 5 at the sixth."""
    torch.manual_seed(1)
    words = sentence.split()
    tokenizer, _ = train_tokenizer([sentence], TokenOptions(tokens="word", document="line"))
    config = Attentive.Config(layers=1, width=width, lookback=len(words), score="dot", dropout=0.0)
    model = Attentive(tokenizer.size, config).double().eval()
    look = Look(["hidden", "attention", "context"])
    prediction, _ = model.read_from_start(torch.tensor([tokenizer.prompt(sentence)]), look=look)
    weights_TT = look.maps["attention"]()[0, 0]
    counts = (weights_TT > 0).sum(1).tolist()
    chances = prediction.log_probs()[0, -1].exp()
    hidden, context = (numbers(look.values[name][0, -1]) for name in ("hidden", "context"))
    last, final = counts[-1], words[-1]
    return [
        Step(
            "Looking back",
            "a_ij = softmax over j < i of h_i . h_j",
            f"'{final}' is word {len(words)} and has {last} scores. The first word has none. The model is "
            "random, so its weights mean nothing yet.",
            {"scores at each word": counts, "weights": numbers(weights_TT)},
            Grid(numbers(weights_TT), words, words, "a: row i looks at column j"),
            latex=r"a_{ij} = \mathrm{softmax}_{j < i}(h_i \cdot h_j)",
            intro="The query is the current state, and the keys are the states strictly before it. The row "
            "of scores grows with every word.",
            question=ask(
                f"How many scores are there at '{final}', word {len(words)}?",
                (str(last), "One for each earlier state; its own state is the query."),
                (str(last + 1), "The state does not attend to itself: it is joined with the context anyway."),
            ),
        ),
        Step(
            "The weighted average",
            "c_i = sum_j a_ij h_j",
            f"The context at '{final}' is {vector(context)}.",
            {"hidden": hidden, "context": context},
            Grid([hidden, context], ["hidden", "context"], [str(n) for n in range(width)]),
            latex=r"c_i = \sum_j a_{ij} h_j",
            intro="The context is the average of the earlier states by the weights. Here keys and values are "
            "the same vectors; the lesson `self-attention` asks whether they should be.",
        ),
        Step(
            "Join and predict",
            "P(w) = softmax(U tanh(W [h_i; c_i]))",
            f"The joined vector has {2 * width} numbers. The past now has a direct path to the "
            "prediction, and so has the gradient.",
            {
                "joined width": 2 * width,
                "vocabulary": tokenizer.size,
                "sum of probabilities": float(chances.detach().sum()),
            },
            latex=r"P(w) = \mathrm{softmax}(U \tanh(W [h_i; c_i]))",
            intro=f"State and context are joined, and one softmax over {tokenizer.size} tokens follows.",
        ),
        _trained(story),
    ]


def _trained(story: str) -> Step:
    run = shipped("walk-attentive")
    words = ["<s>", *story.split()]
    prediction, look = watched(run, ids_of(run, story), "attention")
    weights = numbers(look.maps["attention"]()[0, 0])
    best, last = likeliest(run, prediction, 3), weights[-1]
    place = max(range(len(words)), key=lambda j: last[j])
    named = f"'{words[place]}' ({last[place]:.3f})"
    also = (
        "the word it predicts"
        if words[place] == best[0][0]
        else "not the word it predicts: a state also carries what was read before it"
    )
    return Step(
        "A trained model",
        "LSTM of width 16 with bilinear attention",
        f"It predicts '{best[0][0]}' ({best[0][1]:.3f}). At the last word it looks most at {named}, "
        f"{also}. A warning: weights can be looked at, and they are not an explanation (`regard doubt`).",
        {"likeliest": dict(best), "last row": last},
        Grid(weights, words, words, "a: row i looks at column j", 2),
        latex=r"a_{ij} = \mathrm{softmax}_{j < i}(h_i^\top W h_j)",
        intro=f"Trained for seconds on stories such as '{story} David'.",
    )
