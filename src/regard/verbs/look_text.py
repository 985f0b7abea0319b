"""Print a record: the tokens with their surprisal, and the maps as shaded squares."""

from rich.console import Console
from rich.text import Text
from torch import Tensor

from regard.inside.pictures import shade
from regard.inside.record import Map, Record
from regard.tables import cell_width, fit
from regard.verbs.look_image import print_regions
from regard.verbs.printing import escaped, show, show_token

SHADES = " ░▒▓█"
WIDEST = 24  # the maximal number of columns of a map
MAPS, LINES = 12, 64  # the maximal numbers of maps and of tokens


def print_record(record: Record, before: Record | None) -> None:
    for note in record.notes:
        show(note)
    if record.given is not None and record.image is None:
        tokens = "  ".join(f"{place} {show_token(token)}" for place, token in enumerate(record.given))
        print(f"source: {tokens}\n")
    if record.labels is None:
        _print_tokens(record, before)
    elif before is not None:
        show(f"before the edits, {before.notes[0]}")
    _print_terms(record)
    if record.image is not None:
        print_regions(record)
        return
    _print_words(record)
    _print_maps(record)


def _print_tokens(record: Record, before: Record | None) -> None:
    """Print a line for each token: its surprisal, the change under edits, and the likeliest next tokens."""
    width = min(20, max(cell_width(show_token(token)) for token in record.tokens))
    skipped = max(0, len(record.tokens) - LINES)
    if skipped:
        print(f"... {skipped} tokens before these: --json has them all")
    for place, token in list(enumerate(record.tokens))[skipped:]:
        nll = record.surprisal[place]
        surprise = " " * 7 if nll is None else f"{round(nll, 2) + 0.0:7.2f}"
        if before is not None:
            was = before.surprisal[place]
            surprise += " " * 8 if nll is None or was is None else f" ({nll - was:+.2f})"
        expected = _expected(record, place)
        if before is not None and record.fills and expected:
            expected = f"{expected}; before the edits {_expected(before, place)}"
        print(f"{place:4} {fit(show_token(token), width)} {surprise}   {expected}".rstrip())


def _expected(record: Record, place: int) -> str:
    """Return the likeliest words after a position, or in a blank."""
    words = record.likeliest[place] if place < len(record.likeliest) else []
    told = ", ".join(f"{show_token(word)} {chance(p)}" for word, p in words[:3])
    return f"{'is' if record.fills else 'then'} {told}" if told else ""


def chance(p: float) -> str:
    return f"{p:.2f}" if p >= 0.005 or p == 0 else f"{p:.0e}"


def _print_terms(record: Record) -> None:
    """Print the terms of the last prediction, the largest first."""
    if record.parts is None or not record.parts_at:
        return
    place = record.parts_at[-1]
    terms = sorted(record.terms(place), key=lambda term: -abs(term[1]))
    if len(terms) < 2:
        return
    token = show_token(record.tokens[place + 1])
    print(f"\nthe {record.parts.of} of “{token}” ({place + 1}) is the sum of")
    for name, value in terms[:8]:
        print(f"  {value:+.4g}  {escaped(name)}")
    if len(terms) > 8:
        print(f"  {sum(value for _, value in terms[8:]):+.4g}  {len(terms) - 8} smaller terms")


def _print_words(record: Record) -> None:
    """Print the text shaded by the weights of the last row, a line for each site (colour terminals only)."""
    console = Console(highlight=False)
    if not console.is_terminal:
        return
    for site, site_map in record.weights().items():
        row_K = site_map.numbers[:, -1].mean(0).tolist()
        line = Text(f"{site}, mean of heads: ")
        for token, weight in zip(site_map.column_names, row_K, strict=False):
            colour = "white" if weight > 0.55 else "black"
            line.append(show_token(token), style=f"{colour} on {shade(weight**0.5)}").append(" ")
        console.print(line, soft_wrap=True)


