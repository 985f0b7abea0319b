"""A record in the terminal: the tokens with their surprisal, and the maps as shaded squares."""

from rich.console import Console
from rich.text import Text
from torch import Tensor

from regard.inside.pictures import shade
from regard.inside.record import Map, Record
from regard.verbs.printing import escaped

SHADES = " ░▒▓█"
WIDEST = 24  # columns of a map
MAPS, LINES = 12, 64  # the most maps, and tokens


def print_record(record: Record, before: Record | None) -> None:
    for note in record.notes:
        print(note)
    if record.given is not None:
        print(
            "source: "
            + "  ".join(f"{place} {escaped(token)}" for place, token in enumerate(record.given))
            + "\n"
        )
    _print_tokens(record, before)
    _print_terms(record)
    _print_words(record)
    _print_maps(record)


def _print_tokens(record: Record, before: Record | None) -> None:
    """A line for each token: its surprisal (under an edit, also the change), and the likeliest tokens after it."""
    width = min(20, max(len(escaped(token)) for token in record.tokens))
    skipped = max(0, len(record.tokens) - LINES)
    if skipped:
        print(f"... {skipped} tokens before these: --json has them all")
    for place, token in list(enumerate(record.tokens))[skipped:]:
        nll = record.surprisal[place]
        surprise = " " * 7 if nll is None else f"{round(nll, 2) + 0.0:7.2f}"
        if before is not None:
            was = before.surprisal[place]
            surprise += " " * 8 if nll is None or was is None else f" ({nll - was:+.2f})"
        expected = "" if place >= len(record.likeliest) else _expected(record.likeliest[place])
        print(f"{place:4} {escaped(token):<{width}} {surprise}   {expected}".rstrip())


def _expected(likeliest: list[tuple[str, float]]) -> str:
    return "then " + ", ".join(f"{escaped(word)} {chance(p)}" for word, p in likeliest[:3])


def chance(p: float) -> str:
    return f"{p:.2f}" if p >= 0.005 or p == 0 else f"{p:.0e}"


def _print_terms(record: Record) -> None:
    """What the prediction of the last token is made of, the largest terms first."""
    if record.parts is None or not record.parts_at:
        return
    place = record.parts_at[-1]
    terms = sorted(record.terms(place), key=lambda term: -abs(term[1]))
    if len(terms) < 2:
        return
    print(f"\nthe {record.parts.of} of “{escaped(record.tokens[place + 1])}” ({place + 1}) is the sum of")
    for name, value in terms[:8]:
        print(f"  {value:+.4g}  {escaped(name)}")
    if len(terms) > 8:
        print(f"  {sum(value for _, value in terms[8:]):+.4g}  {len(terms) - 8} smaller terms")


def _print_words(record: Record) -> None:
    """In a terminal with colours: the text, shaded by what the last row looks at, a line for each site."""
    console = Console(highlight=False)
    if not console.is_terminal:
        return
    for site, one in record.weights().items():
        row_K = one.numbers[:, -1].mean(0).tolist()
        line = Text(f"{site}, mean of heads: ")
        for token, weight in zip(one.column_names, row_K, strict=False):
            colour = "white" if weight > 0.55 else "black"
            line.append(escaped(token), style=f"{colour} on {shade(weight**0.5)}").append(" ")
        console.print(line, soft_wrap=True)


def _print_maps(record: Record) -> None:
    """The first maps; scores are numbers for a file."""
    shown = [
        (one, head)
        for one in record.maps.values()
        if one.site.holds != "scores"
        for head in range(len(one.heads))
    ]
    if record.right:
        print("✓ stands where a word should look")
    for one, head in shown[:MAPS]:
        print(f"\n{one.site.name}{', ' if one.heads[head] else ''}{one.heads[head]}")
        (_print_weights if one.weighs else _print_values)(record, one, one.numbers[head])
    if len(shown) > MAPS:
        print(
            f"\n... and {len(shown) - MAPS} maps more: --out FILE.html shows them all, --sites and --heads choose"
        )
    scores = [site for site, one in record.maps.items() if one.site.holds == "scores"]
    if scores:
        print(f"\nnumbers, in --json: {', '.join(scores)}")


def _print_weights(record: Record, one: Map, map_QK: Tensor) -> None:
    """Rows look at columns; the fuller a square, the more weight. Of long texts the last part is shown."""
    columns = range(max(0, map_QK.shape[1] - WIDEST), map_QK.shape[1])
    width = _width(one)
    past = len(one.column_names) - (one.site.extra is not None)
    names = [f"{(one.first + column) % 100:<2}" if column < past else "v " for column in columns]
    print(" " * (width + 6) + "".join(names) + (" v: the vocabulary" if names[-1] == "v " else ""))
    for place, name, weights in list(zip(one.rows, one.row_names, map_QK.tolist(), strict=True))[-WIDEST:]:
        shades = [SHADES[min(4, round(weights[column] * 4 + 0.3))] for column in columns]
        right = [record.right is not None and (place, column) in record.right for column in columns]
        squares = "".join(shade + ("✓" if mark else shade) for shade, mark in zip(shades, right, strict=True))
        print(f"{place:4} {escaped(name)[:width]:<{width}} {squares}")


def _print_values(record: Record, one: Map, map_QD: Tensor) -> None:
    """Rows are positions, columns features; the fuller a square, the larger the value, and below 0 it has a minus."""
    features = min(WIDEST, map_QD.shape[1])
    width, most = _width(one), float(map_QD.abs().max()) or 1.0
    print(" " * (width + 6) + f"features 0 to {features - 1} of {map_QD.shape[1]}, the fullest is {most:.3g}")
    for place, name, values in list(zip(one.rows, one.row_names, map_QD.tolist(), strict=True))[-WIDEST:]:
        shades = [SHADES[min(4, round(abs(value) / most * 4 + 0.3))] for value in values[:features]]
        squares = "".join(
            ("-" if value < 0 and shade != " " else shade) + shade
            for shade, value in zip(shades, values, strict=False)
        )
        print(f"{place:4} {escaped(name)[:width]:<{width}} {squares}")


def _width(one: Map) -> int:
    return min(14, max(len(escaped(name)) for name in one.row_names))
