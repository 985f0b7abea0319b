"""The lesson about self-attention: every word attends to all words.

Shape legend: T positions, D width.
"""

import torch

from regard.errors import UserError
from regard.lessons.attention import Matrix, as_row, scores_of, weights_of
from regard.lessons.drawing import Bars, Grid, Row
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.lessons.shipped import ids_of, likeliest, shipped, watched
from regard.models.transformer import Transformer
from regard.parts.attention import attend
from regard.parts.look import Look
from regard.parts.masks import everything
from regard.parts.scores import Dot
from regard.text.stories import lines, pronouns

FIVE = (
    (0.75, 0.25, 0.0, 0.0, 0.0),
    (0.5, 0.5, 0.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.75, 0.25),
    (0.0, 0.0, 0.0, 0.0, 1.0),
)
PRIZE = "Nobel committee awards Strickland who advanced optics"
BLANK = "___"


def self_attention(
    sentence: str = "I love you a lot",
    weights: Matrix = FIVE,
    hidden: str = PRIZE,
    projections: str = "key-is-value",
) -> list[Step]:
    """Every word attends to all words: without parameters, with projections, and in a trained reader."""
    words, count = sentence.split(), len(weights)
    need(len(weights[0]) == count, "the weights need as many columns as rows")
    if len(words) != count:
        raise UserError(f"the sentence has {len(words)} words and the weights {count} rows: give as many")
    need(projections in PROJECTIONS, f"projections is one of {', '.join(PROJECTIONS)}, not {projections!r}")
    return [_bare(words), _projected(words, weights), _reading(hidden), _why_values(projections)]


def _bare(words: list[str]) -> Step:
    """y_i = sum_j w_ij x_j, by a Transformer block without parameters."""
    torch.manual_seed(1)
    count = len(words)
    config = Transformer.Config(
        layers=1, width=4, heads=1, context=count, projections="none", positions="none"
    )
    model = Transformer(count, config).double().eval()
    x_TD = model.embedding.weight[:count].detach() * 20
    plain = attend(as_row(x_TD), as_row(x_TD), as_row(x_TD), score=Dot(), mask=everything)[0, 0]
    free = weights_of(x_TD, x_TD)
    equal = all(abs(free[i, j] - free[j, i]) < 1e-9 for i in range(count) for j in range(i))
    i, j = max(
        ((i, j) for i in range(count) for j in range(count)),
        key=lambda place: float(free[place] - free[place[::-1]]),
    )
    says = "Each row sums to 1. " + (
        "The matrix is symmetric here."
        if equal
        else f"The scores are symmetric, and the weights are not: '{words[i]}' gives '{words[j]}' "
        f"{free[i, j]:.3f}, and '{words[j]}' gives '{words[i]}' {free[j, i]:.3f}, because each row is "
        "divided by its own sum."
    )
    return Step(
        "Without parameters",
        "y_i = sum_j w_ij x_j,  w = row-wise softmax of x_i^T x_j",
        says,
        {"weights": numbers(free), "row sums": numbers(free.sum(1)), "y": numbers(plain)},
        Grid(numbers(free), words, words, "w: row i attends to column j"),
        latex=r"y_i = \sum_j w_{ij} x_j, \qquad w = \mathrm{softmax}_j(x_i^\top x_j)",
        intro="The weights come from the words' vectors alone (random here). A vector x_i has three roles: "
        "it is weighed in the outputs of others, it asks for its own weights, and it answers when others "
        "ask.",
        question=ask(
            "x_i . x_j equals x_j . x_i. Is w_ij equal to w_ji?",
            (
                "no" if not equal else "yes",
                "The softmax divides each row by its own sum, so equal scores become different weights."
                if not equal
                else "With these vectors all row sums are equal.",
            ),
            (
                "yes" if not equal else "no",
                "The scores are equal. The weights are scores after a softmax over the row."
                if not equal
                else "With these vectors all row sums are equal.",
            ),
        ),
    )


