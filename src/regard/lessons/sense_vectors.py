"""The lesson about Backpacks: sense vectors, weighted by the context.

Shape legend: T positions, L senses, D components, V vocabulary.
"""

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.sense_table import said, sense_vectors
from regard.lessons.drawing import Grid, Row
from regard.lessons.lesson import Step, listed, numbers, vector
from regard.lessons.question import ask
from regard.lessons.shipped import ids_of, shipped
from regard.parts.look import Look, Place
from regard.parts.senses import sum_senses, topic_evidence
from regard.runs.run import Run

COMPONENTS = ("positive", "negative", "skateboarding", "health")
SENSES = {  # (sense 0, sense 1), components: positive, negative, skateboarding, health
    "that": ((0, 0, 0, 0), (0, 0, 0, 0)),
    "was": ((0, 0, 0, 0), (0, 0, 0, 0)),
    "trick": ((0, 0, 1, 0), (0, 0, 0, 0)),
    "surgery": ((0, 0, 0, 0), (0, 0, 0, 1)),
    "sick": ((1, 0, 1, 0), (0, 1, 0, 1)),
}


def backpack(
    sentence: str = "That trick was sick",
    other: str = "That surgery was sick",
    senses: tuple[str, ...] = ("-",),
) -> list[Step]:
    """Sense vectors, weighted by the evidence of the other words: the same word is positive or negative."""
    table = SENSES | _own(senses)
    steps = []
    for text in (sentence, other):
        steps += _worked(text, table, "" if text == sentence else f", {text}")
    return [*steps, *_trained()]


def _own(written: tuple[str, ...]) -> dict[str, tuple]:
    """Read `word 1,0,1,0 0,1,0,1` as a word with its two senses."""
    own = {}
    for line in written:
        word, *senses = line.split()
        if word == "-" and not senses:
            continue
        try:
            vectors = tuple(tuple(float(part) for part in sense.split(",")) for sense in senses)
        except ValueError:
            vectors = ()
        if len(vectors) != 2 or {len(vector) for vector in vectors} != {4}:
            raise UserError(
                f"senses are written like 'cool 1,0,1,0 0,0,0,0' (two of four numbers), not {line!r}"
            )
        own[word.lower()] = vectors
    return own


def _worked(text: str, table: dict[str, tuple], name: str) -> list[Step]:
    words = text.lower().split()
    unknown = [word for word in words if word not in table]
    if unknown or not words:
        raise UserError(f"no senses for {' '.join(unknown) or 'nothing'}; the words are: {', '.join(table)}")
    senses_TLD = torch.tensor([table[word] for word in words], dtype=torch.float64)
    alpha_TL, query_TL = topic_evidence(senses_TLD, topics=2)
    output_TD, by_query = (
        sum_senses(torch.diag_embed(weights_TL.T)[None], senses_TLD.transpose(0, 1)[None])[0]
        for weights_TL in (alpha_TL, query_TL)
    )
    positive, negative = float(output_TD[-1, 0]), float(output_TD[-1, 1])
    mood = "positive" if positive > negative else "negative" if negative > positive else "neither"
    last, rows = words[-1], [f"{word} {sense}" for word in words for sense in range(2)]
    evidence = [word for word in words[:-1] if any(part for sense in table[word] for part in sense[2:])]
    because = f"The evidence comes from {listed(evidence)}." if evidence else "No other word brings evidence."
    return [
        Step(
            f"{text}: senses",
            "C(x)_l, from the word alone",
            "The values are the sense vectors. Their last two components say which topic speaks: they "
            f"are the keys. The two senses of '{last}' are {vector(table[last][0])} and "
            f"{vector(table[last][1])}.",
            {f"senses{name}": numbers(senses_TLD)},
            Grid(numbers(senses_TLD.flatten(0, 1)), rows, list(COMPONENTS), digits=1),
            latex=r"C(x)_\ell \in \mathbb{R}^4",
            intro="Each word has two sense vectors, whatever the context. Components: positive, negative, "
            "skateboarding, "
            'health. `--set senses="cool 1,0,1,0 0,0,0,0"` adds a word of your own.',
        ),
        _alpha(f"{text}: weights", name, words, (alpha_TL, query_TL), because),
        Step(
            f"{text}: output",
            "o_i = sum_j sum_l alpha_{l,i,j} C(x_j)_l",
            f"The output of '{last}' is {vector(numbers(output_TD[-1]))}. Its first two components are "
            f"the sentiment: {mood}.",
            {
                f"output{name}": numbers(output_TD[-1]),
                f"sentiment{name}": numbers(output_TD[-1, :2]),
                f"output by query{name}": numbers(by_query[-1]),
            },
            Grid(numbers(output_TD), words, list(COMPONENTS), "o", 2),
            latex=r"o_i = \sum_j \sum_\ell \alpha_{\ell,i,j}\, C(x_j)_\ell",
        ),
    ]


