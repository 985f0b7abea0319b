"""regard trace RUN: where a prediction comes from."""

from pathlib import Path

from regard.errors import UserError
from regard.inside.edit_model import edited
from regard.inside.output import PICTURES, check_ending, write_picture
from regard.inside.pictures import bars, heat_map, table
from regard.inside.residual_stream import Traced, contributions, lens, sweep
from regard.verbs.arguments import Edits, Out, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import escaped, print_json


def trace(
    run: RunLike,
    text: str,
    *,
    word: str | None = None,
    position: int = -1,
    other: str | None = None,
    out: Out = None,
    edit: Edits = None,
) -> Traced:
    """What each layer would say next; with a word, what each part adds to its score; with another text, which states carry it.

    >>> regard.trace("runs/transformer", "The game was", word=" over").values.sum()  # doctest: +SKIP

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        text: The text itself.
        word: A word that may come next: what every part of the model adds to its score or probability.
        position: The position after which --word comes, from 0, or from the end below 0.
        other: Another text of as many tokens: how much likelier --word becomes when one state is taken from it.
        out: Write a picture: .svg or .png.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    if other is not None and word is None:
        raise UserError("`other` goes with `word`, whose probability is followed")
    if out is not None:
        check_ending(Path(out), PICTURES)
    opened = edited(run, edit)
    if word is None:
        traced = lens(opened.model, opened.tokenizer, text)
    elif other is None:
        traced = contributions(opened.model, opened.tokenizer, text, word, position)
    else:
        traced = sweep(opened.model, opened.tokenizer, text, other, word)
    if out is not None:
        write_picture(_picture(traced), Path(out))
    return traced


def _picture(traced: Traced) -> str:
    values = traced.values.numpy()
    if traced.words is not None:
        return table(
            values, traced.rows, traced.columns, traced.words, f"{traced.about} (darker: more probable)"
        )
    if len(traced.columns) == 1:
        return bars(values[:, 0], traced.rows, f"{traced.about}: {values.sum():.3f} in all")
    return heat_map(values, traced.rows, traced.columns, traced.about)


def main(arguments: list[str]) -> None:
    call = parse(trace, arguments)
    traced = trace(**call.values)
    if call.json:
        print_json(traced.to_json())
    else:
        _print(traced)


def _print(traced: Traced) -> None:
    """A line for each row; the lens has a word beside each number. The parts of a score end with their sum."""
    names = [escaped(name) for name in traced.rows]
    width = max(map(len, names))
    if traced.words is None and len(traced.columns) == 1:
        for name, value in zip(names, traced.values[:, 0].tolist(), strict=True):
            print(f"{name:<{width}} {value:+9.4f}")
        print(f"{'the sum':<{width}} {float(traced.values.sum()):+9.4f}   {traced.about}")
        return
    form = "+7.3f" if traced.words is None else "7.3f"
    for place, token in enumerate(traced.columns):
        print(f"{place:4} {escaped(token)}")
        for row, name in enumerate(names):
            word = "" if traced.words is None else f"  {escaped(traced.words[row][place])}"
            print(f"       {name:<{width}} {float(traced.values[row, place]):{form}}{word}")