def _projected(words: list[str], weights: Matrix) -> Step:
    """Projections of one-hot words that give the wanted weights: q_i^T k_j = log w_ij."""
    count = len(words)
    x_TD = torch.eye(count, dtype=torch.float64)
    W_q, W_k, W_v = (
        scores_of(weights),
        torch.eye(count, dtype=torch.float64),
        torch.eye(count, dtype=torch.float64),
    )
    query_TD, key_TD, value_TD = x_TD @ W_q, x_TD @ W_k, x_TD @ W_v
    chosen = weights_of(query_TD, key_TD)
    mixed = attend(as_row(query_TD), as_row(key_TD), as_row(value_TD), score=Dot(), mask=everything)[0, 0]
    first = weights[0]
    parts = [f"{weight:g} {word}" for weight, word in zip(first, words, strict=True) if weight]
    most = max(range(count), key=lambda j: first[j])
    says = f"The new vector of '{words[0]}' is {' + '.join(parts)}: a word in its context."
    return Step(
        "With projections",
        "q_i = W_q x_i, k_i = W_k x_i, v_i = W_v x_i;  w_ij = softmax(q_i^T k_j);  y_i = sum_j w_ij v_j",
        f"{says} A weight of 0 comes from a score far below the others.",
        {
            "W_q": numbers(W_q),
            "W_k": numbers(W_k),
            "W_v": numbers(W_v),
            "lecture": numbers(chosen),
            "y": numbers(mixed),
        },
        Row(
            [
                Grid(numbers(W_q.clamp(min=-10)), words, words, "W_q; -10 stands for -10000", 2),
                Grid(numbers(chosen), words, words, "w"),
            ]
        ),
        latex=r"q_i = W_q x_i, \; k_i = W_k x_i, \; v_i = W_v x_i; \quad "
        r"w_{ij} = \mathrm{softmax}_j(q_i^\top k_j); \quad y_i = \sum_j w_{ij} v_j",
        intro="Three maps give each role its own vector. Here the words are one-hot, W_k = W_v = I, and W_q "
        "holds the logarithms of the wanted weights, so that the softmax gives them back.",
        question=ask(
            f"Which word has the largest share in the new vector of '{words[0]}'?",
            (words[most], f"Its weight is {first[most]:g}."),
            *(
                (word, f"Its weight is {first[j]:g}.")
                for j, word in enumerate(words)
                if first[j] < first[most]
            ),
        ),
    )


def _reading(sentence: str) -> Step:
    """One trained reader that sees all words, and one that sees only earlier ones, on the same sentence."""
    words = [BLANK, *sentence.split()[1:]]
    hidden = sentence.split()[0]
    named = ["(blank)", *words[1:]]
    maps, chances = {}, {}
    for name, causal in (("reader", False), ("causal-reader", True)):
        run = shipped(name)
        run.language_model.double().trunk.causal = causal  # type: ignore[union-attr]
        ids_1T = ids_of(run, sentence)[:, 1:]
        (token,) = run.tokenizer.prompt(hidden)
        look = Look(["layer0.attention"])
        with torch.no_grad():
            blank_1T = torch.cat([ids_1T.new_tensor([[run.language_model.start]]), ids_1T[:, 1:]], 1)
            prediction, _ = run.language_model.read_from_start(blank_1T, look=look)
        maps[name] = numbers(look.maps["layer0.attention"]()[0, 0])
        chances[name] = float(prediction.log_probs().detach()[0, 0, token].exp())
    row = maps["reader"][0]
    best = max(range(len(words)), key=lambda place: row[place])
    return Step(
        "A trained reader",
        "row 1 without a mask: all words;  with the causal mask: itself alone",
        f"Without a mask, {BLANK} gives '{words[best]}' {row[best]:.3f} of its weight, and P({hidden}) = "
        f"{chances['reader']:.3f}. With the causal mask the first word sees only itself: its weight is "
        f"{maps['causal-reader'][0][0]:g}, and P({hidden}) = {chances['causal-reader']:.3f}, one guess "
        "among three prizes. A recurrent model is in the same place: its state at the first word knows "
        "the first word only.",
        {
            "P without a mask": chances["reader"],
            "P with a mask": chances["causal-reader"],
            "reader": maps["reader"],
            "causal reader": maps["causal-reader"],
        },
        Row(
            [
                Grid(maps["reader"], named, named, "without a mask", 2),
                Grid(maps["causal-reader"], named, named, "causal", 2),
            ]
        ),
        latex=r"w_{1\cdot} \in \mathbb{R}^n \text{ without a mask}, \qquad w_{1\cdot} = [1, 0, \ldots, 0] "
        r"\text{ causal}",
        intro=f"Two Transformers of one layer, trained for seconds on sentences such as '{sentence}'. The "
        "first word is hidden. The field at the end decides which prize it is.",
        question=ask(
            f"Where does {BLANK} look, in the reader without a mask?",
            (words[best], f"It has {row[best]:.3f} of the weight: the word that decides the hidden one."),
            (
                words[0] if best else words[1],
                "Its own place is blank and holds no information."
                if best
                else f"It has {row[1]:.3f} of the weight.",
            ),
            (words[3], f"The winner's name says nothing about the prize here: {row[3]:.3f}."),
        ),
    )


