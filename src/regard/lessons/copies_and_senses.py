"""Copying, Backpacks, translation: mixtures whose parts can be read off.

Shape legend: T positions, L senses, D components, V vocabulary.
"""

import tempfile
from pathlib import Path

import torch

from regard.errors import UserError
from regard.lessons.attention import _row, scores_of
from regard.lessons.lesson import Step, grid, numbers
from regard.machine.device import choose_machine
from regard.models import family_class
from regard.models.predictions import CopyPrediction, SoftmaxPrediction
from regard.parts.attention import beside, weigh
from regard.parts.masks import everything
from regard.parts.scores import Dot
from regard.parts.senses import topic_evidence, weave
from regard.probabilities.translation import translate
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.training.loop import descend
from regard.training.options import read_options
from regard.training.task import ignore_reports
from regard.training.tasks import make_task

TEXT = "Fed Chair Janet Yellen raised rates . Ms."


def copying(text: str = TEXT, word: str = "Yellen", match: float = 4.0, sentinel: float = 2.0) -> list[Step]:
    """What comes after "Ms."? A softmax that never saw the name, a pointer that points at it, their average, and a gate."""
    words = text.split()
    if word not in words:
        raise UserError(
            f"{word!r} does not stand in the text, so it cannot be copied; choose one of its words"
        )
    tokenizer, _ = train_tokenizer([text], TokenOptions(tokens="word"))
    ids = torch.tensor([tokenizer.prompt(text)])
    (token,) = tokenizer.prompt(word)
    size, places = tokenizer.size, torch.arange(len(words))[None]
    vocabulary = SoftmaxPrediction(
        torch.zeros(1, 1, 1, dtype=torch.float64),
        torch.zeros(size, 1, dtype=torch.float64),
        torch.zeros(size, dtype=torch.float64),
    )
    scores_1T = torch.tensor([[match if one == word else 0.0 for one in words]], dtype=torch.float64)
    keys = torch.eye(len(words), dtype=torch.float64)
    pointer = weigh(_row(scores_1T), _row(keys), score=Dot(), mask=everything)[0]
    gated = weigh(
        _row(scores_1T), _row(keys), score=Dot(), mask=everything, normalise=beside(_row(((sentinel,),)))
    )[0]
    average = CopyPrediction(vocabulary, pointer / 2, ids, places, size)
    gate = CopyPrediction(vocabulary, gated[:, :, :-1], ids, places, size)

    def chance(prediction) -> float:
        return float(prediction.log_probs()[0, 0, token].exp())

    return [
        Step(
            "The softmax",
            "P_vocabulary(w)",
            f"After {words[-1]!r} it has no idea: every one of {size} words alike.",
            {"softmax": chance(vocabulary)},
        ),
        Step(
            "The pointer",
            "a_j = softmax of the scores; the words at j",
            f"{word!r} fits best.",
            {"pointer": numbers(pointer[0, 0])},
            grid(numbers(pointer[0]), ["a"], words),
        ),
        Step(
            "Their average",
            "1/2 P_vocabulary(w) + 1/2 sum of a_j where w_j = w",
            "",
            {"average": chance(average), "sum": float(average.log_probs().exp().sum())},
        ),
        Step(
            "A gate",
            "a sentinel stands in the same softmax; its weight g goes to the vocabulary",
            "",
            {
                "gate": float(gate.rest_BT[0, 0]),
                "gated": chance(gate),
                "sum of gated": float(gate.log_probs().exp().sum()),
            },
        ),
    ]


SENSES = {  # (sense 0, sense 1), components: positive, negative, skateboarding, health
    "that": ((0, 0, 0, 0), (0, 0, 0, 0)),
    "was": ((0, 0, 0, 0), (0, 0, 0, 0)),
    "trick": ((0, 0, 1, 0), (0, 0, 0, 0)),
    "surgery": ((0, 0, 0, 0), (0, 0, 0, 1)),
    "sick": ((1, 0, 1, 0), (0, 1, 0, 1)),
}


