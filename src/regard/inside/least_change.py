"""The least changes of attention that make a model say a word, as edits that `regard look` replays.

Shape legend: W worlds, H heads, K columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.inside.edit_model import edit_model
from regard.inside.inverse import LEAST, Search, Weights
from regard.inside.moved_attention import Row, put
from regard.inside.subject import Subject
from regard.parts.edits import Move
from regard.parts.look import Side
from regard.tokens.contract import Tokenizer


@dataclass(frozen=True)
class LeastChange:
    """The least change in some sites that was found. If none was found, the edits are empty."""

    word: str
    sites: tuple[str, ...]
    moved: float | None  # the weight that is moved, summed over heads; None: the word was not reached
    before: float  # the probability of the word
    probability: float  # of the word after the change, or the highest that was reached
    edits: tuple[Move, ...]
    words: tuple[tuple[str, str], ...]  # of each edit: the words between which weight moves

    @property
    def name(self) -> str:
        return self.sites[0] if len(self.sites) == 1 else "all of them at once"

    def to_json(self) -> dict[str, Any]:
        names = ("word", "moved", "before", "probability")
        edits = [{"do": move.name(), **_given(move)} for move in self.edits]
        return {"sites": list(self.sites)} | {name: getattr(self, name) for name in names} | {"edits": edits}


def _given(move: Move) -> dict[str, Any]:
    return {name: value for name, value in asdict(move).items() if value is not None}


def least_changes(
    subject: Subject,
    rows: Mapping[str, Row],
    tokenizer: Tokenizer,
    word: tuple[int, str],
    names: Mapping[Side, Sequence[str]],
) -> Iterator[LeastChange]:
    """Yield the least change in each site alone, then in all sites together.

    `word` is the token or label with its name; `names` are those of the positions on each side."""
    alone = dict[str, Weights | None]()
    state = subject.prefix(1)

    def predict(weights: Weights) -> Tensor:
        worlds = subject.copied(state, len(next(iter(weights.values()))))
        return subject.step(worlds, put(weights, subject.deciding))

    for name, row in rows.items():
        search = Search(predict, {name: row}, word[0])
        alone[name] = search.least()
        yield _replayed(subject, search, tokenizer, word[1], alone[name], names)
    if len(rows) > 1:
        search = Search(predict, rows, word[0])
        # the change of one site is also a change of all of them
        known = [search.own() | found for found in alone.values() if found is not None]
        yield _replayed(subject, search, tokenizer, word[1], search.least(known), names)


def _replayed(
    subject: Subject,
    search: Search,
    tokenizer: Tokenizer,
    name: str,
    found: Weights | None,
    names: Mapping[Side, Sequence[str]],
) -> LeastChange:
    """Measure the change by reading the whole text again with its edits, as `regard look` does."""
    sites = subject.model.sites()
    with torch.no_grad():
        before = float(subject.log_probs()[0, search.word].exp())
        if found is None:
            return LeastChange(name, tuple(search.rows), None, before, search.highest, (), ())
        moves = moves_to(found, search.rows, subject.row)
        changed = replace(subject, model=edit_model(subject.model, tokenizer, moves))
        after = float(changed.log_probs()[0, search.word].exp())
    columns = [names[sites[move.site].columns] for move in moves]
    words = tuple((column[move.source], column[move.to]) for move, column in zip(moves, columns, strict=True))
    return LeastChange(name, tuple(search.rows), float(search.size(found)), before, after, moves, words)


def moves_to(weights: Weights, rows: Mapping[str, Row], position: int) -> tuple[Move, ...]:
    """Return the change as moves. A position that loses weight only sends; one that gains only gets."""
    made = list[Move]()
    for name, tensor in weights.items():
        column_K = rows[name].column_K.tolist()
        heads = zip(rows[name].weights_HK.tolist(), tensor[0].tolist(), strict=True)
        for head, (own_K, new_K) in enumerate(heads):
            for source, to, share in transport(own_K, new_K):
                at = {"source": column_K[source], "to": column_K[to], "share": share}
                made.append(Move(site=name, heads=(head,), rows=(position,), **at))
    return tuple(made)


def transport(own_K: list[float], new_K: list[float]) -> Iterator[tuple[int, int, float]]:
    """Yield moves (source, to, share of what is left at the source) that make the own weights the new ones.

    >>> list(transport([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]))
    [(0, 2, 0.5), (1, 2, 0.5)]
    """
    change = [new - own for own, new in zip(own_K, new_K, strict=True)]
    order = sorted(range(len(change)), key=lambda k: -abs(change[k]))
    left = list(own_K)
    for source in (k for k in order if change[k] < -LEAST):
        for to in (k for k in order if change[k] > LEAST):
            amount = min(-change[source], change[to])
            if amount > LEAST:
                yield source, to, round(min(1.0, amount / left[source]), 6)
                left[source] -= amount
                change[source] += amount
                change[to] -= amount
