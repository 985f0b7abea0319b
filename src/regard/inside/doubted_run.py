"""The prediction of a run that is doubted, whatever it reads, and the changes that make it say a word."""

from collections.abc import Iterator, Sequence

from regard.inside.blank_subject import blank_subject
from regard.inside.doubt import changes_to_say
from regard.inside.image_subject import caption_subject
from regard.inside.least_change import LeastChange
from regard.inside.observe import Reading
from regard.inside.observe_blanks import blank_pieces
from regard.inside.residual_stream import single_token
from regard.inside.subject import Subject, label_number, label_subject, make_subject
from regard.parts.look import Side
from regard.runs.blanks import blank_ids, require_filler
from regard.runs.labelled import require_labeller
from regard.runs.run import Run
from regard.tokens.contract import show_bytes


def doubted_prediction(run: Run, reading: Reading, word: str | None, position: int | None) -> Subject:
    """Return the prediction of a word of a text or a caption that was read."""
    model = run.language_model.eval()
    subject = caption_subject if run.model.reads == "captions" else make_subject
    return subject(model, run.tokenizer, reading, word, position)


def doubted_label(run: Run, text: str, label: str | None) -> tuple[Reading, Subject]:
    """Return the reading of a classifier, and its prediction of a label."""
    model = require_labeller(run).eval()
    subject = label_subject(model, run.tokenizer, run.config.labels, text, label)
    return Reading(list(subject.ids), list(subject.names)), subject


def doubted_blank(run: Run, text: str, word: str | None, position: int | None) -> tuple[Reading, Subject]:
    """Return the reading of a masked reader, and its prediction of the word in a blank."""
    model, ids = require_filler(run).eval(), blank_ids(run, text)
    reading = Reading(ids, list(map(show_bytes, blank_pieces(run, ids))))
    return reading, blank_subject(model, run.tokenizer, reading, word, position)


def changes_of(run: Run, subject: Subject, reading: Reading, say: str) -> Iterator[LeastChange]:
    """Yield the least changes of attention that make the run say a word, or give a label."""
    names: dict[Side, Sequence[str]] = {"read": reading.tokens, "given": reading.given_names}
    if run.model.label_count is None:
        token = single_token(run.tokenizer, say)
        word = token, run.tokenizer.name(token)
    else:
        word = label_number(run.config.labels, say), say
    yield from changes_to_say(subject, run.tokenizer, word, names)
