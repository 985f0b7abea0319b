"""The lesson about copying: a softmax over the vocabulary mixed with a pointer to earlier words.

Shape legend: T positions, V vocabulary.
"""

from dataclasses import dataclass

import torch

from regard.errors import UserError
from regard.lessons.attention import as_row, weights_of
from regard.lessons.drawing import Bars, Grid, Row
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import Question, ask
from regard.lessons.shipped import ids_of, likeliest, shipped, watched
from regard.models.predictions import CopyPrediction, SoftmaxPrediction
from regard.parts.attention import softmax_with_extra, weigh
from regard.parts.masks import everything
from regard.parts.scores import Dot
from regard.runs.run import Run
from regard.text.stories import lines, made_names, names, strangers
from regard.tokens.choose import TokenOptions, train_tokenizer

TEXT = "Fed Chair Janet Yellen raised rates . Ms."
OTHER = "Marton"  # the second surname of the story of a stranger
STORY = "Ms. Green knew Mr. Smith . then Mr."


def copying(
    text: str = TEXT, word: str = "Yellen", match: float = 4.0, sentinel: float = 2.0, story: str = STORY
) -> list[Step]:
    """The word after "Ms.": a softmax that never saw the name, a pointer to it, their average, and a gate."""
    words = text.split()
    if word not in words:
        raise UserError(f"{word!r} is not in the text, so it cannot be copied; choose a word of the text")
    tokenizer, _ = train_tokenizer([text], TokenOptions(tokens="word"))
    ids = torch.tensor([tokenizer.prompt(text)])
    (token,) = tokenizer.prompt(word)
    size, places = tokenizer.size, torch.arange(len(words))[None]
    vocabulary = SoftmaxPrediction(
        torch.zeros(1, 1, 1, dtype=torch.float64),
        torch.zeros(size, 1, dtype=torch.float64),
        torch.zeros(size, dtype=torch.float64),
    )
    scores_1T = torch.tensor([[match if other == word else 0.0 for other in words]], dtype=torch.float64)
    keys = torch.eye(len(words), dtype=torch.float64)
    pointer_1T = weights_of(scores_1T, keys)
    extra = softmax_with_extra(as_row(((sentinel,),)))
    gated = weigh(as_row(scores_1T), as_row(keys), score=Dot(), mask=everything, normalise=extra)[0]
    average = CopyPrediction(vocabulary, pointer_1T[None] / 2, ids, places, size)
    gate = CopyPrediction(vocabulary, gated[:, :, :-1], ids, places, size)
    chances = {
        name: float(prediction.log_probs()[0, 0, token].exp())
        for name, prediction in (("softmax", vocabulary), ("average", average), ("gated", gate))
    }
    kept = float(gate.rest_BT[0, 0])
    return [
        _softmax(words, size, chances["softmax"]),
        _pointer(words, word, match, numbers(pointer_1T)),
        _average(word, chances, float(average.log_probs().exp().sum())),
        _gate(word, chances, kept, float(gate.log_probs().exp().sum()), (match, sentinel)),
        _trained(story),
        _unseen(word),
    ]


def _average(word: str, chances: dict[str, float], total: float) -> Step:
    return Step(
        "Their average",
        "1/2 P_vocabulary(w) + 1/2 sum of a_j where w_j = w",
        f"P({word}) rises from {chances['softmax']:.3f} to {chances['average']:.3f}. Words that are not "
        "in the text lose half of their probability.",
        {"average": chances["average"], "sum": total},
        latex=r"\frac{1}{2} P_V(w) + \frac{1}{2} \sum_{j:\, w_j = w} a_j",
        intro="The simplest mixture trusts both equally.",
        question=ask(
            f"What is P({word}) in the average?",
            (f"{chances['average']:.3f}", "Half of the softmax's probability and half of the pointer's."),
            (f"{chances['softmax']:.3f}", "That is the softmax alone."),
            (f"{2 * chances['average'] - chances['softmax']:.3f}", "That is the pointer alone."),
        ),
    )


