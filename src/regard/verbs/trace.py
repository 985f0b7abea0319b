"""regard trace RUN: the logit lens, the terms of a score, and patches of single states."""

from pathlib import Path

from regard.boundary import check_ranges
from regard.errors import UserError
from regard.inside.edit_model import edited
from regard.inside.output import PICTURES, check_ending, write_picture
from regard.inside.residual_stream import Traced, contributions, lens, sweep
from regard.ranges import Whole
from regard.verbs.arguments import Edits, Out, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show, show_token


@check_ranges
def trace(
    run: RunLike,
    text: str,
    *,
    word: str | None = None,
    position: Whole = -1,
    other: str | None = None,
    out: Out = None,
    edit: Edits = None,
) -> Traced:
    """Predict the next token from the state after each layer, or split the score of a word into terms.

    With another text, measure how the word's probability changes when one state is copied from that text.

    >>> regard.trace("runs/transformer", "The game was", word=" over").values.sum()  # doctest: +SKIP

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        text: The text itself.
        word: A next word. Its score (or probability) is split into a term for each part of the model.
        position: The position before `word`, from 0; below 0 it counts from the end.
        other: Another text with the same number of tokens: each state in turn is copied from it.
        out: Write a picture: .svg or .png.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    if other is not None and word is None:
        raise UserError("`other` goes with `word`, whose probability is followed")
    if out is not None:
        check_ending(Path(out), PICTURES)
    opened = edited(run, edit)
    if word is None:
        traced = lens(opened.language_model, opened.tokenizer, text)
    elif other is None:
        traced = contributions(opened.language_model, opened.tokenizer, text, word, position)
    else:
        traced = sweep(opened.language_model, opened.tokenizer, text, other, word)
    if out is not None:
        write_picture(traced.picture(), Path(out))
    return traced


def main(arguments: list[str]) -> None:
    call = parse(trace, arguments)
    traced = trace(**call.values)
    if call.json:
        print_json(traced.to_json())
    else:
        _print(traced)


def _print(traced: Traced) -> None:
    """Print a line for each number, with the word beside it in the lens. The terms of a score have a sum."""
    names = traced.row_names
    width = max(map(len, names))
    if traced.words is None and len(traced.column_names) == 1:
        for name, value in zip(names, traced.values[:, 0].tolist(), strict=True):
            show(f"{name:<{width}} {value:+9.4f}")
        show(f"{'the sum':<{width}} {float(traced.values.sum()):+9.4f}   {traced.about}")
        return
    form = "+7.3f" if traced.words is None else "7.3f"
    for place, token in enumerate(traced.column_names):
        print(f"{place:4} {show_token(token)}")
        for row, name in enumerate(names):
            word = "" if traced.words is None else f"  {show_token(traced.words[row][place])}"
            print(f"       {name:<{width}} {float(traced.values[row, place]):{form}}{word}")