def _alpha(title: str, name: str, words: list[str], weights: tuple[Tensor, Tensor], because: str) -> Step:
    """The weights of the senses, by the formula and by the query."""
    (alpha_TL, query_TL), last = weights, words[-1]
    return Step(
        title,
        "alpha_{l,i,i} = sum over the others r of C(x_r)_{l+2} / (C(x_r)_2 + C(x_r)_3)",
        f"'{last}' gets {vector(numbers(alpha_TL[-1]))}. {because} The query of a word is the evidence of "
        "the other words. alpha is the formula; the query sums the evidence first and then normalises. "
        "They differ only where the senses are zero, so the outputs are equal.",
        {f"alpha{name}": numbers(alpha_TL), f"query{name}": numbers(query_TL)},
        Row(
            [
                Grid(numbers(alpha_TL), words, ["sense 0", "sense 1"], "alpha"),
                Grid(numbers(query_TL), words, ["sense 0", "sense 1"], "query"),
            ]
        ),
        latex=r"\alpha_{\ell,i,i} = \sum_{r \neq i} \frac{C(x_r)_{\ell+2}}{C(x_r)_2 + C(x_r)_3}",
        intro="The context decides how much each sense speaks.",
        question=ask(
            f"Which sense of '{last}' speaks?",
            (
                _speaks(numbers(alpha_TL[-1])),
                f"Its weights are {vector(numbers(alpha_TL[-1]))}. {because}",
            ),
            *((choice, f"Its weights are {vector(numbers(alpha_TL[-1]))}.") for choice in SPEAKS),
        ),
    )


SPEAKS = ("sense 0", "sense 1", "both", "none")


def _speaks(weights: list[float]) -> str:
    zero, one = (weight > 1e-9 for weight in weights)
    return "both" if zero and one else "sense 0" if zero else "sense 1" if one else "none"


STORY = "Olga called David in the garden . he sang . that was"
OTHER = "Nora thanked David in the park . he slept . that was"
SHOWN = ("David", "Felix", "Olga", "he")


def _trained() -> list[Step]:
    """A trained Backpack: the words that each sense makes likelier, and a sense edited everywhere."""
    run = shipped("walk-backpack")
    tokens = {word: run.tokenizer.prompt(word)[0] for word in SHOWN}
    ids_N = torch.tensor(list(tokens.values()))
    senses_NLD = sense_vectors(run.language_model.double(), ids_N)
    scores_NLV = torch.stack([said(run.language_model, senses_LD) for senses_LD in senses_NLD])
    table = scores_NLV[:, :, ids_N].flatten(0, 1)
    rows = [f"{word}, sense {sense}" for word in SHOWN for sense in range(scores_NLV.shape[1])]
    strongest, raised = divmod(int(table.argmax()), len(SHOWN))
    before, after = (_chances(run, tokens, change) for change in (False, True))
    return [
        Step(
            "A trained Backpack: sense x word",
            "score(next word) = sum_j sum_l alpha_{l,i,j} C(x_j)_l . E_next",
            f"{rows[strongest]} raises '{SHOWN[raised]}' most, by {float(table.max()):.1f}, in whatever "
            "sentence it stands. `regard senses RUN WORD` prints such a table for any run.",
            {"table": numbers(table)},
            Grid(numbers(table), rows, list(SHOWN), "what a sense adds to the score of each next word", 1),
            latex=r"\mathrm{score}(w) = \sum_j \sum_\ell \alpha_{\ell,i,j}\, C(x_j)_\ell \cdot E_w",
            intro=f"A Backpack with two senses a word, trained for seconds on stories such as '{STORY} "
            "David'. Its senses, keys and queries are learned.",
        ),
        _everywhere(before, after),
    ]


