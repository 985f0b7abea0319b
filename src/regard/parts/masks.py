"""Masks: rules for the positions that a query may attend to. True means visible; `&` combines masks.

A mask stores its rules, not a tensor. A fused kernel can therefore use its causal mode instead of a T x T
tensor. Padding has position -1.

Shape legend: B rows, Q query positions, K key positions.
"""

from dataclasses import dataclass, field, replace
from typing import final

import torch
from torch import Tensor


@final
@dataclass(frozen=True)
class Mask:
    """Rules over the positions of queries and keys. A key is visible if all rules allow it.

    By default, the keys have the positions 0 to K-1, and the queries the last Q of them.
    """

    rules: tuple[tuple[str, int], ...] = ()  # the name of each rule, and its number (0 if it has none)
    query_position_BQ: Tensor | None = None
    key_position_BK: Tensor | None = None
    # The tensors of a mask with positions. All layers of a call share them, because they share its mask.
    _made: dict[torch.dtype, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __and__(self, other: "Mask") -> "Mask":
        rules = self.rules + tuple(rule for rule in other.rules if rule not in self.rules)
        query = self.query_position_BQ if other.query_position_BQ is None else other.query_position_BQ
        key = self.key_position_BK if other.key_position_BK is None else other.key_position_BK
        return Mask(rules, query, key)

    def over(self, query_position_BQ: Tensor, key_position_BK: Tensor) -> "Mask":
        """Return the same rules for these positions."""
        return replace(self, query_position_BQ=query_position_BQ, key_position_BK=key_position_BK)

    def positions(self, queries: int, keys: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        """((B or 1, Q), (B or 1, K)): the positions of queries and keys."""
        key_BK, query_BQ = self.key_position_BK, self.query_position_BQ
        if key_BK is None:
            key_BK = torch.arange(keys, device=device).unsqueeze(0)
        return (key_BK[:, keys - queries :] if query_BQ is None else query_BQ), key_BK

    def visible(self, queries: int, keys: int, device: torch.device | str = "cpu") -> Tensor:
        """(B or 1, Q, K): True where a key is visible to a query."""
        query_BQ, key_BK = self.positions(queries, keys, device)
        query_BQK, key_BQK = query_BQ.unsqueeze(2), key_BK.unsqueeze(1)
        allowed = torch.ones(1, queries, keys, dtype=torch.bool, device=device)
        for name, number in self.rules:
            allowed = allowed & RULES[name](query_BQK, key_BQK, number)
        return allowed

    def bias(self, queries: int, keys: int, like: Tensor) -> Tensor:
        """(B or 1, 1, Q, K): 0 where a key is visible to a query, and -inf where it is not."""
        made = self._made.get(like.dtype)
        if made is None:
            hidden_B1QK = ~self.visible(queries, keys, like.device).unsqueeze(1)
            made = like.new_zeros(hidden_B1QK.shape).masked_fill_(hidden_B1QK, -torch.inf)
            if self.query_position_BQ is not None and self.key_position_BK is not None:
                self._made[like.dtype] = made
        return made

    def is_only_causal(self) -> bool:
        """Return whether a fused kernel can use its causal mode: no other rule, and default positions."""
        return (
            self.rules == (("causal", 0),) and self.query_position_BQ is None and self.key_position_BK is None
        )

    def picture(self, queries: int, keys: int) -> str:
        """Return a picture of the mask as text. Rows are queries, columns are keys, full squares are visible.

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
causal = Mask((("causal", 0),))  # the position itself and earlier positions
earlier = Mask((("earlier", 0),))  # earlier positions only
padding = Mask((("padding", 0),))  # all positions except padding


def lookback(tokens: int) -> Mask:
    """Hide keys that are more than `tokens` positions before the query. Later keys are not hidden."""
    return Mask((("lookback", tokens),))


def prefix(tokens: int) -> Mask:
    """Show the first `tokens` keys to all queries, and the other keys to the same or later positions."""
    return Mask((("prefix", tokens),))
