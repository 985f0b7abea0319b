"""The whole walk through an LSTM and an attentive model (see walks.py).

Shape legend: T positions, G gates, D width, V vocabulary.
"""

import torch
from torch import Tensor

from regard.lessons.drawing import Grid
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import Question, ask
from regard.lessons.walks import Walk, curve, first_steps, other_pronoun, readout_steps
from regard.lessons.walks_choice import choose_a_word
from regard.models.attentive import Attentive
from regard.models.recurrent import Lstm

Recurrent = Lstm | Attentive


def walk_lstm(walk: Walk) -> list[Step]:
    model = walk.run.language_model
    assert isinstance(model, Lstm)
    embedded_TD = model.embedding.weight[walk.ids_1T[0]]
    steps, hidden_TD = _gates(walk, model, embedded_TD)
    return [
        *first_steps(walk, embedded_TD),
        *steps,
        _guesses(walk, hidden_TD),
        *readout_steps(walk, hidden_TD, "the last hidden state"),
        choose_a_word(walk),
        other_pronoun(walk),
    ]


def _gates(
    walk: Walk, model: Recurrent, embedded_TD: Tensor, attends: bool = False
) -> tuple[list[Step], Tensor]:
    """Run the LSTM word by word, from its equations."""
    kernel = model.recurrence.kernels[0]
    W, V = (kernel.get_parameter(f"weight_{part}_l0") for part in ("ih", "hh"))
    bias = kernel.get_parameter("bias_ih_l0") + kernel.get_parameter("bias_hh_l0")
    h_D = c_D = embedded_TD.new_zeros(embedded_TD.shape[1])
    gates, cells, states = [], [], []
    for x_D in embedded_TD:
        i, f, g, o = (W @ x_D + V @ h_D + bias).chunk(4)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c_D = f * c_D + i * g
        h_D = o * c_D.tanh()
        gates.append(torch.stack([i, f, o]))
        cells.append(c_D)
        states.append(h_D)
    gate_TGD, cell_TD, hidden_TD = torch.stack(gates), torch.stack(cells), torch.stack(states)
    return _gate_steps(walk, gate_TGD, cell_TD, hidden_TD, attends), hidden_TD


def _gate_steps(
    walk: Walk, gate_TGD: Tensor, cell_TD: Tensor, hidden_TD: Tensor, attends: bool
) -> list[Step]:
    means = {
        name: numbers(gate_TGD[:, number].mean(1))
        for number, name in enumerate(("input", "forget", "output"))
    }
    kept = gate_TGD[:, 1].prod(0)
    width = hidden_TD.shape[1]
    return [
        Step(
            "The gates",
            "i, f, o = sigmoid(W x_t + V h_{t-1} + b),  g = tanh(...)",
            f"On average the forget gate is {gate_TGD[:, 1].mean():.2f}. At the last word it is "
            f"{gate_TGD[-1, 1].mean():.2f}.",
            {"forget gate of the last word": numbers(gate_TGD[-1, 1])},
            curve(means, walk.words, "mean of each gate"),
            latex=r"i, f, o = \sigma(W x_t + V h_{t-1} + b), \qquad g = \tanh(\ldots)",
            intro=f"Each gate has {width} numbers between 0 and 1, one for each component of the cell. They "
            "depend on the word and on the state before it.",
        ),
        Step(
            "The cell",
            "c_t = f * c_{t-1} + i * g",
            "A component keeps what it holds while its forget gates are near 1. Over the whole text, the "
            f"component that keeps most has a product of gates of {float(kept.max()):.3f}, the one that "
            f"keeps least {float(kept.min()):.1e}.",
            {"cell": numbers(cell_TD[-1])},
            walk.grid(cell_TD, "c", digits=1),
            latex=r"c_t = f \odot c_{t-1} + i \odot g",
            question=_where(walk, width, attends),
        ),
        Step(
            "The hidden state",
            "h_t = o * tanh(c_t)",
            "The output gate chooses which part of the cell is shown.",
            {"h": numbers(hidden_TD[-1])},
            walk.grid(hidden_TD, "h", digits=1),
            latex=r"h_t = o \odot \tanh(c_t)",
        ),
    ]


