"""regard doubt RUN --text TEXT: test what attention explains in a prediction, beside other methods."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.boundary import check_ranges
from regard.errors import UserError, notify
from regard.inside.controls import run_controls
from regard.inside.doubt import Doubt, changes_to_say, check_epsilon, doubt_prediction, picture
from regard.inside.edit_model import edited, given_edits, save_edits
from regard.inside.image_subject import caption_subject
from regard.inside.least_change import LeastChange
from regard.inside.observe import Reading, plain_reading
from regard.inside.residual_stream import single_token
from regard.inside.sheet import Heading, Part, Picture, Prose, Table, check_sheet, text_table, write_sheet
from regard.inside.source_reading import translation_reading
from regard.inside.subject import Subject, label_number, label_subject, make_subject
from regard.parts.edits import Move
from regard.parts.look import Side
from regard.ranges import Positive, Whole
from regard.runs.formats import as_run
from regard.runs.labelled import require_labeller
from regard.runs.run import Run
from regard.verbs.arguments import Edits, File, Out, RunLike
from regard.verbs.look import Target
from regard.verbs.look_image import caption_reading
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show, tell

MOVING = (
    "The attention weights in the row of the last position were replaced by three others: the same weights "
    "in a random order, uniform weights, and the farthest weights that a search found while the prediction "
    "stayed within epsilon (total variation of the whole distribution). Distances are Jensen-Shannon "
    "divergences in nats, averaged over heads. “most” is the largest distance that any weights can have from "
    "the model's own. If “farthest” is close to “most”, very different weights give the same prediction, and "
    "the weights alone do not explain the prediction. This does not show that the model ignores the words "
    "with large weights: nearly uniform weights (entropy near 1) can move without much effect, and other "
    "layers may carry the same information."
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
    "The controls follow Wiegreffe and Pinter (2019). If uniform weights lose nothing, attention is not "
    "needed on this text. Two seeds differ by chance alone, so an adversary whose weights are no farther "
    "from the run's than those of another seed shows little. If words without context are predicted better "
    "with the run's frozen weights than with uniform weights, the weights carry information that another "
    "model can use. An adversary with a small variation and a large divergence is a model with the same "
    "predictions and other weights. The trainings are short: compare their losses with each other, not with "
    "the loss of the run."
)

REGIONS = (
    "The words of these tables are the regions of the image, numbered row by row from the upper left corner. "
    "A region that is left out is hidden from attention, and its neighbours see grey pixels there. "
    "In the picture a region is bright if its score is high; scores below 0 are dark."
)

SAYING = (
    "The search changed the weights in the row of the last position until the word was the likeliest one. "
    "The weight moved is the total variation between new and own weights, summed over heads: 1 is all the "
    "weight of one head. The search may miss smaller changes, and “not reached” is no proof. A small change "
    "that makes the model say another word shows that attention decides here. A word that is not reached, "
    "however the weights are set, is not decided by the place where this position looks."
)


@check_ranges
def doubt(
    run: RunLike,
    text: str = "",
    *,
    image: File = None,
    target: Target = None,
    word: str | None = None,
    position: Whole | None = None,
    epsilon: Positive = 0.01,
    say: str | None = None,
    save_edit: Out = None,
    controls: bool = False,
    minutes: Positive = 2.0,
    edit: Edits = None,
    out: Out = None,
) -> Doubt:
    """Test what attention explains: how far its weights can move, and how other methods score the words.

    >>> regard.doubt("runs/attentive", "The value of the object is the").moved[0].divergence  # doctest: +SKIP

    Args:
        run: A run folder, or a GPT-2 checkpoint.
        text: The text itself; the caption of an image (without it, the captioner's own caption).
        image: An image file, for a captioner. Its regions take the place of the words.
        target: The translation that a translator is made to read; without it, it translates.
        word: The predicted word to explain (of a classifier: the label). Without it, the word that follows in
            the text, or the likeliest word.
        position: The position that predicts the word, from 0, or below 0 from the end. Without it, the last
            one.
        epsilon: The largest total variation at which a prediction counts as kept.
        say: Also search for the least change of attention that makes the model say this word there, or
            give this label.
        save_edit: Write that change to a JSON file, which `regard look` accepts as its `edit`.
        controls: Also train the four controls of Wiegreffe and Pinter on the run's own training text
            (language models).
        minutes: Minutes of training for all controls together.
        edit: Change the model: a JSON file of edits, or the JSON itself.
        out: Write the sheet to a file: .html, .svg, .png or .json.
    """
    check_sheet(out)
    check_epsilon(epsilon)
    if save_edit is not None and say is None:
        raise UserError("`save_edit` goes with `say`, the word that the edit makes the model say")
    opened = edited(run, edit)
    if controls and opened.model.reads != "text":
        raise UserError(f"`controls` are for language models: leave it out for {opened.model.family}")
    if image is not None and opened.model.reads != "captions":
        raise UserError(f"`image` is for captioners; {opened.model.family} does not read images")
    reading, subject = _subject(opened, text, image, target, word, position)
    changes = [] if say is None else _changes(opened, subject, reading, say)
    doubted = replace(doubt_prediction(subject, epsilon, reading.notes), changes=changes)
    if opened.model.reads == "captions":
        before = " ".join(reading.tokens[1 : len(subject.ids)]) or "nothing"
        notes = [*doubted.notes, f"the caption before the word: {before}"]
        doubted = replace(doubted, parts="regions", image=reading.image, notes=notes)
    if save_edit is not None:
        _save(as_run(run), edit, doubted, save_edit)
    if controls:
        doubted = replace(doubted, controls=run_controls(as_run(run), minutes))
    if out is not None:
        title = f"What attention explains: “{doubted.target}” by {opened.model.family}"
        write_sheet(out, title, page(doubted), picture(doubted), doubted.to_json())
    return doubted


def _subject(
    run: Run, text: str, image: File, target: Target, word: str | None, position: int | None
) -> tuple[Reading, Subject]:
    """Return what the model reads, and the prediction to explain."""
    if run.model.label_count is not None:
        return _labelled(run, text, target, word, position)
    if run.model.reads == "captions":
        if target is not None:
            raise UserError("`target` is for translators; give the caption with `text`")
        reading = caption_reading(run, image, text)
        return reading, caption_subject(run.language_model.eval(), run.tokenizer, reading, word, position)
    reading = _reading(run, text, target)
    return reading, make_subject(run.language_model.eval(), run.tokenizer, reading, word, position)


def _labelled(
    run: Run, text: str, target: Target, word: str | None, position: int | None
) -> tuple[Reading, Subject]:
    """Return the reading of a classifier and its prediction; `word` is a label."""
    if target is not None or position is not None:
        raise UserError("`target` and `position` are for models that go on from a text; this one labels it")
    model = require_labeller(run).eval()
    subject = label_subject(model, run.tokenizer, run.config.labels, text, word)
    return Reading(list(subject.ids), list(subject.names)), subject


def _changes(run: Run, subject: Subject, reading: Reading, say: str) -> list[LeastChange]:
    names: dict[Side, Sequence[str]] = {"read": reading.tokens, "given": reading.given_names}
    if run.model.label_count is None:
        token = single_token(run.tokenizer, say)
        word = token, run.tokenizer.name(token)
    else:
        word = label_number(run.config.labels, say), say
    return changes_to_say(subject, run.tokenizer, word, names)


def _save(run: Run, edit: Edits, doubted: Doubt, path: str | Path) -> None:
    """Save the least change after the edits that were given."""
    if doubted.least is None:
        notify(f"no change of attention makes the model say the word: {path} is not written")
    else:
        save_edits(run, [*([] if edit is None else given_edits(run, edit)), *doubted.least.edits], path)


def _reading(run: Run, text: str, target: Target) -> Reading:
    if run.language_model.given is not None:
        return translation_reading(run, text, target)
    if target is not None:
        raise UserError(f"`target` is for translators; {run.language_model.family} reads `text`")
    return plain_reading(run.tokenizer, text)


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
            "-" if one.divergence is None else f"{one.divergence:.3f}",
            "-" if one.variation is None else f"{one.variation:.3f}",
            str(one.steps),
        ]
        for one in doubted.controls
    ]
    return Table(["control", "loss", "divergence", "variation", "steps"], rows)


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


def main(arguments: list[str]) -> None:
    call = parse(doubt, arguments)
    doubted = doubt(**call.values)
    if call.values["out"] is not None:
        tell(f"{call.values['out']} shows it.")
    if call.values["save_edit"] is not None and doubted.least is not None:
        also = " --image FILE" if doubted.parts == "regions" else ""
        again = f"regard look RUN --text TEXT{also} --edit FILE"
        tell(f"{call.values['save_edit']} is written: {again} replays it.")
    if call.json:
        print_json(doubted.to_json())
        return
    for note in doubted.notes:
        tell(note)
    show(about(doubted))
    for table in (moved_table(doubted), judged_table(doubted), disagreement_table(doubted)):
        print(f"\n{text_table(table)}")
    if doubted.changes:
        show(f"\n{said(doubted)}\n{text_table(change_table(doubted))}")
        print("" if doubted.least is None else f"\n{text_table(move_table(doubted))}")
    if doubted.controls:
        print(f"\n{text_table(control_table(doubted))}")
    print("\nfarthest, most: Jensen-Shannon divergences in nats. --out FILE.html explains every number.")
