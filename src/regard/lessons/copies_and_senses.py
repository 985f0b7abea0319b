"""Lessons about copying, Backpacks and translation: mixtures with visible terms.

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
from regard.parts.attention import softmax_with_extra, weigh
from regard.parts.masks import everything
from regard.parts.scores import Dot
from regard.parts.senses import sum_senses, topic_evidence
from regard.probabilities.translation import translate
from regard.text.parallel import built_in
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.training.loop import descend
from regard.training.options import read_options
from regard.training.task import ignore_reports
from regard.training.tasks import make_task

SMALL = {"width": 32, "batch_tokens": 256, "learning_rate": 0.02, "dropout": 0.0, "precision": "fp32"}
LONGEST = 5  # words of a source sentence in the translation lesson
TEXT = "Fed Chair Janet Yellen raised rates . Ms."


def copying(text: str = TEXT, word: str = "Yellen", match: float = 4.0, sentinel: float = 2.0) -> list[Step]:
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
    pointer = weigh(_row(scores_1T), _row(keys), score=Dot(), mask=everything)[0]
    extra = softmax_with_extra(_row(((sentinel,),)))
    gated = weigh(_row(scores_1T), _row(keys), score=Dot(), mask=everything, normalise=extra)[0]
    average = CopyPrediction(vocabulary, pointer / 2, ids, places, size)
    gate = CopyPrediction(vocabulary, gated[:, :, :-1], ids, places, size)

    def chance(prediction) -> float:
        return float(prediction.log_probs()[0, 0, token].exp())

    return [
        Step(
            "The softmax",
            "P_vocabulary(w)",
            f"After {words[-1]!r}, all {size} words have the same probability.",
            {"softmax": chance(vocabulary)},
        ),
        Step(
            "The pointer",
            "a_j = softmax of the scores; the words at j",
            f"{word!r} has the highest score.",
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
            "a sentinel is part of the same softmax; its weight g goes to the vocabulary",
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
    """Sense vectors, weighted by the evidence of the other words: the same word is positive or negative."""
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
        output_TD = sum_senses(weights_LTT[None], senses_TLD.transpose(0, 1)[None])[0]
        by_query = sum_senses(torch.diag_embed(query_TL.T)[None], senses_TLD.transpose(0, 1)[None])[0]
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
                "alpha is the formula. The query sums the evidence first and then normalises. They differ "
                "only where the senses are zero, so the outputs are equal.",
                {f"alpha{name}": numbers(alpha_TL), f"query{name}": numbers(query_TL)},
                grid(numbers(alpha_TL), words, ["sense 0", "sense 1"]),
            ),
            Step(
                f"{text}: output",
                "o_i = sum_j sum_l alpha_{l,i,j} C(x_j)_l",
                "The output of the last word. Its first two components are the sentiment.",
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
    steps: int = 200,
) -> list[Step]:
    """Sentences of other lengths and orders: each target word is a mixture of source words."""
    source_words, target_words = source.split(), target.split()
    if (len(target_words), len(source_words)) != (len(weights), len(weights[0])):
        sizes = f"{len(target_words)} target words and {len(source_words)} source words"
        raise UserError(f"{sizes} need as many rows and columns of weights")
    keys = torch.eye(len(source_words), dtype=torch.float64)
    mixed = weigh(_row(scores_of(weights)), _row(keys), score=Dot(), mask=everything)[0, 0]
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
            "It works only if both sentences have the same length and order.",
            {"straight": numbers(straight)},
            grid(numbers(straight), easy[1], easy[0]),
        ),
        Step(
            "A mixture",
            "amo = 1/4 I + 3/4 love",
            "Every target word attends to the whole source.",
            {word: numbers(weights_K) for word, weights_K in zip(target_words, mixed, strict=True)},
            grid(numbers(mixed), target_words, source_words),
        ),
        Step(
            "A small trained model",
            "a_tj = softmax_j score(s_t, H_j)",
            f"After {steps} steps on short pairs of the built-in grammar, the model writes: "
            f"{' '.join(translated)}.",
            {"grid": grid_QK},
            grid(grid_QK, translated, names),
        ),
    ]


def _trained(source: str, steps: int) -> tuple[list[str], list[list[float]], list[str]]:
    """Train a small translator on the short built-in pairs, and return its translation and its attention.

    Short sentences and a narrow model make the lesson answer within a few seconds.
    """
    family = family_class("recurrent-translator")
    with tempfile.TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs.tsv"
        pairs.write_text(_short_pairs(), encoding="utf-8")
        options = read_options(
            family, {**SMALL, "pairs": str(pairs), "steps": steps, "evaluate_every": steps}
        )
        task = make_task(family, options)
        torch.manual_seed(1)
        model = task.make(family, options.model)
        assert options.training is not None
        assert task.source_tokenizer is not None
        descend(model, task, options.training, 1, Path(folder), choose_machine("fp32"), ignore_reports)
    ((best, *_),) = translate(model.cpu().eval(), task.source_tokenizer, task.tokenizer, [source])
    return best.tokens, numbers(best.attention["attention"][0]), best.source_tokens


def _short_pairs() -> str:
    """Return the built-in sentence pairs of at most LONGEST source words as a table."""
    pairs = built_in()
    lines = zip(pairs.sources, pairs.targets, strict=True)
    return "".join(f"{source}\t{target}\n" for source, target in lines if len(source.split()) <= LONGEST)