def _where(walk: Walk, width: int, attends: bool) -> Question | None:
    """Ask where the past is kept: in the cell alone, or also in the states that attention reaches."""
    cell = ("in the cell alone", f"These {width} numbers are all that it keeps of {len(walk.words)} tokens.")
    states = (
        "in the cell and in the earlier states",
        "This model keeps every earlier state, and attends to them.",
    )
    if attends:
        cell = (cell[0], "That is an LSTM without attention. This model can look at every earlier state.")
    else:
        states = (states[0], "That is attention. An LSTM keeps one state and overwrites it.")
    right, wrong = (states, cell) if attends else (cell, states)
    nowhere = ("nowhere", "Then it could not predict it.")
    return ask("Where is the first name while the model reads the last word?", right, wrong, nowhere)


def _guesses(walk: Walk, hidden_TD: Tensor) -> Step:
    """The probability of the names of the text, if the model had to say the next word at each position."""
    model = walk.run.language_model
    names = [word for word in walk.words[1:] if word[0].isupper()]
    prediction = model.readout(hidden_TD[None], model.embedding)  # type: ignore[operator]
    chances_TV = prediction.log_probs()[0].exp()
    lines = {name: numbers(chances_TV[:, walk.run.tokenizer.prompt(name)[0]]) for name in names}
    return Step(
        "What it would say at each word",
        "P(w) = softmax(U h_t)",
        "The names become likely only where a name can stand.",
        {name: values[-1] for name, values in lines.items()},
        curve(lines, walk.words, "P(name as the next word)"),
        latex=r"P(w) = \mathrm{softmax}(U h_t)",
        intro="The same readout after every word.",
    )


def walk_attentive(walk: Walk) -> list[Step]:
    model = walk.run.language_model
    assert isinstance(model, Attentive)
    assert model.join is not None
    embedded_TD = model.embedding.weight[walk.ids_1T[0]]
    steps, hidden_TD = _gates(walk, model, embedded_TD, attends=True)
    score_TT = model.score(hidden_TD[None, None], hidden_TD[None, None])[0, 0]
    hidden = torch.ones_like(score_TT, dtype=torch.bool).triu()
    weights_TT = score_TT.masked_fill(hidden, -torch.inf).softmax(1).nan_to_num(0)
    context_TD = weights_TT @ hidden_TD
    joined_TD = torch.tanh(model.join(torch.cat([hidden_TD, context_TD], 1)))
    seen, weight = walk.looked(weights_TT)
    return [
        *first_steps(walk, embedded_TD),
        *steps,
        Step(
            "Scores",
            f"s_ij = {model.score.formula}, for j < i",
            f"{walk.last} has {len(walk.words) - 1} scores, one for each earlier state.",
            {"scores of the last word": numbers(score_TT[-1, :-1])},
            walk.grid(
                score_TT.masked_fill(hidden, 0), "scores; hidden squares are drawn as 0", walk.words, 1
            ),
            latex=r"s_{ij} = h_i^\top W h_j",
            intro="The state asks all states before it.",
        ),
        Step(
            "Weights and context",
            "a_ij = softmax_j(s_ij),  c_i = sum_j a_ij h_j",
            f"{walk.last} gives the state at '{seen}' {weight:.3f} of its weight. That state has read all "
            f"words up to '{seen}'.",
            {"weights of the last word": numbers(weights_TT[-1]), "context": numbers(context_TD[-1])},
            walk.grid(weights_TT, "a", walk.words),
            latex=r"a_{ij} = \mathrm{softmax}_j(s_{ij}), \qquad c_i = \sum_j a_{ij} h_j",
        ),
        Step(
            "Join",
            "f = tanh(W [h; c])",
            "State and context become one vector.",
            {"f": numbers(joined_TD[-1])},
            Grid(
                numbers(torch.stack([hidden_TD[-1], context_TD[-1], joined_TD[-1]])),
                ["h", "c", "f"],
                [str(place) for place in range(hidden_TD.shape[1])],
                "the last word",
                2,
            ),
            latex=r"f = \tanh(W [h; c])",
        ),
        *readout_steps(walk, joined_TD, "tanh(W [h; c])"),
        choose_a_word(walk),
        other_pronoun(walk),
    ]
