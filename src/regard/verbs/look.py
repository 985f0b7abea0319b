"""regard look RUN: the predictions and the attention of a run on a text, position by position."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from regard.boundary import check_ranges
from regard.errors import UserError, notify
from regard.inside.by_words import by_words
from regard.inside.edit_files import edits_in_words, edits_to_json
from regard.inside.edit_model import edited, given_edits, save_edits
from regard.inside.observe import Reading, Wanted, observe, plain_reading
from regard.inside.observe_blanks import observe_blanks
from regard.inside.observe_labels import observe_labels
from regard.inside.output import Form, check_ending, picture
from regard.inside.record import Record
from regard.inside.source_reading import translation_reading
from regard.page.files import write_record
from regard.page.notebook import has_widgets, in_notebook, view_of_text
from regard.page.recording import Source, file_of, frame
from regard.probabilities.links import check_links, parse_line
from regard.ranges import Rows
from regard.runs.captioned import given_images
from regard.runs.formats import as_run
from regard.runs.labelled import require_labeller
from regard.runs.run import Run
from regard.tables import Table, TableRows
from regard.verbs.arguments import Edits, File, Names, Numbers, Out, RunLike
from regard.verbs.look_image import image_reading
from regard.verbs.look_text import print_record
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

Target = Annotated[str | Sequence[int] | None, Argument(str | None)]


@dataclass(frozen=True)
class Looked(Table):
    """The record of a run's reading; with edits, also the record without edits."""

    record: Record
    before: Record | None = None
    edits: str | None = None  # the edits in one line
    source: Source = field(default=Source("a run"), repr=False, compare=False)
    title: str = field(default="regard look", repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        data = self.record.to_json()
        return data if self.before is None else {**data, "edits": self.edits, "before": self.before.to_json()}

    def rows(self) -> TableRows:
        """A row for each token: position, surprisal in nats (also before edits), likeliest next token."""
        rows = self.record.rows()
        if self.before is None:
            return rows
        pairs = zip(rows, self.before.surprisal, strict=True)
        return [{**row, "surprisal_before": nll} for row, nll in pairs]

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """In a notebook with anywidget: the page, whose questions the kernel answers, and a picture."""
        return self._widget()._repr_mimebundle_(**options) if self._is_live() else {}

    def _is_live(self) -> bool:
        run = self.source.run
        return run is not None and not _is_of_features(run) and in_notebook() and has_widgets()

    def _widget(self) -> Any:
        assert self.source.run is not None
        site = next(iter(self.record.weights()), None)
        items = {"text": self.source.text, **({} if site is None else {"site": site})}
        target = self.source.target if self.source.image is None else self.source.text
        if target:
            items["target"] = target
        if self.source.words:
            items["words"] = "1"
        if self.source.edits:
            items["edit"] = json.dumps(self.source.edits)
        still = picture(self.record, title=self.title)
        return view_of_text(self.source.run, items, still, self.source.image)

    def _repr_html_(self) -> str | None:
        """In a notebook without anywidget: the page that opens offline, in a frame."""
        return None if self._is_live() else frame(file_of(self.title, self.record, self.before, self.source))


@check_ranges
def look(
    run: RunLike,
    text: str = "",
    *,
    image: File = None,
    target: Target = None,
    gold: str | None = None,
    sites: Names = (),
    rows: Numbers = None,
    heads: Numbers = None,
    words: bool = False,
    top: Rows = 5,
    edit: Edits = None,
    save_edit: Out = None,
    out: Out = None,
    form: Form = "auto",
) -> Looked:
    """Show the predictions and the attention of a run at each position of a text.

    >>> looked = regard.look("runs/transformer", "The game was", sites="layer0.attention")  # doctest: +SKIP
    >>> looked.record.maps["layer0.attention"].numbers.shape  # doctest: +SKIP
    torch.Size([4, 4, 4])

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        text: The text itself, with ___ for each blank of a reader; the caption of an image (without it, the
            captioner's own caption).
        image: An image file, for a captioner. Its weights are laid over the image.
        target: The translation that a translator reads. Without it, the translator's own translation.
        gold: The right links of the words in `text` and `target` ('0-0 1-2'); pictures frame them.
        sites: Names or patterns of sites ('layer1.*'). Without them, every site that holds weights.
        rows: Positions whose maps are computed, from 0; below 0 they count from the end. Without them, all.
        heads: Heads (also gates and senses), from 0. Without them, all.
        words: Join subwords: the columns of a word are added, and its rows are averaged.
        top: The number of likeliest next tokens at each position.
        edit: Change the model: a JSON file of edits, or the JSON itself.
        save_edit: Write the edits to a JSON file that names this run.
        out: Write a file: .html is a page that opens offline, .svg and .png are a picture, .tsv is a table,
            .json holds every number.
        form: The picture in an .svg or .png: one map, its arcs, a small map for every site and head (mosaic),
            or the terms of a prediction (parts).
    """
    if out is not None:
        check_ending(Path(out))
    elif form != "auto":
        raise UserError("`form` chooses a picture: name the picture with `out` FILE.svg or FILE.png")
    opened = as_run(run)
    if save_edit is not None:
        _save(opened, edit, save_edit)
    wanted = Wanted([sites] if isinstance(sites, str) else sites, rows, heads, top)
    edits = None if edit is None else given_edits(opened, edit)
    changed = edited(opened, edits)
    observed, reading = _observer(changed, text, image, target, gold, words, wanted)
    record = observed(changed)
    before = None if edits is None else observed(opened)
    if gold is not None:
        record = _framed(record, gold, text, str(target))
    given = () if edits is None else tuple(edits_to_json(edits, None)["edits"])
    name = run if isinstance(run, str | Path) else opened.folder or "a run"
    said = target if isinstance(target, str) else None
    seen = None if image is None else Path(image)
    source = Source(str(name), opened, changed if given else None, reading, text, said, words, given, seen)
    in_words = None if edits is None else edits_in_words(edits)
    title = f"{opened.model.family} · {name}" + ("" if in_words is None else f" · edited: {in_words}")
    looked = Looked(record, before, in_words, source, title)
    if edits is not None and not words:
        _tell_late(changed, record)
    if out is not None:
        write_record(record, Path(out), title, form, before, source)
    return looked


def _is_of_features(run: Run) -> bool:
    """Return whether the run reads given features of images, which a page cannot show."""
    return run.model.reads == "captions" and given_images(run).grid is None


def _refuse_of_sentences(target: Target, gold: str | None, words: bool) -> None:
    if target is not None or gold is not None or words:
        raise UserError("`target`, `gold` and `words` are not for captioners; give the caption with `text`")


def _refuse_of_others(run: Run, image: File, target: Target, gold: str | None) -> None:
    """Refuse the options of translators and captioners for a model that reads whole texts."""
    if target is not None or gold is not None:
        raise UserError(f"`target` and `gold` are for translators; {run.model.family} does not translate")
    if image is not None:
        raise UserError(f"`image` is for captioners; {run.model.family} does not read images")


def _save(run: Run, edit: Edits, path: str | Path) -> None:
    if edit is None:
        raise UserError("`save_edit` writes the edits that `edit` gives: give both")
    save_edits(run, edit, path)


def _observer(
    run: Run, text: str, image: File, target: Target, gold: str | None, words: bool, wanted: Wanted
) -> tuple[Callable[[Run], Record], Reading | None]:
    """Return the function that makes the record of a run (with and without edits), and what the run reads."""
    if words and run.tokenizer.kind == "word":
        raise UserError("this run reads words already; `words` is for bpe, char and byte tokens")
    reading = None
    if run.model.reads == "blanks":
        _refuse_of_others(run, image, target, gold)

        def observed(run: Run) -> Record:
            return observe_blanks(run, text, wanted)

    elif run.model.label_count is None:
        reading = _reading(run, text, image, target, gold, words)

        def observed(run: Run) -> Record:
            return observe(run.language_model, run.tokenizer, reading, wanted)

    else:
        _refuse_of_others(run, image, target, gold)
        every = replace(wanted, top=max(wanted.top, len(run.config.labels)))

        def observed(run: Run) -> Record:
            return observe_labels(require_labeller(run), run.tokenizer, run.config.labels, text, every)

    return (lambda run: by_words(observed(run))) if words else observed, reading


def _reading(run: Run, text: str, image: File, target: Target, gold: str | None, words: bool) -> Reading:
    if run.model.reads == "captions":
        _refuse_of_sentences(target, gold, words)
        return image_reading(run, image, text)
    if image is not None:
        raise UserError(f"`image` is for captioners; {run.model.family} does not read images")
    if run.language_model.given is None:
        if target is not None or gold is not None:
            raise UserError(
                f"`target` and `gold` are for translators; {run.language_model.family} does not translate"
            )
        return plain_reading(run.tokenizer, text)
    if gold is not None and not isinstance(target, str):
        raise UserError("`gold` goes with `target`, whose words it links")
    if gold is not None and not words and run.tokenizer.kind != "word":
        raise UserError("`gold` counts words: put the tokens together with `words`")
    return translation_reading(run, text, target)


def _framed(record: Record, gold: str, source: str, target: str) -> Record:
    """Put the gold links into the record of a translation by words."""
    if not any(site_map.site.crosses for site_map in record.maps.values()):
        raise UserError("`gold` is for maps of the target over the source")
    sure, possible = parse_line(gold, "`gold`")
    check_links(sure | possible, source, target, "`gold`")
    return replace(record, right=frozenset((j, i) for i, j in sure))


def _tell_late(run: Run, record: Record) -> None:
    """Notify the user of edits at positions after the end of the text."""
    last = max(len(record.tokens), len(record.given or ())) - 1
    late = [place for place in run.model.places if place > last]
    if late:
        notify(f"the edits name positions {late}, and the text ends at {last}: they change nothing here")


def main(arguments: list[str]) -> None:
    call = parse(look, arguments)
    looked = look(**call.values)
    if call.json:
        print_json(looked.to_json())
        return
    print_record(looked.record, looked.before)
    if call.values["out"] is not None:
        tell(f"\n{call.values['out']} shows it.")