def _gate(
    word: str, chances: dict[str, float], kept: float, total: float, scores: tuple[float, float]
) -> Step:
    match, sentinel = scores
    return Step(
        "A gate",
        "a sentinel is part of the same softmax; its weight g goes to the vocabulary",
        f"The gate leaves {kept:.3f} to the vocabulary, so P({word}) = {chances['gated']:.3f}. A match of "
        f"{match:g} is {'more' if match > sentinel else 'not more'} than the sentinel's {sentinel:g}: the "
        f"model {'trusts the pointer' if kept < 0.5 else 'trusts the vocabulary'}.",
        {"gate": kept, "gated": chances["gated"], "sum of gated": total},
        Bars([kept, 1 - kept], ["vocabulary", "pointer"], "who is trusted"),
        latex=r"[a; g] = \mathrm{softmax}([s; s_\circ]), \quad P(w) = g\, P_V(w) + \sum_{j:\, w_j = w} "
        r"a_j",
        intro="The model learns when to trust which. A sentinel competes with the words for the "
        "pointer's weight.",
    )


def _softmax(words: list[str], size: int, chance: float) -> Step:
    return Step(
        "The softmax",
        "P_vocabulary(w)",
        f"All {size} tokens have the same probability, {chance:.3f}: a name that occurs once teaches the "
        "softmax nothing.",
        {"softmax": chance},
        latex=r"P_V(w)",
        intro=f"'{' '.join(words)} ___'. The model has not been trained, so its softmax is uniform over "
        f"{size} tokens: the words, the end of a line, and a token for unknown words.",
    )


def _pointer(words: list[str], word: str, match: float, pointer_1T: list[list[float]]) -> Step:
    share = max(pointer_1T[0])
    return Step(
        "The pointer",
        "a_j = softmax of the scores; the words at j",
        f"{word!r} has {share:.3f} of the weight.",
        {"pointer": pointer_1T[0]},
        Grid(pointer_1T, ["a"], words),
        latex=r"a_j = \mathrm{softmax}_j(s_j)",
        intro=f"Attention over the earlier words is a distribution, too. {word!r} has a score of {match:g}, "
        "the others 0.",
        question=ask(
            f"How much of the weight is on {word!r}?",
            (f"{share:.3f}", f"e^{match:g} / (e^{match:g} + {len(words) - 1})."),
            (f"{1 / len(words):.3f}", "That would be uniform attention."),
            ("1.000", "A softmax leaves something to every word."),
        ),
    )


def _trained(story: str) -> Step:
    """A small attentive model with a pointer sentinel, trained for seconds."""
    run = shipped("copying")
    words = story.split()
    prediction, look = watched(run, ids_of(run, story), "attention")
    weights = numbers(look.maps["attention"]()[0, 0, -1])
    *pointed, gate = weights
    best = likeliest(run, prediction, 3)
    looked = max(range(len(words)), key=lambda place: pointed[place + 1])
    return Step(
        "A trained model",
        "LSTM, attention with a gate, one layer of width 16",
        f"After '{story}' the likeliest word is '{best[0][0]}' ({best[0][1]:.3f}). The pointer looks most "
        f"at '{words[looked]}' ({pointed[looked + 1]:.3f}), and {gate:.3f} goes to the vocabulary.",
        {"likeliest": dict(best), "weights": weights},
        Grid([weights], ["a"], ["<s>", *words, "vocab."]),
        latex=r"[a; g] = \mathrm{softmax}([s; s_\circ])",
        intro=f"Trained on stories such as '{lines(names, 1, 3)[0]}'. The last name is one of two, and the "
        "title says which. Which stories it knows: bench/lesson_runs.py.",
    )


def _unseen(word: str) -> Step:
    """A name that training never saw, copied by a trained model that reads subwords."""
    run = shipped("copying-subwords")
    stories = lines(strangers, 4000, seed=1)  # those of the training: bench/lesson_runs.py
    by_word, _ = train_tokenizer(["\n".join(stories)], TokenOptions(tokens="word", document="line"))
    unknown = by_word.prompt(word)[0] == by_word.unknown
    known, strange = made_names()
    whole = sum(_Subwords.read(run, name).copied for name in strange)
    told = _Subwords.read(run, word)
    return Step(
        "A name that training never saw",
        f"{word} = {' + '.join(told.names)};  P(w) = sum of a_j where w_j = w, + g P_V(w), w a subword",
        f"{_told_of_subwords(word, unknown, told)} Of {len(strange)} surnames that stand in no story, the "
        f"model "
        f"copies {whole} whole.",
        {
            "unknown as a word": int(unknown),
            "subwords": len(told.names),
            "P(subword)": [row[0] for row in told.table],
            "from the pointer": [row[1] for row in told.table],
            "unseen names copied whole": [whole, len(strange)],
        },
        Row(
            [
                Grid(told.table, told.names, ["P(subword)", "pointer", "vocabulary"], f"{word} in subwords"),
                Grid(
                    told.maps,
                    [f"-> {name}" for name in told.names],
                    [*told.context, "vocab."],
                    "where the pointer looks",
                    2,
                ),
            ]
        ),
        latex=r"P(w) = \sum_{j:\, w_j = w} a_j + g\, P_V(w)",
        intro=f"A second model reads subwords. Its stories have surnames such as '{stories[0].split()[1]}', "
        f"{len(known)} combinations of a first and a last part; {len(strange)} others are kept away from it. "
        f"The text is '{told.text} ___'.",
        question=_ask_of_subwords(told),
    )