def backpack(sentence: str = "That trick was sick", other: str = "That surgery was sick") -> list[Step]:
    """Sense vectors, weighed by what the other words say: the same word turns from good to bad."""
    steps = []
    for text in (sentence, other):
        words = text.lower().split()
        unknown = [word for word in words if word not in SENSES]
        if unknown or not words:
            raise UserError(
                f"no senses for {' '.join(unknown) or 'nothing'}; the words are: {', '.join(SENSES)}"
            )
        senses_TLD = torch.tensor([SENSES[word] for word in words], dtype=torch.float64)
        alpha_TL, query_TL = topic_evidence(senses_TLD, topics=2)
        weights_LTT = torch.diag_embed(alpha_TL.T)  # alpha_{l,i,j} = 0 for j != i
        output_TD = weave(weights_LTT[None], senses_TLD.transpose(0, 1)[None])[0]
        by_query = weave(torch.diag_embed(query_TL.T)[None], senses_TLD.transpose(0, 1)[None])[0]
        name = "" if text == sentence else f", {text}"
        steps += [
            Step(
                f"{text}: senses",
                "C(x)_l, from the word alone",
                "[positive, negative, skateboarding, health]",
                {f"senses{name}": numbers(senses_TLD)},
            ),
            Step(
                f"{text}: weights",
                "alpha_{l,i,i} = sum over the others r of C(x_r)_{l+2} / (C(x_r)_2 + C(x_r)_3)",
                "By the formula; and as a query, summed first and then normalised. They differ where senses are zero, so outputs do not.",
                {f"alpha{name}": numbers(alpha_TL), f"query{name}": numbers(query_TL)},
                grid(numbers(alpha_TL), words, ["sense 0", "sense 1"]),
            ),
            Step(
                f"{text}: output",
                "o_i = sum_j sum_l alpha_{l,i,j} C(x_j)_l",
                "What the last word says here; its first two components are the sentiment.",
                {
                    f"output{name}": numbers(output_TD[-1]),
                    f"sentiment{name}": numbers(output_TD[-1, :2]),
                    f"output by query{name}": numbers(by_query[-1]),
                },
            ),
        ]
    return steps


def translation(
    source: str = "I love you a lot",
    target: str = "Te amo mucho",
    weights: tuple[tuple[float, ...], ...] = (
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (0.25, 0.75, 0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.5, 0.5),
    ),
    steps: int = 700,
) -> list[Step]:
    """Different lengths and another order: each target word is a mixture of source words; and what a small trained model looks at."""
    source_words, target_words = source.split(), target.split()
    if (len(two), len(one)) != (len(weights), len(weights[0])):
        raise UserError(
            f"{len(two)} target words and {len(one)} source words need as many rows and columns of weights"
        )
    mixed = weigh(
        _row(scores_of(weights)), _row(torch.eye(len(one), dtype=torch.float64)), score=Dot(), mask=everything
    )[0, 0]
    easy = ["The", "dog", "ran", "really", "fast"], ["El", "perro", "corrió", "muy", "rápido"]
    straight = weigh(
        _row(100 * torch.eye(5, dtype=torch.float64)),
        _row(torch.eye(5, dtype=torch.float64)),
        score=Dot(),
        mask=everything,
    )[0, 0]
    translated, grid_QK, names = _trained(source, steps)
    return [
        Step(
            "Word for word",
            "y_i = x_i",
            "It works here, and only where order and length are the same.",
            {"straight": numbers(straight)},
            grid(numbers(straight), easy[1], easy[0]),
        ),
        Step(
            "A mixture",
            "amo = 1/4 I + 3/4 love",
            "Every target word looks at the whole source.",
            {two[j]: numbers(mixed[j]) for j in range(len(two))},
            grid(numbers(mixed), two, one),
        ),
        Step(
            "A small trained model",
            "a_tj = softmax_j score(s_t, H_j)",
            f"After {steps} steps on the built-in grammar it says: {' '.join(translated)}.",
            {"grid": grid_QK},
            grid(grid_QK, translated, names),
        ),
    ]


def _trained(source: str, steps: int) -> tuple[list[str], list[list[float]], list[str]]:
    """What a small translator says after some steps on the built-in pairs, and where it looks."""
    family = family_class("recurrent-translator")
    options = read_options(family, {"steps": steps, "evaluate_every": steps, "precision": "fp32"})
    task = make_task(family, options)
    torch.manual_seed(1)
    model = task.make(family, options.model)
    assert options.training is not None
    assert task.source_tokenizer is not None
    with tempfile.TemporaryDirectory() as folder:
        descend(model, task, options.training, 1, Path(folder), choose_machine("fp32"), ignore_reports)
    ((best, *_),) = translate(model.cpu().eval(), task.source_tokenizer, task.tokenizer, [source])
    return best.tokens, numbers(best.attention["attention"][0]), best.source_tokens
