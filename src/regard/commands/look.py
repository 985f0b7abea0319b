"""regard look RUN: what a run does with a text, position by position."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text
from torch import Tensor

from regard.commands.parsing import EditFile, RunPath, parse
from regard.commands.printing import escaped, print_json
from regard.errors import UserError
from regard.inside.editing import Edited, EditedTranslator
from regard.inside.output import Form, check_ending, write_record
from regard.inside.pictures import shade
from regard.inside.record import Record
from regard.models.translation import Translator
from regard.runs.folder import load
from regard.runs.looking import edited, look, save_edits

SHADES = " ░▒▓█"
WIDEST = 24  # columns of a map in a terminal
MAPS, LINES = 12, 64  # so many maps, and tokens, at the most


@dataclass(frozen=True, kw_only=True)
class LookAt:
    """Look inside a run while it reads a text: what it expects, and what it weighs."""

    run: RunPath
    text: str
    """The text itself."""
    target: str | None = None
    """What a translator is made to say; without it, it translates."""
    gold: str | None = None
    """The right links between the words of --text and --target ('0-0 1-2', from 0), to be framed."""
    sites: tuple[str, ...] = ()
    """Names or patterns of sites ('layer1.*'); without them, every site that holds weights."""
    rows: tuple[int, ...] | None = None
    """Positions whose weights are worked out, from 0, or from the end below 0; all without it."""
    heads: tuple[int, ...] | None = None
    """Heads, from 0; all without it."""
    words: bool = False
    """Put subwords together: columns of a word add up, its rows are averaged."""
    edit: EditFile = None
    save_edit: Path | None = None
    """Write the edits to a JSON file that names this run."""
    out: Path | None = None
    """Write it to a file: .html opens offline, .svg and .png are one picture, .json holds every number."""
    form: Form = "auto"
    """What an .svg or .png shows: one map, its arcs, small maps of every site and head, or what a prediction is mixed of."""
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(LookAt, arguments, "look")
    if options.out is not None:
        check_ending(options.out)
    elif options.form != "auto":
        raise UserError("--form says what --out FILE.svg or FILE.png shows; name one")
    run = load(options.run)
    if options.save_edit is not None:
        if options.edit is None:
            raise UserError("--save-edit goes with --edit, which says what to change")
        save_edits(run, options.edit, options.save_edit)
    name, plain = run.model.family, run
    if options.edit is not None:
        run = edited(run, options.edit)
    found = look(
        run, options.text, sites=options.sites, rows=options.rows, heads=options.heads, target=options.target,
        gold=options.gold, words=options.words,
    )  # fmt: skip
    if options.out is not None:
        write_record(found, options.out, f"{name} · {options.run}", options.form)
    if options.json:
        print_json(found.to_json())
        return
    if isinstance(run.model, Edited | EditedTranslator) and not options.words:
        last = max(len(found.tokens), len(found.columns or ())) - 1  # a translator's columns are the source's positions
        late = [place for place in run.model.places if place > last]
        if late:
            print(f"the edits name positions {late}, past the text's last, {last}: they change nothing here")
    for note in found.notes:
        print(note)
    before = None
    if options.edit is not None:  # the same words without the edits: a translator is made to say them
        said = found.ids if isinstance(plain.model, Translator) else None
        before = look(plain, options.text, sites=options.sites, rows=options.rows, target=said, words=options.words)
    _print_tokens(found, before)
    _print_words(found)
    _print_maps(found)
    if options.out is not None:
        print(f"\n{options.out} shows it.")


def _print_maps(found: Record) -> None:
    """The first maps; scores and values are numbers for a file."""
    if found.columns is not None:
        print("\nsource: " + "  ".join(f"{place} {escaped(token)}" for place, token in enumerate(found.columns)))
    maps = [(site, head, map_QK) for site, weights_HQK in _maps(found) for head, map_QK in enumerate(weights_HQK)]
    if found.right:
        print("✓ stands where a word should look")
    for site, head, map_QK in maps[:MAPS]:
        print(f"\n{site}, head {found.head(head)}")
        _print_map(found, map_QK.tolist())
    others = [site for site in (*found.weights, *found.values) if site not in dict(_maps(found))]
    if len(maps) > MAPS:
        print(f"\n... and {len(maps) - MAPS} maps more: --out FILE.html shows them all, --sites and --heads choose")
    if others:
        print(f"\nnumbers, in --json: {', '.join(others)}")


def _maps(found: Record) -> list[tuple[str, Tensor]]:
    return [(site, weights_HQK) for site, weights_HQK in found.weights.items() if not site.endswith(".scores")]


def _print_tokens(found: Record, before: Record | None) -> None:
    """A line a token: how surprising it was (under an edit also how much more than before), and what is expected after it."""
    width = min(20, max(len(escaped(token)) for token in found.tokens))
    skipped = max(0, len(found.tokens) - LINES)
    if skipped:
        print(f"... {skipped} tokens before these: --json has them all")
    for place, token in list(enumerate(found.tokens))[skipped:]:
        nll = found.surprisal[place]
        surprise = " " * 7 if nll is None else f"{round(nll, 2) + 0.0:7.2f}"
        if before is not None:
            was = before.surprisal[place]
            surprise += " " * 8 if nll is None or was is None else f" ({nll - was:+.2f})"
        then = "then" if found.columns is None else "or"
        expected = ", ".join(f"{escaped(word)} {chance(p)}" for word, p in found.likeliest[place][:3])
        share = None if found.gate is None else found.gate[place]
        gate = "" if share is None else f"   vocabulary {share:.2f}"
        print(f"{place:4} {escaped(token):<{width}} {surprise}   {then} {expected}{gate}")


def chance(p: float) -> str:
    return f"{p:.2f}" if p >= 0.005 or p == 0 else f"{p:.0e}"


def _print_words(found: Record) -> None:
    """In a terminal with colours: the text, shaded by what the last row looks at, a line a site."""
    console = Console(highlight=False)
    if not console.is_terminal:
        return
    for site, weights_HQK in _maps(found):
        row_K = weights_HQK[:, -1].mean(0).tolist()
        line = Text(f"{site}, mean of heads: ")
        for token, weight in zip(found.column_names(), row_K, strict=False):
            line.append(escaped(token), style=f"{'white' if weight > 0.55 else 'black'} on {shade(weight**0.5)}").append(" ")
        console.print(line, soft_wrap=True)


def _print_map(found: Record, map_QK: list[list[float]]) -> None:
    """Rows look at columns; the fuller a square, the more weight. Long texts show what came last."""
    columns = range(max(0, len(map_QK[0]) - WIDEST), len(map_QK[0]))
    width = min(14, max(len(escaped(token)) for token in found.tokens))
    past = len(found.column_names())
    names = [f"{(found.first + column) % 100:<2}" if column < past else "v " for column in columns]
    print(" " * (width + 6) + "".join(names) + (" v: the vocabulary" if names[-1] == "v " else ""))
    for place, weights in list(zip(found.rows, map_QK, strict=True))[-WIDEST:]:
        shades = [SHADES[min(4, round(weights[column] * 4 + 0.3))] for column in columns]
        right = [found.right is not None and (place, column) in found.right for column in columns]
        squares = "".join(shade + ("✓" if one else shade) for shade, one in zip(shades, right, strict=True))
        print(f"{place:4} {escaped(found.tokens[place])[:width]:<{width}} {squares}")
