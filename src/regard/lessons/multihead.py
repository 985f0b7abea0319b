"""The lesson about several heads.

Shape legend: B rows, H heads, T positions, E head width.
"""

import torch
from torch import Tensor

from regard.inside.head_scores import HeadReport, head_report
from regard.lessons.drawing import Bars, Grid
from regard.lessons.lesson import Step, listed, numbers
from regard.lessons.question import ask
from regard.lessons.shipped import ids_of, likeliest, shipped, watched
from regard.models.transformer import Transformer
from regard.parts.look import Look, Place
from regard.runs.run import Run
from regard.text.files import Source
from regard.text.stories import lines, names, repeats

STORY = "Ms. Green knew Mr. Smith . then Mr."
CLAIMED = ("previous token", "induction", "same token", "delimiter or sink", "position")


def heads(story: str = STORY) -> list[Step]:
    """Several heads look at several places at once. What each does is a claim to test."""
    run = shipped("heads")
    ids_1T, words = ids_of(run, story), ["<s>", *story.split()]
    prediction, look = watched(run, ids_1T, "layer*.attention", "layer*.heads", "layer*.attended")
    best = likeliest(run, prediction, 3)
    config = run.language_model.config
    assert isinstance(config, Transformer.Config)
    rows = {
        f"layer {layer} head {head}": numbers(look.maps[f"layer{layer}.attention"]()[0, head, -1])
        for layer in range(config.layers)
        for head in range(config.heads)
    }
    report = head_report(run, [Source("stories", "\n".join(lines(names, 50, seed=3)), 0)])
    looked = {name: words[row.index(max(row))] for name, row in rows.items()}
    return [
        _shapes(config, look, words),
        Step(
            "Where each head looks",
            "the row of the last word",
            f"The model predicts '{best[0][0]}' ({best[0][1]:.3f}). At '{words[-1]}' its heads look most "
            f"at {listed([f'{word!r} ({name})' for name, word in looked.items()])}.",
            {"likeliest": dict(best), "rows": list(rows.values())},
            Grid(list(rows.values()), list(rows), words, "weights of the last word", 2),
            latex=r"\mathrm{softmax}\left(\frac{q_t K^\top}{\sqrt{d_k}}\right)",
            intro=f"A Transformer of {config.layers} layers and {config.heads} heads, trained on stories "
            f"such as '{lines(names, 1, 3)[0]}' and on random words that come again, such as "
            f"'{lines(repeats, 1, 3)[0]}'. The text is '{story}'.",
        ),
        _without_each(run, ids_1T, best[0], list(rows)),
        _induction(run, report, look, words),
        _claims(report),
    ]


