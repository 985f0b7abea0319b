"""regard trace RUN: where a Transformer's prediction comes from."""

from dataclasses import dataclass
from pathlib import Path

from regard.commands.parsing import RunPath, parse
from regard.commands.printing import escaped, print_json
from regard.errors import UserError
from regard.inside.output import PICTURES, check_ending, write_picture
from regard.inside.pictures import bars, heat_map, table
from regard.inside.residual_stream import Traced
from regard.runs.looking import contributions, lens, sweep


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What each layer would say next; with --word, what each part adds to its score; with --other, which states carry it."""

    run: RunPath
    text: str
    """The text itself."""
    word: str | None = None
    """A word that may come next: what every head, layer and bias adds to its score."""
    other: str | None = None
    """Another text of as many tokens: how much likelier --word becomes when one state is taken from it."""
    out: Path | None = None
    """Write a picture: .svg or .png."""
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Trace, arguments, "trace")
    if options.other is not None and options.word is None:
        raise UserError("--other goes with --word, whose probability is followed")
    if options.out is not None:
        check_ending(options.out, PICTURES)
    if options.word is None:
        found, title = lens(options.run, options.text), "the likeliest word after each layer"
    elif options.other is None:
        found, title = contributions(options.run, options.text, options.word), f"the score of “{options.word}”, by part"
    else:
        found = sweep(options.run, options.text, options.other, options.word)
        title = f"change of log P(“{options.word}”) when a state is taken from the other text"
    if options.out is not None:
        write_picture(_picture(found, title), options.out)
    if options.json:
        print_json({"rows": found.rows, "columns": found.columns, "values": found.values.tolist(), "words": found.words})
    else:
        _print(found)


def _picture(found: Traced, title: str) -> str:
    values = found.values.numpy()
    if found.words is not None:
        return table(values, found.rows, found.columns, found.words, f"{title} (darker: more probable)")
    if len(found.columns) == 1:
        return bars(values[:, 0], found.rows, f"{title}: {values.sum():.3f} in all")
    return heat_map(values, found.rows, found.columns, title)


def _print(found: Traced) -> None:
    """A line a row; the lens has a word beside each number. A score's parts end with their sum."""
    width = max(map(len, found.rows))
    if found.words is None and len(found.columns) == 1:
        for name, value in zip(found.rows, found.values[:, 0].tolist(), strict=True):
            print(f"{name:<{width}} {value:+9.4f}")
        print(f"{'sum: the score':<{width}} {float(found.values.sum()):+9.4f}")
        return
    form = "+7.3f" if found.words is None else "7.3f"
    for place, token in enumerate(found.columns):
        print(f"{place:4} {escaped(token)}")
        for row, name in enumerate(found.rows):
            word = "" if found.words is None else f"  {escaped(found.words[row][place])}"
            print(f"       {name:<{width}} {float(found.values[row, place]):{form}}{word}")
