"""The whole walk: one small trained model, one sentence, every number in order, to the next word.

The steps compute the numbers again from the weights, in float64. The last step compares them with those of
the model. walks_transformer.py and walks_recurrent.py hold the middle of each walk.

Shape legend: T positions, V vocabulary, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UserError
from regard.lessons.drawing import Bars, Grid, Picture, Row
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.lessons.shipped import ids_of, likeliest, shipped
from regard.runs.run import Run

STORY = "Olga called David in the garden . he sang . that was"


@dataclass(frozen=True)
class Walk:
    """A run and a text, with the words that pictures are labelled by."""

    run: Run
    text: str
    ids_1T: Tensor
    words: list[str]
    temperature: float
    top_k: int

    @classmethod
    def begin(cls, model: str, text: str, temperature: float, top_k: int) -> "Walk":
        run = shipped(f"walk-{model}")
        run.language_model.double()
        return cls(run, text, ids_of(run, text), ["<s>", *text.split()], temperature, top_k)

    @property
    def last(self) -> str:
        return f"'{self.words[-1]}'"

    def grid(self, values_TD: Tensor, title: str, names: list[str] | None = None, digits: int = 2) -> Grid:
        columns = names or [str(place) for place in range(values_TD.shape[1])]
        return Grid(numbers(values_TD), self.words, columns, title, digits)

    def looked(self, weights_TT: Tensor, row: int = -1) -> tuple[str, float]:
        """Return the word that a row looks at most, and its weight."""
        weight, place = weights_TT[row].max(0)
        return self.words[int(place)], float(weight)


def walk(
    model: str = "transformer", text: str = STORY, temperature: float = 2.0, top_k: int = 3
) -> list[Step]:
    """One trained model, one sentence, every number in order: from the one-hot word to the next word."""
    from regard.lessons.walks_backpack import walk_backpack
    from regard.lessons.walks_recurrent import walk_attentive, walk_lstm
    from regard.lessons.walks_transformer import walk_transformer

    kinds: dict[str, Callable[[Walk], list[Step]]] = {
        "transformer": walk_transformer,
        "lstm": walk_lstm,
        "attentive": walk_attentive,
        "backpack": walk_backpack,
    }
    if model not in kinds:
        raise UserError(f"there is no walk through {model!r}; there are: {', '.join(kinds)}")
    need(temperature >= 0.001, "the temperature must be 0.001 or more")
    with torch.no_grad():
        return kinds[model](Walk.begin(model, text, temperature, top_k))


def first_steps(walk: Walk, embedded_TD: Tensor) -> list[Step]:
    """From words to one-hot vectors to embeddings."""
    size, ids = walk.run.language_model.vocabulary_size, walk.ids_1T[0].tolist()
    return [
        Step(
            "Words are one-hot vectors",
            "w_t = (0, ..., 0, 1, 0, ..., 0)",
            f"{walk.last} is number {ids[-1]} of the vocabulary: its vector has a 1 at place {ids[-1]}.",
            {"numbers": ids, "vocabulary": size},
            Row([Grid([ids], ["number"], walk.words, "the number of each word", 0)]),
            latex=r"w_t = (0, \ldots, 0, 1, 0, \ldots, 0) \in \mathbb{R}^{V}",
            intro=f"The text is '{walk.text} ___'. The model knows {size} tokens; <s> begins every text.",
            question=ask(
                f"How long is the one-hot vector of {walk.last}?",
                (str(size), "One place for each token of the vocabulary."),
                (str(embedded_TD.shape[1]), "That is the width of the embedding, which comes next."),
                (str(len(ids)), "That is the length of the text."),
            ),
        ),
        Step(
            "Embedding",
            "x_t = E^T w_t: row w_t of E",
            f"E^T times a one-hot vector picks a row of E. Row {ids[-1]} is the vector of {walk.last}.",
            {"E": [size + 2, embedded_TD.shape[1]], "x of the last word": numbers(embedded_TD[-1])},
            walk.grid(embedded_TD, "x: blue above 0, orange below"),
            latex=r"x_t = E^\top w_t",
            intro=f"E has a row of {embedded_TD.shape[1]} learned numbers for each token.",
        ),
    ]


def readout_steps(walk: Walk, features_TD: Tensor, said: str) -> list[Step]:
    """From the last features to the probabilities of the next word, and the comparison with the model."""
    model = walk.run.language_model
    readout = model.readout(features_TD[None], model.embedding)  # type: ignore[operator]
    scores_V = readout.weight_VD @ features_TD[-1] + readout.bias_V
    chances_V = scores_V.softmax(0)
    own, _ = model.read_from_start(walk.ids_1T)
    difference = float((chances_V.log() - own.log_probs()[0, -1]).abs().max())
    best = likeliest(walk.run, own, 5)
    places = [walk.run.tokenizer.prompt(word)[0] for word, _ in best if not word.startswith("<")]
    shown = {walk.run.tokenizer.name(token): float(scores_V[token]) for token in places}
    return [
        Step(
            "Readout",
            f"scores = U f + b, f: {said}",
            f"The highest score is {max(shown.values()):.2f}, for "
            f"'{max(shown, key=lambda word: shown[word])}'. U shares its rows with E.",
            {"f": numbers(features_TD[-1])},
            Bars(list(shown.values()), list(shown), "scores of the five likeliest words"),
            latex=r"s = U f + b",
            intro=f"f, the last vector, is compared with the vector of each of the {model.vocabulary_size} "
            "tokens.",
        ),
        Step(
            "Softmax: the next word",
            "P(w) = e^s_w / sum e^s",
            f"After '{walk.text}' the model says '{best[0][0]}' with probability {best[0][1]:.3f}. The "
            f"numbers above agree with the library's own model to {difference:.0e}.",
            {"likeliest": dict(best), "largest difference": difference},
            Bars([p for _, p in best], [word for word, _ in best], "P(next word)"),
            latex=r"P(w) = \frac{e^{s_w}}{\sum_{w'} e^{s_{w'}}}",
            question=ask(
                f"What comes after '{walk.text}'?",
                (best[0][0], f"Its probability is {best[0][1]:.3f}."),
                *(
                    (word, f"The model says '{best[0][0]}' ({best[0][1]:.3f}).")
                    for word in walk.words
                    if word[0].isupper()
                ),
            ),
        ),
    ]


def other_pronoun(walk: Walk) -> Step:
    """The same story with the other pronoun: an experiment with the model."""
    swapped = {"he": "she", "she": "he"}
    other = " ".join(swapped.get(word, word) for word in walk.text.split())
    own, _ = walk.run.language_model.read_from_start(walk.ids_1T)
    changed, _ = walk.run.language_model.read_from_start(ids_of(walk.run, other))
    best, then = likeliest(walk.run, own, 1)[0], likeliest(walk.run, changed, 1)[0]
    return Step(
        "Change one word",
        "he <-> she",
        f"'{walk.text}': {best[0]} ({best[1]:.3f}). '{other}': {then[0]} ({then[1]:.3f}).",
        {"P before": best[1], "P after": then[1]},
        intro="The whole walk depends on one small word.",
    )


def curve(lines: dict[str, list[float]], words: list[str], title: str) -> Picture:
    """Draw a number for each word of the text, in several rows."""
    return Grid(list(lines.values()), list(lines), words, title, 2)