def _everywhere(before: list[dict[str, float]], after: list[dict[str, float]]) -> Step:
    rows = [f"{name} {place}" for place in (1, 2) for name in ("before", "after")]
    table = [
        [found[word] for word in ("David", "Felix")]
        for pair in zip(before, after, strict=True)
        for found in pair
    ]
    return Step(
        "One word's senses changed everywhere",
        "C(David)_l <- C(David)_l + a (E_Felix - E_David),  a = C(David)_l . E_David / |E_David|^2",
        f"P(David) goes from {before[0]['David']:.3f} to {after[0]['David']:.3f} and P(Felix) from "
        f"{before[0]['Felix']:.3f} to {after[0]['Felix']:.3f}; in the other story P(Felix) goes from "
        f"{before[1]['Felix']:.3f} to {after[1]['Felix']:.3f}. The text still says 'David'. One word was "
        "changed, and the model changed wherever the word stands.",
        {"before": before, "after": after},
        Grid(table, rows, ["P(David)", "P(Felix)"], "1: Olga called David ...  2: Nora thanked David ..."),
        latex=r"C(x)_\ell \leftarrow C(x)_\ell + \frac{C(x)_\ell \cdot E_x}{\lVert E_x \rVert^2} (E_y - E_x)",
        intro="A sense vector does not depend on the context. So an edit of it is an edit of the model. What "
        "the senses of 'David' say for 'David', they shall say for 'Felix'. The contextual network still "
        "reads 'David'.",
        question=ask(
            f"What will the model say after '{STORY}'?",
            (
                "Felix",
                "The weights still point at the word 'David', whose senses now say 'Felix': "
                f"{after[0]['Felix']:.3f}.",
            )
            if after[0]["Felix"] > after[0]["David"]
            else ("David", f"P(David) is still {after[0]['David']:.3f}."),
            ("Olga", "The pronoun is 'he', and the contextual network has not changed."),
            (
                "David" if after[0]["Felix"] > after[0]["David"] else "Felix",
                f"P(David) is {after[0]['David']:.3f}.",
            ),
        ),
    )


def _chances(run: Run, tokens: dict[str, int], changed: bool) -> list[dict[str, float]]:
    """P(David) and P(Felix) of two stories, before and after the senses of David say Felix."""
    E_VD = run.language_model.get_parameter("embedding.weight").detach()
    david_D, felix_D = E_VD[tokens["David"]], E_VD[tokens["Felix"]]
    found = []
    for text in (STORY, OTHER):
        ids_1T = ids_of(run, text)
        places = (ids_1T[0] == tokens["David"]).nonzero()[:, 0]

        def change(senses_BLTD: Tensor, place: Place, places: Tensor = places) -> Tensor:
            new = senses_BLTD.clone()
            share = (new[0, :, places] @ david_D / david_D.square().sum()).unsqueeze(2)
            new[0, :, places] += share * (felix_D - david_D)
            return new

        with torch.no_grad():
            look = Look([], {"senses": change} if changed else {})
            prediction, _ = run.language_model.double().read_from_start(ids_1T, look=look)
        chances_V = prediction.log_probs().detach()[0, -1].exp()
        found.append({word: float(chances_V[tokens[word]]) for word in ("David", "Felix")})
    return found
