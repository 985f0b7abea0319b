"""regard look RUN: what a run does with a text, position by position."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from regard.errors import UserError, notify
from regard.inside.by_words import by_words
from regard.inside.edit_model import edited, save_edits
from regard.inside.observe import Reading, Wanted, observe, plain_reading
from regard.inside.output import Form, check_ending, write_record
from regard.inside.record import Record
from regard.probabilities.links import check_links, parse_line
from regard.probabilities.translation import translate
from regard.runs.formats import as_run
from regard.runs.run import Run
from regard.verbs.arguments import Edits, Names, Numbers, Out, RunLike
from regard.verbs.look_text import print_record
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

Target = Annotated[str | Sequence[int] | None, Argument(str | None)]


@dataclass(frozen=True)
class Looked:
    """What a run did with a text; with edits, also what it did without them."""

    record: Record
    before: Record | None = None
    edits: str | None = None  # a line that says what was edited

    def to_json(self) -> dict[str, Any]:
        data = self.record.to_json()
        return data if self.before is None else {**data, "edits": self.edits, "before": self.before.to_json()}

    def _repr_html_(self) -> str:
        return self.record._repr_html_()


def look(
    run: RunLike,
    text: str,
    *,
    target: Target = None,
    gold: str | None = None,
    sites: Names = (),
    rows: Numbers = None,
    heads: Numbers = None,
    words: bool = False,
    top: int = 5,
    edit: Edits = None,
    save_edit: Out = None,
    out: Out = None,
    form: Form = "auto",
) -> Looked:
    """Look inside a run while it reads a text: its predictions at each position, what it weighs, and what the predictions are made of.

    >>> regard.look("runs/transformer", "The game was", sites="layer0.attention", rows=[-1]).record.maps  # doctest: +SKIP

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        text: The text itself.
        target: The translation that a translator is made to read; without it, it translates.
        gold: The right links between the words of --text and --target ('0-0 1-2', from 0), which pictures frame.
        sites: Names or patterns of sites ('layer1.*'); without them, every site that holds weights.
        rows: Positions whose maps are worked out, from 0, or from the end below 0; all without it.
        heads: Heads (also gates and senses), from 0; all without it.
        words: Put subwords together: columns of a word are added, its rows are averaged.
        top: How many of the likeliest next words are kept at each position.
        edit: Change the model: a JSON file of edits, or the JSON itself.
        save_edit: Write the edits to a JSON file that names this run.
        out: Write it to a file: .html opens offline, .svg and .png are one picture, .tsv is a table, .json holds every number.
        form: What an .svg or .png shows: one map, its arcs, small maps of every site and head, or what predictions are made of.
    """
    if out is not None:
        check_ending(Path(out))
    elif form != "auto":
        raise UserError("`form` says what a picture shows; name one with `out` FILE.svg or FILE.png")
    opened = as_run(run)
    if save_edit is not None:
        if edit is None:
            raise UserError("`save_edit` goes with `edit`, which says what to change")
        save_edits(opened, edit, save_edit)
    wanted = Wanted([sites] if isinstance(sites, str) else sites, rows, heads, top)
    changed = edited(opened, edit)
    reading = _reading(changed, text, target, gold, words)
    record = _record(changed, reading, wanted, words)
    before = None if edit is None else _record(opened, reading, wanted, words)
    if gold is not None:
        record = _framed(record, gold, text, str(target))
    looked = Looked(record, before, None if edit is None else str(edit))
    if edit is not None and not words:
        _tell_late(changed, record)
    if out is not None:
        write_record(record, Path(out), _title(opened, run, looked), form, before)
    return looked


def _title(opened: Run, run: RunLike, looked: Looked) -> str:
    name = run if isinstance(run, str | Path) else opened.folder or "a run"
    return f"{opened.model.family} · {name}" + ("" if looked.edits is None else f" · edited: {looked.edits}")


def _reading(run: Run, text: str, target: Target, gold: str | None, words: bool) -> Reading:
    if words and run.tokenizer.kind == "word":
        raise UserError("this run reads words already; `words` is for bpe, char and byte tokens")
    if run.model.given is None:
        if target is not None or gold is not None:
            raise UserError(f"`target` and `gold` are for translators; {run.model.family} does not translate")
        return plain_reading(run.tokenizer, text)
    if gold is not None and not isinstance(target, str):
        raise UserError("`gold` goes with `target`, whose words it links")
    if gold is not None and not words and run.tokenizer.kind != "word":
        raise UserError("`gold` counts words: put the tokens together with `words`")
    return translation_reading(run, text, target)


def translation_reading(run: Run, text: str, target: Target) -> Reading:
    """A source, and a translation that is read with its end."""
    import torch

    source, tokenizer = run.both_tokenizers()
    if not text.strip():
        raise UserError("there is nothing to look at: give some text")
    if target is None:
        ((best, *_),) = translate(run.model, source, tokenizer, [text], attention=False)
        target = best.ids
    ids = [*tokenizer.prompt(target), tokenizer.end] if isinstance(target, str) else list(target)
    given = [*source.prompt(text), source.end]
    assert run.model.given is not None
    for what, length, limit in (
        ("text", len(given), run.model.given.longest),
        ("target", len(ids), run.model.context),
    ):
        if limit is not None and length > limit:
            raise UserError(
                f"the {what} has {length} tokens, the end counted, and the model reads {limit}: shorten it"
            )
    unknown = sum(token == source.unknown for token in given)
    notes = (
        (f"{unknown} of the source's tokens are not in its vocabulary and were read as <unk>",)
        if unknown
        else ()
    )
    ids = [tokenizer.start, *ids]
    names = tuple(source.name(token) for token in given)
    read = [tokenizer.name(token) for token in ids]
    return Reading(ids, read, torch.tensor([given], device=run.model.device), names, ended=True, notes=notes)


def _record(run: Run, reading: Reading, wanted: Wanted, words: bool) -> Record:
    record = observe(run.model, run.tokenizer, reading, wanted)
    return by_words(record) if words else record


def _framed(record: Record, gold: str, source: str, target: str) -> Record:
    """A record of a translation by words, with the right links in it."""
    if not any(one.site.crosses for one in record.maps.values()):
        raise UserError("`gold` is for maps of the target over the source")
    sure, possible = parse_line(gold, "`gold`")
    check_links(sure | possible, source, target, "`gold`")
    return replace(record, right=frozenset((j, i) for i, j in sure))


def _tell_late(run: Run, record: Record) -> None:
    """Positions that edits name behind the end of the text."""
    last = max(len(record.tokens), len(record.given or ())) - 1
    late = [place for place in run.model.places if place > last]  # type: ignore[union-attr]
    if late:
        notify(f"the edits name positions {late}, past the text's last, {last}: they change nothing here")


def main(arguments: list[str]) -> None:
    call = parse(look, arguments)
    looked = look(**call.values)
    if call.json:
        print_json(looked.to_json())
        return
    print_record(looked.record, looked.before)
    if call.values["out"] is not None:
        tell(f"\n{call.values['out']} shows it.")
