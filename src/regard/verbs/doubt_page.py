"""The page and the tables of regard doubt, with plain words that say what the figures mean."""

from regard.inside.doubt import Doubt, picture
from regard.inside.sheet import Heading, Part, Picture, Prose, Table
from regard.parts.edits import Move

MOVING = (
    "The attention weights in the row that decides the prediction (of the last position, of the blank, or "
    "of the pooling) were replaced by three others: the same weights in a random order, uniform weights, "
    "and the farthest weights that a search found while the prediction stayed within epsilon (total "
    "variation of the whole distribution). Distances are Jensen-Shannon divergences in nats, averaged over "
    "heads. “most” is the largest distance that any weights can have from the model's own. If “farthest” "
    "is close to “most”, very different weights give the same prediction, and the weights alone do not "
    "explain the prediction. This does not show that the model ignores the words with large weights: "
    "nearly uniform weights (entropy near 1) can move without much effect, and other layers may carry the "
    "same information."
)
JUDGING = (
    "Every method gives each word a score for this prediction. Comprehensiveness is the probability that is "
    "lost when a method's first words are left out, sufficiency the probability that is lost when only these "
    "words are kept (means over 1, 5, 10, 20 and 50% of the words). A method that finds the important words "
    "has a high comprehensiveness and a low sufficiency. Random orders are the floor: a method that is no "
    "better than a random order has found nothing here. Leaving words out makes texts unlike the training "
    "text, so both numbers also measure how the model reacts to unusual texts."
)
DISAGREEING = (
    "Disagreement is the share of pairs of words that two methods order differently: 0 for the same order, "
    "0.5 for chance, 1 for the reverse order. Agreement does not prove that two methods are right, and "
    "disagreement does not say which of them is wrong."
)
CONTROLLING = (
    "The controls follow Wiegreffe and Pinter (2019). “right” is the share of words or texts that were "
    "predicted right. If uniform weights lose nothing, attention is not needed on this text. Two seeds "
    "differ by chance alone, so an adversary whose weights are no farther from the run's than another seed's "
    "shows little. If words without context are predicted better with the run's frozen weights than with "
    "uniform weights, the weights carry information that another model can use. An adversary with a small "
    "variation and a large divergence is a model with the same predictions and other weights. The trainings "
    "are short: compare their losses with each other, not with the loss of the run."
)

REGIONS = (
    "The words of these tables are the regions of the image, numbered row by row from the upper left corner. "
    "A region that is left out is hidden from attention, and its neighbours see grey pixels there. "
    "In the picture a region is bright if its score is high; scores below 0 are dark."
)

SAYING = (
    "The search changed the weights in the row that decides the prediction until the word was the "
    "likeliest one. The weight moved is the total variation between new and own weights, summed over "
    "heads: 1 is all the weight of one head. The search may miss smaller changes, and “not reached” is no "
    "proof. A small change that makes the model say another word shows that attention decides here. A word "
    "that is not reached, however the weights are set, is not decided by the place where this position "
    "looks."
)


def moved_table(doubted: Doubt) -> Table:
    columns = ["weights of", "farthest", "most", "variation", "entropy"]
    columns += ["permuted", "variation", "uniform", "variation"]
    rows = [
        [
            one.name,
            f"{one.divergence:.3f}",
            f"{one.most:.3f}",
            f"{one.variation:.4f}",
            f"{one.entropy:.2f}",
            f"{one.permuted_divergence:.3f}",
            f"{one.permuted_variation:.4f}",
            f"{one.uniform_divergence:.3f}",
            f"{one.uniform_variation:.4f}",
        ]
        for one in doubted.moved
    ]
    return Table(columns, rows)


def judged_table(doubted: Doubt) -> Table:
    best = {one.method: _first_words(doubted, one.scores) for one in doubted.attributions}
    rows = [
        [one.method, f"{one.comprehensiveness:+.3f}", f"{one.sufficiency:+.3f}", best.get(one.method, "")]
        for one in doubted.judgements
    ]
    return Table(["order of words by", "comprehensiveness", "sufficiency", "its first words"], rows)


def _first_words(doubted: Doubt, scores: list[float]) -> str:
    order = sorted(range(len(scores)), key=lambda place: -scores[place])[:3]
    if doubted.parts == "regions":
        return ", ".join(doubted.words[place] for place in order)
    return ", ".join(f"{doubted.words[place].strip() or '␣'} ({place + 1})" for place in order)


def disagreement_table(doubted: Doubt) -> Table:
    names = [one.method for one in doubted.attributions]
    rows = [
        [
            name,
            *(f"{share:.2f}" if other != name else "-" for other, share in zip(names, shares, strict=True)),
        ]
        for name, shares in zip(names, doubted.disagreements, strict=True)
    ]
    return Table(["disagreement", *names], rows)


