"""The whole walk through a Backpack (see walks.py).

Shape legend: T positions, D width, L senses.
"""

from torch import Tensor

from regard.inside.sense_table import sense_vectors
from regard.lessons.drawing import Grid, Row
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.lessons.walks import Walk, first_steps, other_pronoun, readout_steps
from regard.lessons.walks_choice import choose_a_word
from regard.models.backpack import Backpack
from regard.parts.look import Look
from regard.parts.senses import sum_senses


def walk_backpack(walk: Walk) -> list[Step]:
    model = walk.run.language_model
    assert isinstance(model, Backpack)
    embedded_TD = model.embedding.weight[walk.ids_1T[0]]
    senses_TLD = sense_vectors(model, walk.ids_1T[0]).double().clone()
    look = Look(["layer*.attention", "senses.attention"])
    model.read_from_start(walk.ids_1T, look=look)
    weights_LTT = look.maps["senses.attention"]()[0]
    trunk = [numbers(look.maps[f"layer{layer}.attention"]()[0, 0]) for layer in range(2)]
    output_TD = sum_senses(weights_LTT[None], senses_TLD.transpose(0, 1)[None])[0]
    columns = [f"sense {sense}" for sense in range(len(weights_LTT))]
    return [
        *first_steps(walk, embedded_TD),
        Step(
            "Sense vectors",
            "C(x)_l: a function of the word alone",
            f"{len(walk.words)} words with {len(columns)} senses each. The senses of a word are the same "
            "in every text.",
            {"senses": list(senses_TLD.shape)},
            Row([walk.grid(senses_TLD[:, number], name, digits=1) for number, name in enumerate(columns)]),
            latex=r"C(x)_\ell",
        ),
        Step(
            "The contextual network",
            "a Transformer of two layers",
            "It decides only how much each sense of each word counts. Its inside is the walk through a "
            "Transformer.",
            {"last word, layer 0": trunk[0][-1], "last word, layer 1": trunk[1][-1]},
            Row(
                [
                    Grid(map_TT, walk.words, walk.words, f"A of layer {layer}")
                    for layer, map_TT in enumerate(trunk)
                ]
            ),
            latex=r"h = \mathrm{Transformer}(x)",
        ),
        _alpha(walk, weights_LTT, columns),
        _sum(walk, model, weights_LTT, senses_TLD),
        *readout_steps(walk, output_TD, "o"),
        choose_a_word(walk),
        other_pronoun(walk),
    ]


def _alpha(walk: Walk, weights_LTT: Tensor, columns: list[str]) -> Step:
    looked = [walk.looked(weights_TT) for weights_TT in weights_LTT]
    return Step(
        "Weights of senses",
        "alpha_l = softmax(Q_l K_l^T / sqrt(d)), causal",
        " ".join(
            f"For {name}, {walk.last} looks most at '{word}' ({weight:.3f})."
            for name, (word, weight) in zip(columns, looked, strict=True)
        ),
        {name: numbers(weights_LTT[number, -1]) for number, name in enumerate(columns)},
        Row(
            [
                Grid(numbers(weights_TT), walk.words, walk.words, f"alpha of {name}")
                for name, weights_TT in zip(columns, weights_LTT, strict=True)
            ]
        ),
        latex=r"\alpha_\ell = \mathrm{softmax}\left(\frac{Q_\ell K_\ell^\top}{\sqrt{d}}\right)",
    )


def _sum(walk: Walk, model: Backpack, weights_LTT: Tensor, senses_TLD: Tensor) -> Step:
    """The terms of the score of the likeliest word."""
    own, _ = model.read_from_start(walk.ids_1T)
    token = int(own.log_probs()[0, -1].argmax())
    named = walk.run.tokenizer.name(token)
    weighed_TLD = weights_LTT[:, -1].T.unsqueeze(2) * senses_TLD
    score_LT = (weighed_TLD @ model.embedding.weight[token]).T
    columns = [f"sense {sense}" for sense in range(len(weights_LTT))]
    sense, place = divmod(int(score_LT.argmax()), len(walk.words))
    return Step(
        "The sum",
        "o_i = sum_j sum_l alpha_{l,i,j} C(x_j)_l",
        f"The score of '{named}' is a sum over words and senses. The largest term is "
        f"{float(score_LT.max()):.2f}, from {columns[sense]} of '{walk.words[place]}'.",
        {"terms": numbers(score_LT)},
        Grid(numbers(score_LT), columns, walk.words, f"terms of the score of '{named}'", 2),
        latex=r"o_i = \sum_j \sum_\ell \alpha_{\ell,i,j}\, C(x_j)_\ell",
        question=ask(
            f"Which word's sense raises the score of '{named}' most?",
            (walk.words[place], f"{columns[sense]} adds {float(score_LT.max()):.2f}."),
            *(
                (word, f"Its senses add {float(score_LT[:, at].sum()):.2f} together.")
                for at, word in enumerate(walk.words)
                if word[0].isupper() or word in ("he", "she", walk.words[-1])
            ),
        ),
    )