@dataclass(frozen=True)
class _Subwords:
    """The subwords of a name, and where the model finds each of them when the name comes again."""

    text: str
    names: list[str]  # of the subwords
    said: list[str]  # the likeliest subword at the place of each
    table: list[list[float]]  # of each subword: its probability, and the parts from pointer and vocabulary
    maps: list[list[float]]  # of each subword: the pointer's weights, the gate last
    context: list[str]

    @classmethod
    def read(cls, run: Run, word: str) -> "_Subwords":
        text = f"Ms. {word} knew Mr. {OTHER} . then Ms."
        before, whole = (run.tokenizer.prompt(told) for told in (text, f"{text} {word}"))
        subwords, places = whole[len(before) :], range(len(before), len(whole))
        ids_1T = torch.tensor([[run.language_model.start, *whole[:-1]]])
        prediction, look = watched(run, ids_1T, "attention")
        chances_TV, maps_TK = prediction.log_probs().detach()[0].exp(), look.maps["attention"]()[0, 0]
        table = []
        for place, subword in zip(places, subwords, strict=True):
            chance = float(chances_TV[place, subword])
            pointed = float(maps_TK[place, :-1][ids_1T[0] == subword].sum())
            table.append([chance, pointed, chance - pointed])
        name = run.tokenizer.name
        return cls(
            text,
            [name(subword).strip() for subword in subwords],
            [name(int(chances_TV[place].argmax())).strip() for place in places],
            table,
            numbers(maps_TK[len(before) :]),
            ["<s>", *(name(token).strip() or "_" for token in whole[:-1])],
        )

    @property
    def copied(self) -> bool:
        return self.names == self.said


def _ask_of_subwords(told: _Subwords) -> Question | None:
    """Ask which earlier subword the pointer looks at for the last subword of the name."""
    row = told.maps[-1][:-1]
    looked = max(range(len(row)), key=lambda place: row[place])
    before = told.context[looked - 1]
    reason = f"It has {row[looked]:.3f} of the weight: the subword that followed '{before}' before."
    return ask(
        f"The model has written '{told.text} {''.join(told.names[:-1])}'. Which earlier subword must the "
        "pointer look at now?",
        (f"'{told.context[looked]}'", reason),
        *(
            (f"'{told.context[place]}'", f"It has {row[place]:.3f} of the weight.")
            for place in (looked - 1, 1, len(row) - 1)
            if told.context[place] != told.context[looked]
        ),
    )


def _told_of_subwords(word: str, unknown: bool, told: _Subwords) -> str:
    """Say whether the subwords are copied, and what the model says instead of one that is not."""
    stands = "stands in none of the 4,000 stories" if unknown else "stands in the stories"
    names, said = told.names, told.said
    parts = [
        f"'{name}' {chance:.3f}" for name, chance in zip(names, (row[0] for row in told.table), strict=True)
    ]
    wrong = [(name, other) for name, other in zip(names, said, strict=True) if name != other]
    if wrong:
        right, other = wrong[0]
        verdict = f"Instead of '{right}' the likeliest subword is '{other}': this name is not copied whole."
    elif unknown:
        verdict = (
            "Each subword is the likeliest at its place: the name is copied, because it is made of subwords."
        )
    else:
        verdict = "Each subword is the likeliest at its place."
    subwords = f"As subwords it is {' + '.join(names)}, with the probabilities {', '.join(parts)}"
    return f"'{word}' {stands}. {subwords}. {verdict}"