def word_table(doubted: Doubt) -> Table:
    methods = [("attention", doubted.attributions[0].scores), ("moved", doubted.moved_words)]
    methods += [(one.method, one.scores) for one in doubted.attributions[1:]]
    rows = [
        [
            word if doubted.parts == "regions" else f"{place + 1} {word}",
            *(f"{scores[place]:+.3f}" for _, scores in methods),
        ]
        for place, word in enumerate(doubted.words)
    ]
    return Table([doubted.parts[:-1], *(name for name, _ in methods)], rows)


def control_table(doubted: Doubt) -> Table:
    rows = [
        [
            one.name,
            f"{one.loss:.3f}",
            f"{one.right:.3f}",
            "-" if one.divergence is None else f"{one.divergence:.3f}",
            f"{one.variation:.3f}",
            str(one.steps),
        ]
        for one in doubted.controls
    ]
    return Table(["control", "loss", "right", "divergence", "variation", "steps"], rows)


def change_table(doubted: Doubt) -> Table:
    rows = [
        [
            one.name,
            "not reached" if one.moved is None else f"{one.moved:.3f}",
            str(len(one.edits)),
            f"{one.before:.4f}",
            f"{one.probability:.4f}",
        ]
        for one in doubted.changes
    ]
    word = doubted.changes[0].word.strip()
    return Table(["weights of", "weight moved", "moves", f"P(“{word}”) before", "after, or highest"], rows)


def move_table(doubted: Doubt) -> Table:
    least = doubted.least
    assert least is not None
    rows = [
        [
            f"{move.site} {_head(move)}",
            f"{move.share:.2f}",
            f"{source.strip() or '␣'} ({move.source})",
            f"{to.strip() or '␣'} ({move.to})",
        ]
        for move, (source, to) in zip(least.edits, least.words, strict=True)
    ]
    return Table(["head", "share", "of the weight on", "goes to"], rows)


def _head(move: Move) -> str:
    return "" if move.heads is None else f"head {move.heads[0]}"


def said(doubted: Doubt) -> str:
    """Say in one line whether the word was reached."""
    word = doubted.changes[0].word.strip()
    least = doubted.least
    if least is None:
        highest = max(one.probability for one in doubted.changes)
        return (
            f"“{word}” cannot be reached by attention, as far as the search can tell: "
            f"the highest probability that it found is {highest:.4f}."
        )
    return (
        f"The least change found moves {least.moved:.3f} of weight in {least.name}, "
        f"and the model says “{word}” (P {least.before:.4f} before, {least.probability:.4f} after)."
    )


def about(doubted: Doubt) -> str:
    """Describe the prediction in one line."""
    word, count = doubted.target, len(doubted.words)
    after = f"with {count} regions" if doubted.parts == "regions" else f"after {count} words"
    return f"P(“{word}”) = {doubted.probability:.3f} {after}; epsilon {doubted.epsilon:g}"


def page(doubted: Doubt) -> list[Part]:
    parts: list[Part] = [] if doubted.parts == "regions" else [Prose(" ".join(doubted.words))]
    parts += [Prose(about(doubted)), *map(Prose, doubted.notes)]
    parts += [Prose(REGIONS)] if doubted.parts == "regions" else []
    parts += [
        Picture(picture(doubted)),
        Heading("How far attention can move"),
        moved_table(doubted),
        Prose(MOVING),
    ]
    parts += [Heading("What else says what mattered"), judged_table(doubted), Prose(JUDGING)]
    parts += [disagreement_table(doubted), Prose(DISAGREEING), Prose(complete(doubted))]
    if doubted.changes:
        word = doubted.changes[0].word.strip()
        parts += [Heading(f"The least change that says “{word}”"), Prose(said(doubted))]
        parts += [change_table(doubted), *([] if doubted.least is None else [move_table(doubted)])]
        parts += [Prose(SAYING)]
    if doubted.controls:
        parts += [Heading("Controls"), control_table(doubted), Prose(CONTROLLING)]
    return [*parts, Heading(f"Every {doubted.parts[:-1]}"), word_table(doubted)]


def complete(doubted: Doubt) -> str:
    """Say how exact integrated gradients are."""
    gaps = [one.gap for one in doubted.attributions if one.gap is not None]
    if not gaps:
        return ""
    error = f"{gaps[0]:+.1e} nats, the error of the quadrature"
    return f"Integrated gradients sum to log P(text) - log P(no words) up to {error}."
