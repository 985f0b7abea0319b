"""Which positions may look at which: small frozen values, True = may look, joined with `&`.

A mask keeps its description, so that a fused kernel can be told "causal" instead of being handed a T x T tensor. Padding has position -1.

Shape legend: B rows, Q query positions, K key positions.
"""

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor


@final
@dataclass(frozen=True)
class Mask:
    """Rules, all of which must allow a look, over positions: by default the keys stand at 0..K-1 and the queries at the last Q."""

    rules: tuple[tuple[str, int], ...] = ()  # a rule's name and its number, 0 where it needs none
    query_position_BQ: Tensor | None = None
    key_position_BK: Tensor | None = None

    def __and__(self, other: "Mask") -> "Mask":
        rules = self.rules + tuple(rule for rule in other.rules if rule not in self.rules)
        query = self.query_position_BQ if other.query_position_BQ is None else other.query_position_BQ
        key = self.key_position_BK if other.key_position_BK is None else other.key_position_BK
        return Mask(rules, query, key)

    def over(self, query_position_BQ: Tensor, key_position_BK: Tensor) -> "Mask":
        """The same rules at these positions."""
        return replace(self, query_position_BQ=query_position_BQ, key_position_BK=key_position_BK)

    def positions(self, queries: int, keys: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """((B or 1, Q), (B or 1, K)): where queries and keys stand. Not said, the queries are the last of the keys."""
        key_BK = (
            torch.arange(keys, device=device).unsqueeze(0)
            if self.key_position_BK is None
            else self.key_position_BK
        )
        return key_BK[
            :, keys - queries :
        ] if self.query_position_BQ is None else self.query_position_BQ, key_BK

    def visible(self, queries: int, keys: int, device: torch.device | str = "cpu") -> Tensor:
        """(B or 1, Q, K): True where a query may look at a key."""
        query_BQ, key_BK = self.positions(queries, keys, device)
        query_BQK, key_BQK = query_BQ.unsqueeze(2), key_BK.unsqueeze(1)
        allowed = torch.ones(1, queries, keys, dtype=torch.bool, device=device)
        for name, number in self.rules:
            allowed = allowed & RULES[name](query_BQK, key_BQK, number)
        return allowed

    def is_only_causal(self) -> bool:
        """What a fused kernel calls causal: that rule alone, queries and keys at the same, plain positions."""
        return (
            self.rules == (("causal", 0),) and self.query_position_BQ is None and self.key_position_BK is None
        )

    def picture(self, queries: int, keys: int) -> str:
        """Rows are queries, columns keys; a full square may be seen.

        >>> print(causal.picture(3, 3))
        ■ · ·
        ■ ■ ·
        ■ ■ ■
        """
        return "\n".join(
            " ".join("■" if seen else "·" for seen in row) for row in self.visible(queries, keys)[0].tolist()
        )

    def __str__(self) -> str:
        return (
            " & ".join(f"{name}({number})" if number else name for name, number in self.rules) or "everything"
        )


RULES = {
    "causal": lambda query, key, _: key <= query,
    "earlier": lambda query, key, _: key < query,
    "lookback": lambda query, key, number: query - key <= number,
    "padding": lambda query, key, _: key >= 0,
    "prefix": lambda query, key, number: (key < number) | (key <= query),
}

everything = Mask()
causal = Mask((("causal", 0),))  # itself and what came before
earlier = Mask((("earlier", 0),))  # strictly before
padding = Mask((("padding", 0),))  # not padding, whose position is -1


def lookback(tokens: int) -> Mask:
    """Itself and this many *earlier* tokens; what is later is another rule's matter."""
    return Mask((("lookback", tokens),))


def prefix(tokens: int) -> Mask:
    """The first tokens are seen by all, the rest causally."""
    return Mask((("prefix", tokens),))
