"""A record by words instead of subwords: no weight is lost and none is made."""

from dataclasses import replace

from regard.errors import UserError
from regard.inside.record import Map, Record
from regard.tokens.word_groups import group_weights, word_groups


def by_words(record: Record) -> Record:
    """Columns of a word's tokens are added, its rows are averaged.

    A word's surprisal is the sum of its tokens' (the chain rule). The likeliest next words are those after its last token.
    """
    groups = word_groups(record.tokens)
    given = None if record.given is None else word_groups(record.given)
    maps = {site: _by_words(one, record, groups, given) for site, one in record.maps.items() if one.weighs}
    return replace(
        record,
        tokens=_joined(record.tokens, groups),
        given=None if record.given is None or given is None else _joined(record.given, given),
        surprisal=[_total([record.surprisal[place] for place in group]) for group in groups],
        likeliest=[
            record.likeliest[group[-1]] if group[-1] < len(record.likeliest) else [] for group in groups
        ],
        maps=maps,
        parts=None,
        parts_at=[],
        notes=[*record.notes, f"{len(record.tokens)} tokens are put together to {len(groups)} words"],
    )


def _by_words(one: Map, record: Record, groups: list[range], given: list[range] | None) -> Map:
    sides = {"read": (record.tokens, groups), "given": (record.given or [], given or [])}
    names, row_groups = sides[one.site.rows]
    if one.ahead:
        names = names[one.ahead :]
        row_groups = word_groups(names)
    column_names, column_groups = sides[one.site.columns]
    if list(one.rows) != list(range(len(names))) or one.first:
        raise UserError(
            "words are put together of all their tokens: look at all rows, of a text that fits the context"
        )
    keys, more = len(column_names), one.numbers.shape[2]
    # the row after the last token has no column of its own in a cross map; columns that are no word stay
    columns = [*column_groups, *([key] for key in range(keys, more))]
    numbers = group_weights(one.numbers, row_groups, columns)
    return replace(
        one,
        rows=tuple(range(len(row_groups))),
        row_names=tuple(_joined(names, row_groups)),
        column_names=(*_joined(column_names, column_groups), *one.column_names[keys:]),
        numbers=numbers,
        more=None,
    )


def _joined(tokens: list[str], groups: list[range]) -> list[str]:
    return ["".join(tokens[place] for place in group).strip() or tokens[group[0]] for group in groups]


def _total(parts: list[float | None]) -> float | None:
    return None if None in parts else sum(part for part in parts if part is not None)
