"""Looking inside a finished run, and changing what is seen there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.errors import UserError
from regard.inside import tracing
from regard.inside.alignment import framed
from regard.inside.editing import edit_model, edits_to_json, read_edits
from regard.inside.edits import Edit
from regard.inside.record import Record
from regard.inside.recording import record, record_translation
from regard.inside.tracing import Traced
from regard.inside.words import by_words
from regard.machine.disk import write_json
from regard.models.translation import Translator
from regard.runs.folder import MODEL, Run, as_run, load


def look(
    run: Run | str | Path,
    text: str,
    *,
    sites: Sequence[str] = (),
    rows: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    top: int = 5,
    target: str | Sequence[int] | None = None,
    gold: str | None = None,
    words: bool = False,
) -> Record:
    """What a run does with a text, in one form for every family: predictions at each position, and what was weighed.

    A translator translates the text, or is made to say `target`, a text or its tokens; the maps' columns are the source then, and `gold`
    are the right links of that ("0-0 1-2": source word, target word), which pictures frame. `words` puts subwords together.

    `sites` are names or patterns (`layer1.*`); without them, every site that holds weights. `rows` are positions, `heads` heads, from 0.

    >>> regard.look("runs/transformer", "The game was", sites=["layer0.attention"], rows=[-1]).weights  # doctest: +SKIP
    """
    opened = as_run(run)
    chosen = [sites] if isinstance(sites, str) else sites
    if words and opened.tokenizer.kind == "word":
        raise UserError("this run reads words already; --words is for bpe, char and byte tokens")
    if isinstance(opened.model, Translator):
        assert opened.source is not None
        if gold is not None and (not isinstance(target, str) or rows is not None):
            raise UserError("--gold goes with --target, whose words it links, and with all rows")
        if gold is not None and not words and opened.tokenizer.kind != "word":
            raise UserError("--gold counts words: put the tokens together with --words")
        found = record_translation(opened.model, opened.source, opened.tokenizer, text, target, chosen, rows, heads, top)
    elif target is not None or gold is not None:
        raise UserError(f"--target and --gold are for translators; {opened.model.family} does not translate")
    else:
        found = record(opened.model, opened.tokenizer, text, chosen, rows, heads, top)
    found = by_words(found) if words else found
    return framed(found, gold, text, target) if gold is not None and isinstance(target, str) else found


def lens(run: Run | str | Path, text: str) -> Traced:
    """What a Transformer would say after each layer, at every position.

    >>> regard.lens("runs/transformer", "The game was").words[-1]  # doctest: +SKIP
    """
    opened = as_run(run)
    return tracing.lens(opened.model, opened.tokenizer, text)


def contributions(run: Run | str | Path, text: str, word: str, position: int = -1) -> Traced:
    """What every head, feed-forward layer, embedding and bias of a Transformer adds to the score of a word; the terms sum to it.

    >>> regard.contributions("runs/transformer", "The game was", " over").values.sum()  # doctest: +SKIP
    """
    opened = as_run(run)
    return tracing.contributions(opened.model, opened.tokenizer, text, word, position)


def sweep(run: Run | str | Path, text: str, other: str, word: str) -> Traced:
    """How much likelier a word becomes after `text` when one state of a Transformer is taken from `other`: layers x positions.

    >>> regard.sweep("runs/transformer", "Jill gave water to", "Jack gave water to", " Jill").values  # doctest: +SKIP
    """
    opened = as_run(run)
    return tracing.sweep(opened.model, opened.tokenizer, text, other, word)


def edited(run: Run | str | Path, edits: Sequence[Edit] | str | Path) -> Run:
    """The run with edits, or those of a file, on its model: look, generate, score and evaluate run under them. The run stays as it is.

    >>> from regard.inside.edits import Silence
    >>> regard.generate(regard.edited("runs/transformer", [Silence(site="layer0.attention", heads=(1,))]))  # doctest: +SKIP
    """
    opened = as_run(run)
    made = read_edits(edits, fingerprint(opened)) if isinstance(edits, str | Path) else edits
    return replace(opened, model=edit_model(opened.model, opened.tokenizer, made))


def under(path: str, edits: str | None) -> Run:
    """A run, under edits where there are any."""
    return load(path) if edits is None else edited(path, edits)


def save_edits(run: Run | str | Path, edits: Sequence[Edit] | str | Path, out: str | Path) -> None:
    """Write edits to a JSON file that names the run they are made for."""
    opened = as_run(run)
    made = read_edits(edits, fingerprint(opened)) if isinstance(edits, str | Path) else edits
    write_json(edits_to_json(made, fingerprint(opened)), Path(out))


def fingerprint(run: Run) -> str | None:
    """The hash of its weights' file."""
    return run.config.get("files", {}).get(MODEL)