def _shapes(config: Transformer.Config, look: Look, words: list[str]) -> Step:
    maps = list(look.maps["layer0.attention"]().shape[1:])
    mixed, projected = (list(look.values[f"layer0.{part}"].shape[1:]) for part in ("heads", "attended"))
    return Step(
        "Split, attend, join, project",
        "head_h = softmax(Q_h K_h^T / sqrt(d_k)) V_h;  [head_1; ...; head_H] W",
        f"{maps[0]} maps of {maps[1]} x {maps[2]} weights, {mixed[0]} outputs of width {mixed[2]}; joined "
        f"and projected they are {projected[1]} wide again.",
        {"maps": maps, "mixed": mixed, "projected": projected},
        latex=r"\mathrm{head}_h = \mathrm{softmax}\left(\frac{Q_h K_h^\top}{\sqrt{d_k}}\right) V_h, \qquad "
        r"[\mathrm{head}_1; \ldots; \mathrm{head}_H]\, W",
        intro=f"Each of the {config.heads} heads has its own queries, keys and values of width "
        f"{config.width // config.heads}. {len(words)} tokens are read.",
        question=ask(
            f"How wide is each of the {config.heads} heads at width {config.width}?",
            (
                str(config.width // config.heads),
                "The width is divided among the heads, so they cost as much as one wide head.",
            ),
            (str(config.width), "Then joining them would make the vectors wider."),
        ),
    )


def _without_each(run: Run, ids_1T: Tensor, best: tuple[str, float], heads: list[str]) -> Step:
    """Set the output of one head to zero, and predict again."""
    word, whole = best
    (token,) = run.tokenizer.prompt(word)
    chances = {}
    for name in heads:
        _, layer, _, head = name.split()

        def silence(mixed_BHTE: Tensor, place: Place, head: int = int(head)) -> Tensor:
            changed = mixed_BHTE.clone()
            changed[:, head] = 0
            return changed

        with torch.no_grad():
            look = Look([], {f"layer{layer}.heads": silence})
            prediction, _ = run.language_model.read_from_start(ids_1T, look=look)
        chances[name] = float(prediction.log_probs().detach()[0, -1, token].exp())
    needed = min(chances, key=lambda name: chances[name])
    spare = max(chances, key=lambda name: chances[name])
    return Step(
        "Without each head",
        f"P({word}) after the output of one head is set to 0",
        f"Without {needed}, P({word}) falls from {whole:.3f} to {chances[needed]:.3f}; without {spare} it "
        f"is {chances[spare]:.3f}. Not every head is needed for this prediction.",
        {"whole": whole} | chances,
        Bars(
            [whole, *chances.values()], ["all heads", *(f"without {name}" for name in chances)], f"P({word})"
        ),
        latex=r"\mathrm{head}_h \leftarrow 0",
        intro="A way to ask what a head does: take it away.",
        question=ask(
            "Does every head matter for this word?",
            ("no", f"Without {spare} the probability is {chances[spare]:.3f}.")
            if chances[spare] > 0.5 * whole
            else ("yes", "Every head that is taken away at least halves the probability."),
            ("yes", f"Without {spare} the probability is {chances[spare]:.3f}.")
            if chances[spare] > 0.5 * whole
            else ("no", "Every head that is taken away at least halves the probability."),
        ),
    )


def _induction(run: Run, report: HeadReport, look: Look, words: list[str]) -> Step:
    """The head with the highest induction score of `regard heads`, on the story."""
    found = max(report.heads, key=lambda head: head.scores["induction"].share)
    score, number = (
        found.scores["induction"],
        [head for head in report.heads if head.site == found.site].index(found),
    )
    map_TT = look.maps[found.site]()[0, number]
    earlier = [place for place, word in enumerate(words[:-1]) if word == words[-1]]
    after = words[earlier[-1] + 1] if earlier else None
    weight, place = map_TT[-1].max(0)
    named = _named(found.site, str(number))
    before = next((head for head in report.heads if head.label == "previous token"), None)
    feeds = (
        ""
        if before is None
        else f" {_named(before.site, before.name).capitalize()}, a 'previous token' head, tells each word "
        f"which "
        "word stood before it; step 3 shows what is lost without it."
    )
    here = f"At the last '{words[-1]}' it looks most at '{words[int(place)]}' ({float(weight):.3f})"
    matched = (
        ": what followed the earlier one."
        if after == words[int(place)]
        else f", and not at '{after}', which followed the earlier one."
        if after
        else ": the word stands there for the first time."
    )
    return Step(
        "An induction head",
        "... a b ... a -> b: look at what followed the same token before",
        f"{named} has the highest score: {score.value:.3f} of its weight lies on what followed the same "
        f"token, "
        f"in random sequences that are repeated (chance: {score.chance:.3f}). "
        f"`regard heads` labels it '{found.label}'. {here}{matched}{feeds}",
        {"induction score": score.value, "chance": score.chance, "head": [found.site, number]},
        Grid(numbers(map_TT), words, words, f"{named}: row i looks at column j", 2),
        latex=r"\ldots\; a\; b\; \ldots\; a \to b",
        intro="A head that continues a pattern cannot know the words in advance: it finds the earlier "
        f"'{words[-1]}', and looks one word further. `regard heads` measures this on random words.",
        question=ask(
            f"Where does such a head look at the last '{words[-1]}'?",
            *(
                ((after, "It followed the earlier one."), (words[-1], "That is the same token: one further."))
                if after
                else (("nowhere in particular", "The word is new here."), (words[-1], "It is new here."))
            ),
            ("<s>", "A head with nothing to find often rests there; this one has something to find."),
        ),
    )


def _claims(report: HeadReport) -> Step:
    """Test whether heads specialise, with the scores of `regard heads`."""
    rows = report.rows()
    labels = [f"{_named(row['site'], row['head'])}: {row['label']}" for row in rows if row["label"]]
    scores = [[float(row.get(kind) or 0.0) for kind in CLAIMED] for row in rows]
    said = (
        f"{len(labels)} of {len(rows)} heads get a label ({'; '.join(labels)})" if labels else "No head does"
    )
    return Step(
        "Do heads specialise?",
        "a label needs a score halfway from chance to 1",
        f"{said}. A head without a label does several things, or nothing that has a name. A label says "
        f"where a head "
        f"looks, not "
        "what the model does with it: try `regard heads` on a run of your own.",
        {"labelled": len(labels), "heads": len(rows), "scores": scores},
        Grid(
            scores,
            [_named(row["site"], row["head"]) for row in rows],
            ["previous", "induction", "same", "sink", "position"],
            "shares of weight",
            2,
        ),
        intro="Lectures say that heads specialise: on near words, on nouns, on names. `regard heads` tests "
        "the claim on random sequences and on text.",
        question=ask(
            f"Of the {len(rows)} heads, how many clearly do one of these things?",
            (str(len(labels)), said + "."),
            (str(len(rows)), said + ". In theory every head has a task of its own."),
            ("0", said + "."),
        ),
    )


def _named(site: str, head: str) -> str:
    """Write a head of a site such as layer0.attention as `layer 0 head 1`."""
    layer = site.split(".")[0].removeprefix("layer")
    return f"layer {layer} head {head.removeprefix('head ')}"