PROJECTIONS = {  # the maps of a block, and the shipped run that was trained with them
    "learned": "walk-transformer",
    "key-is-value": "walk-key-is-value",
    "none": "walk-none",
}
ASKED = 200  # stories that the three models answer


def _why_values(projections: str) -> Step:
    """Three trained models: with all maps, with keys that are their own values, and without any map."""
    right, chance, weights = dict[str, float](), dict[str, float](), dict[str, int]()
    stories = lines(pronouns, ASKED, seed=11)
    for name, folder in PROJECTIONS.items():
        run = shipped(folder)
        rows_NT = torch.cat([ids_of(run, story) for story in stories])
        with torch.no_grad():
            prediction, _ = run.language_model.double().read_from_start(rows_NT[:, :-1])
            last_NV = prediction.log_probs()[:, -1]
        right[name] = float((last_NV.argmax(1) == rows_NT[:, -1]).double().mean())
        chance[name] = float(last_NV.gather(1, rows_NT[:, -1:]).exp().mean())
        weights[name] = sum(weight.numel() for weight in run.language_model.parameters())
    run = shipped(PROJECTIONS[projections])
    words, ids_1T = ["<s>", *stories[0].split()[:-1]], ids_of(run, stories[0])[:, :-1]
    prediction, look = watched(run, ids_1T, "layer*.attention")
    said = likeliest(run, prediction, 1)[0]
    rows = [numbers(look.maps[f"layer{layer}.attention"]()[0, 0, -1]) for layer in range(2)]
    shared = right["key-is-value"]
    return Step(
        "Why not average the keys?",
        "learned: v = W_v x;   key-is-value: v = k = W_k x;   none: q = k = v = x, and nothing else",
        f"With values of their own, {right['learned']:.0%} of {ASKED} stories get the right name; with "
        f"keys that "
        f"are averaged themselves, {shared:.0%}; without any map, {right['none']:.0%}. "
        + (
            "So here the keys can be averaged: a map to values is "
            f"{weights['learned'] - weights['key-is-value']:,} more numbers, and not a need. "
            if shared > right["learned"] - 0.05
            else "So here values earn their numbers. "
        )
        + (
            "Without maps a word can only look at words like itself, and 'none' has no feed-forward layer "
            "and "
            "no residual either. "
            if right["none"] < shared - 0.05
            else ""
        )
        + f"The model with {projections} says '{said[0]}' ({said[1]:.3f}) after the story in the picture.",
        {"right": right, "mean P(right name)": chance, "numbers": weights},
        Row(
            [
                Bars(list(right.values()), list(right), f"share of {ASKED} stories with the right name"),
                Grid(rows, ["layer 0", "layer 1"], words, f"weights of the last word, {projections}", 2),
            ]
        ),
        latex=r"v_j = W_v x_j \quad \text{or} \quad v_j = k_j = W_k x_j \quad \text{or} \quad "
        r"q_j = k_j = v_j = x_j",
        intro="The query and the key decide where to look. The value says what is found there. Is it needed? "
        f"Three Transformers of two layers, trained alike on stories such as '{stories[1]}' "
        "(`regard train transformer --projections ...`).",
        question=ask(
            "The maps to values are left out, and each key is its own value. Does the model still learn "
            "the stories?",
            *_still(shared > right["learned"] - 0.05, shared),
        ),
    )


def _still(learns: bool, share: float) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the right and the wrong answer, with the measured share."""
    reason = f"Its answer is right in {share:.0%} of the stories."
    return (("yes", reason), ("no", reason)) if learns else (("no", reason), ("yes", reason))
