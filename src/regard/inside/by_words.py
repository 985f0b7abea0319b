"""Convert a record of subwords to a record of words. The sum of the weights in a row stays the same."""

from collections.abc import Sequence
from dataclasses import replace

from regard.errors import UserError
from regard.inside.record import Map, Record
from regard.tokens.contract import show_bytes
from regard.tokens.word_groups import group_weights, word_groups


def by_words(record: Record) -> Record:
    """Add the columns of a word's tokens, and average the rows.

    The surprisal of a word is the sum over its tokens (chain rule). The likeliest next tokens of a word are
    those after its last token.
    """
    groups = word_groups(record.tokens)
    given = None if record.given is None else word_groups(record.given)
    maps = {
        site: _by_words(site_map, record, groups, given)
        for site, site_map in record.maps.items()
        if site_map.weighs
    }
    return replace(
        record,
        tokens=_joined(record.tokens, record.pieces, groups),
        given=None if given is None else _joined(record.given or [], record.given_pieces, given),
        pieces=(),
        given_pieces=(),
        groups=groups,
        given_groups=given,
        surprisal=[_total([record.surprisal[place] for place in group]) for group in groups],
        likeliest=[
            record.likeliest[group[-1]] if group[-1] < len(record.likeliest) else [] for group in groups
        ],
        ranks=[record.ranks[group[0]] if len(group) == 1 else None for group in groups],
        maps=maps,
        parts=None,
        parts_at=[],
        notes=[*record.notes, f"{len(record.tokens)} tokens are put together to {len(groups)} words"],
    )


def _by_words(site_map: Map, record: Record, groups: list[range], given: list[range] | None) -> Map:
    sides: dict[str, tuple[list[str], tuple[bytes, ...], list[range]]] = {
        "read": (record.tokens, record.pieces, groups),
        "given": (record.given or [], record.given_pieces, given or []),
        "whole": (list(site_map.row_names), (), [range(1)]),
    }
    names, pieces, row_groups = sides[site_map.site.rows]
    if site_map.ahead:
        names, pieces = names[site_map.ahead :], pieces[site_map.ahead :]
        row_groups = word_groups(names)
    column_names, column_pieces, column_groups = sides[site_map.site.columns]
    if list(site_map.rows) != list(range(len(names))) or site_map.first:
        raise UserError(
            "a word needs the rows of all its tokens: look at all rows of a text that fits the context"
        )
    keys, more = len(column_names), site_map.numbers.shape[2]
    # Columns beyond the words, such as the vocabulary of a copying model, stay as they are.
    columns = [*column_groups, *([key] for key in range(keys, more))]
    numbers = group_weights(site_map.numbers, row_groups, columns)
    return replace(
        site_map,
        rows=tuple(range(len(row_groups))),
        row_names=tuple(_joined(names, pieces, row_groups)),
        column_names=(
            *_joined(column_names, column_pieces, column_groups),
            *site_map.column_names[keys:],
        ),
        numbers=numbers,
        more=None,
        largest=None,
    )


def _joined(tokens: list[str], pieces: Sequence[bytes], groups: list[range]) -> list[str]:
    """Join the bytes of each word's tokens, because a token may hold half a character."""
    parts = pieces or [token.encode() for token in tokens]
    words = (show_bytes(b"".join(parts[place] for place in group)) for group in groups)
    return [word.strip() or tokens[group[0]] for word, group in zip(words, groups, strict=True)]


def _total(parts: list[float | None]) -> float | None:
    return None if None in parts else sum(part for part in parts if part is not None)