def _print_maps(record: Record) -> None:
    """Print the first maps. Scores are printed in --json only."""
    shown = [
        (site_map, head)
        for site_map in record.maps.values()
        if site_map.site.holds != "scores"
        for head in range(len(site_map.heads))
    ]
    if record.right:
        print("✓ marks the right links")
    for site_map, head in shown[:MAPS]:
        print(f"\n{site_map.site.name}{', ' if site_map.heads[head] else ''}{site_map.heads[head]}")
        if site_map.weighs and site_map.site.rows == "whole":
            _print_column(site_map, site_map.numbers[head, 0].tolist())
        else:
            (_print_weights if site_map.weighs else _print_values)(record, site_map, site_map.numbers[head])
    if len(shown) > MAPS:
        rest = len(shown) - MAPS
        print(f"\n... and {rest} more maps: --out FILE.html shows all; choose with --sites and --heads")
    scores = [site for site, site_map in record.maps.items() if site_map.site.holds == "scores"]
    if scores:
        print(f"\nnumbers, in --json: {', '.join(scores)}")


def _print_weights(record: Record, site_map: Map, map_QK: Tensor) -> None:
    """Print a map whose rows attend to its columns. Darker squares are larger weights; long texts are cut."""
    columns = range(max(0, map_QK.shape[1] - WIDEST), map_QK.shape[1])
    width = _width(site_map)
    past = len(site_map.column_names) - (site_map.site.extra is not None)
    names = [f"{(site_map.first + column) % 100:<2}" if column < past else "v " for column in columns]
    print(" " * (width + 6) + "".join(names) + (" v: the vocabulary" if names[-1] == "v " else ""))
    rows = list(zip(site_map.rows, site_map.row_names, map_QK.tolist(), strict=True))
    for place, name, weights in rows[-WIDEST:]:
        shades = [SHADES[min(4, round(weights[column] * 4 + 0.3))] for column in columns]
        right = [record.right is not None and (place, column) in record.right for column in columns]
        marked = zip(shades, right, strict=True)
        squares = "".join(shade + ("✓" if mark else shade) for shade, mark in marked)
        print(f"{place:4} {fit(show_token(name), width)} {squares}")


def _print_column(site_map: Map, weights: list[float]) -> None:
    """Print a line for each word: its weight, and a bar as long as its share of the largest weight."""
    width = min(20, max(map(cell_width, map(show_token, site_map.column_names))))
    most = max(weights) or 1.0
    skipped = max(0, len(weights) - LINES)
    if skipped:
        print(f"... {skipped} words before these: --json has them all")
    for place, (name, weight) in list(enumerate(zip(site_map.column_names, weights, strict=True)))[skipped:]:
        bar = "█" * round(WIDEST * weight / most)
        print(f"{place:4} {fit(show_token(name), width)} {weight:6.3f} {bar}".rstrip())


def _print_values(record: Record, site_map: Map, map_QD: Tensor) -> None:
    """Print values: rows are positions, columns are features. Darker squares are larger; - is below 0."""
    features = min(WIDEST, map_QD.shape[1])
    width, most = _width(site_map), float(map_QD.abs().max()) or 1.0
    print(" " * (width + 6) + f"features 0 to {features - 1} of {map_QD.shape[1]}, the largest is {most:.3g}")
    rows = list(zip(site_map.rows, site_map.row_names, map_QD.tolist(), strict=True))
    for place, name, values in rows[-WIDEST:]:
        shades = [SHADES[min(4, round(abs(value) / most * 4 + 0.3))] for value in values[:features]]
        squares = "".join(
            ("-" if value < 0 and shade != " " else shade) + shade
            for shade, value in zip(shades, values, strict=False)
        )
        print(f"{place:4} {fit(show_token(name), width)} {squares}")


def _width(site_map: Map) -> int:
    return min(14, max(cell_width(show_token(name)) for name in site_map.row_names))
