"""regard doubt RUN --text TEXT: test what attention explains in a prediction, beside other methods."""

from dataclasses import replace
from pathlib import Path

from regard.boundary import check_ranges
from regard.errors import UserError, notify
from regard.inside.controls import TRAININGS, Controls
from regard.inside.doubt import Doubt, check_epsilon, doubt_prediction, picture
from regard.inside.doubted_run import changes_of, doubted_blank, doubted_label, doubted_prediction
from regard.inside.edit_model import edited, given_edits, save_edits
from regard.inside.label_controls import LabelControls
from regard.inside.observe import Reading, plain_reading
from regard.inside.sheet import check_sheet, text_table, write_sheet
from regard.inside.source_reading import translation_reading
from regard.inside.subject import Subject
from regard.inside.text_controls import TextControls
from regard.ranges import Positive, Whole
from regard.runs.formats import as_run
from regard.runs.run import Run
from regard.verbs.arguments import Edits, File, Out, RunLike
from regard.verbs.doubt_page import (
    about,
    change_table,
    control_table,
    disagreement_table,
    judged_table,
    move_table,
    moved_table,
    page,
    said,
)
from regard.verbs.look import Target
from regard.verbs.look_image import image_reading
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show, tell


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
        text: The text itself, with ___ for each blank of a masked reader; the caption of an image (without
            it, the captioner's own caption).
        image: An image file, for a captioner. Its regions take the place of the words.
        target: The translation that a translator is made to read; without it, it translates.
        word: The predicted word to explain (of a classifier: the label). Without it, the word that follows in
            the text, or the likeliest word.
        position: The position that predicts the word, from 0, or below 0 from the end. Without it, the last
            one; of a masked reader, the first blank.
        epsilon: The largest total variation at which a prediction counts as kept.
        say: Also search for the least change of attention that makes the model say this word there, or
            give this label.
        save_edit: Write that change to a JSON file, which `regard look` accepts as its `edit`.
        controls: Also train the four controls of Wiegreffe and Pinter on the run's own training text
            (language models and classifiers).
        minutes: Minutes of training for all controls together.
        edit: Change the model: a JSON file of edits, or the JSON itself.
        out: Write the sheet to a file: .html, .svg, .png or .json.
    """
    check_sheet(out)
    check_epsilon(epsilon)
    if save_edit is not None and say is None:
        raise UserError("`save_edit` goes with `say`, the word that the edit makes the model say")
    opened = edited(run, edit)
    controlled = _controls(as_run(run)) if controls else None
    if image is not None and opened.model.reads != "captions":
        raise UserError(f"`image` is for captioners; {opened.model.family} does not read images")
    reading, subject = _subject(opened, text, image, target, word, position)
    changes = [] if say is None else list(changes_of(opened, subject, reading, say))
    doubted = replace(doubt_prediction(subject, epsilon, reading.notes), changes=changes)
    if opened.model.reads == "captions":
        before = " ".join(reading.tokens[1 : len(subject.ids)]) or "nothing"
        notes = [*doubted.notes, f"the caption before the word: {before}"]
        doubted = replace(doubted, parts="regions", image=reading.image, notes=notes)
    if save_edit is not None:
        _save(as_run(run), edit, doubted, save_edit)
    if controlled is not None:
        doubted = replace(doubted, controls=controlled.train(minutes=minutes / TRAININGS))
    if out is not None:
        title = f"What attention explains: “{doubted.target}” by {opened.model.family}"
        write_sheet(out, title, page(doubted), picture(doubted), doubted.to_json())
    return doubted


def _controls(run: Run) -> Controls:
    """Return the controls of a run, whose training text is read again."""
    match run.model.reads:
        case "text":
            return TextControls(run)
        case "labels":
            return LabelControls(run)
    family = run.model.family
    raise UserError(f"`controls` are for language models and classifiers: leave it out for {family}")


def _subject(
    run: Run, text: str, image: File, target: Target, word: str | None, position: int | None
) -> tuple[Reading, Subject]:
    """Return what the model reads, and the prediction to explain."""
    if run.model.label_count is not None:
        return _labelled(run, text, target, word, position)
    if run.model.reads == "blanks":
        if target is not None:
            raise UserError(f"`target` is for translators; {run.model.family} fills the blanks of `text`")
        return doubted_blank(run, text, word, position)
    if run.model.reads == "captions":
        if target is not None:
            raise UserError("`target` is for translators; give the caption with `text`")
        reading = image_reading(run, image, text)
    else:
        reading = _reading(run, text, target)
    return reading, doubted_prediction(run, reading, word, position)


def _labelled(
    run: Run, text: str, target: Target, word: str | None, position: int | None
) -> tuple[Reading, Subject]:
    """Return the reading of a classifier and its prediction; `word` is a label."""
    if target is not None or position is not None:
        raise UserError("`target` and `position` are for models that go on from a text; this one labels it")
    return doubted_label(run, text, word)


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
