"""The lesson about two directions: what a bidirectional RNN sees at a word, and what it cannot do.

Shape legend: T positions, D width.
"""

import torch
from torch import Tensor, nn

from regard.lessons.drawing import Bars, Grid
from regard.lessons.inputs import need
from regard.lessons.lesson import Step
from regard.lessons.question import ask
from regard.parts.bidirectional import Bidirectional
from regard.parts.recurrence import Packed

WIDTH = 8
SENTENCE = "the students opened their books"


def directions(sentence: str = SENTENCE, blank: int = 2) -> list[Step]:
    """Two RNNs read a sentence from its two ends. Their states together know every word."""
    words = sentence.split()
    need(len(words) >= 3, "give a sentence of at least three words")
    need(0 <= blank < len(words) - 1, f"the blank is a word before the last one: 0 to {len(words) - 2}")
    torch.manual_seed(1)
    table = nn.Embedding(len(words) + 2, WIDTH).double()  # a row for each word, another word, and the blank
    layers = Bidirectional("rnn", 1, WIDTH, 0.0).double().eval()

    def states(ids: list[int]) -> Tensor:
        tokens_1T = torch.tensor([ids])
        packed = Packed(tokens_1T, torch.tensor([len(ids)]), None)
        with torch.no_grad():
            return layers(table(tokens_1T), packed, None)[0]

    ids = list(range(len(words)))
    other, hidden = len(words), len(words) + 1
    plain_TD = states(ids)
    changes = [states([*ids[:place], other, *ids[place + 1 :]]) - plain_TD for place in ids]
    halves = {"forward": slice(0, WIDTH // 2), "backward": slice(WIDTH // 2, WIDTH), "both": slice(0, WIDTH)}
    moved = {
        name: [[float(change[row, half].norm()) for change in changes] for row in ids]
        for name, half in halves.items()
    }

    def beside(place: int) -> float:
        """Replace one word of the text with the blank. Return how far the state at the blank moves."""
        changed = [other if each == place else each for each in ids]
        rows = [
            [hidden if each == blank else word for each, word in enumerate(row)] for row in (ids, changed)
        ]
        first_TD, second_TD = map(states, rows)
        return float((second_TD - first_TD)[blank].norm())

    return [
        *_sides(words, moved),
        _both(words, moved["both"]),
        _next_word(words, blank, moved),
        _blank(words, blank, [beside(place) for place in ids]),
    ]


def _grid(words: list[str], rows: list[list[float]], title: str) -> Grid:
    return Grid(rows, words, words, title)


def _sides(words: list[str], moved: dict[str, list[list[float]]]) -> list[Step]:
    """The two directions alone."""
    first, last = words[0], words[-1]
    reached = sum(value > 0 for value in (row[-1] for row in moved["forward"]))
    return [
        Step(
            "From the left",
            "forward_i = tanh(W x_i + V forward_{i-1})",
            f"A change of {last!r} reaches {reached} of {len(words)} forward states: its own. No state knows "
            "a word that stands after it.",
            {"moved": moved["forward"]},
            _grid(words, moved["forward"], "how far a changed word (column) moves the forward state (row)"),
            latex=r"\overrightarrow{h}_i = \tanh(W x_i + V \overrightarrow{h}_{i-1})",
            intro="Each word in turn is replaced by another one, and the states are compared.",
            question=ask(
                f"Which forward states move when the last word, {last!r}, is replaced?",
                ("only the last one", "The forward state of a word has read the words up to it."),
                ("all of them", "The earlier states were computed before the last word was read."),
                ("none of them", "The last state has read the last word."),
            ),
        ),
        Step(
            "From the right",
            "backward_i = tanh(W' x_i + V' backward_{i+1})",
            f"A second RNN begins at {last!r} and ends at {first!r}, with weights of its own. The picture is "
            "mirrored.",
            {"moved": moved["backward"]},
            _grid(words, moved["backward"], "how far a changed word (column) moves the backward state (row)"),
            latex=r"\overleftarrow{h}_i = \tanh(W' x_i + V' \overleftarrow{h}_{i+1})",
            intro="The same recurrence, from the other end.",
        ),
    ]


def _both(words: list[str], rows: list[list[float]]) -> Step:
    least = min(min(row) for row in rows)
    return Step(
        "Both",
        "h_i = [forward_i; backward_i]",
        f"Every word moves every state, the least by {least:.2g}. That is what a label, a tag or an "
        "alignment needs: the meaning of a word in its whole sentence.",
        {"moved": rows, "least": least},
        _grid(words, rows, "how far a changed word (column) moves both states (row)"),
        latex=r"h_i = [\overrightarrow{h}_i; \overleftarrow{h}_i]",
        intro="The two states of a word stand side by side.",
    )


def _next_word(words: list[str], place: int, moved: dict[str, list[list[float]]]) -> Step:
    """A state that has read the next word cannot be used to predict it."""
    told, following = moved["both"][place][place + 1], words[place + 1]
    return Step(
        "No language model",
        "P(w_{i+1} | h_i) with h_i that has read w_{i+1}",
        f"The state at {words[place]!r} moves by {told:.2g} when the next word, {following!r}, changes: it "
        "has read the answer. A loss near 0 would mean copying, and in writing a text, the next word is "
        "not there.",
        {"moved by the next word": told, "forward state alone": moved["forward"][place][place + 1]},
        latex=r"P(w_{i+1} \mid h_i), \quad h_i = f(\ldots, w_{i+1}, \ldots)",
        intro=f"Predict {following!r} from the state at {words[place]!r}.",
        question=ask(
            "Why is a bidirectional RNN no language model?",
            (
                "its state has read the word to predict",
                "The backward state at a word has read everything after it, the next word included.",
            ),
            ("it is too slow", "It costs two RNNs, which is not the reason."),
            ("it forgets the first words", "Both directions forget, but neither forgets more than an RNN."),
        ),
    )


def _blank(words: list[str], place: int, moved: list[float]) -> Step:
    hidden = [*words[:place], "___", *words[place + 1 :]]
    return Step(
        "A blank",
        "P(w_i | w_1 .. w_{i-1}, ___, w_{i+1} .. w_n)",
        f"The words on both sides of the blank move its state, and {words[place]!r}, which is hidden, does "
        "not. So the word can be predicted there: regard train reader learns this, and regard fill asks it.",
        {"moved": moved},
        Bars(moved, words, "how far a changed word moves the state at the blank"),
        latex=r"P(w_i \mid w_1 \ldots w_{i-1}, \_, w_{i+1} \ldots w_n)",
        intro=" ".join(hidden),
    )
