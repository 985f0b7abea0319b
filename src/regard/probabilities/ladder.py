"""The ladder: every token of a text with each model's surprisal side by side, so that one sees who knew.

Models stand side by side where they read the same tokens. A column's sum is that model's loss times the number of tokens.

Shape legend: N tokens, M models.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.tokens.contract import Encoded, Tokenizer

PASSAGE = 48  # tokens that a report shows


@dataclass(frozen=True)
class Column:
    """One model's -log P of every token, in nats."""

    name: str
    tokenizer: Tokenizer
    text: Encoded
    nll_N: Tensor


@dataclass(frozen=True)
class Ladder:
    tokens: list[str]
    names: list[str]
    nll_NM: Tensor

    def passage(self, length: int = PASSAGE) -> "Ladder":
        """The stretch on which the models differ most."""
        spread_N = torch.nan_to_num(self.nll_NM, posinf=30.0)
        spread_N = spread_N.amax(1) - spread_N.amin(1)
        running = torch.cat([spread_N.new_zeros(1), spread_N.cumsum(0)])
        length = min(length, len(self.tokens))
        first = int((running[length:] - running[:-length]).argmax())
        return Ladder(self.tokens[first : first + length], self.names, self.nll_NM[first : first + length])

    def write(self, path: Path) -> None:
        """A line a token: the token, then every model's surprisal."""
        with path.open("w", encoding="utf-8") as file:
            file.write("\t".join(["token", *self.names]) + "\n")
            for token, row in zip(self.tokens, self.nll_NM.tolist(), strict=True):
                file.write("\t".join([_visible(token), *(f"{nll:.6f}" for nll in row)]) + "\n")


def ladders(columns: list[Column]) -> list[Ladder]:
    """One for each way to read the text; the models in the order in which they come."""
    groups: dict[str, list[Column]] = {}
    for column in columns:
        groups.setdefault(str(column.tokenizer.to_json()), []).append(column)
    found = []
    for group in groups.values():
        tokenizer, ids = group[0].tokenizer, group[0].text.ids_N.tolist()
        found.append(
            Ladder(
                [tokenizer.name(i) for i in ids],
                [c.name for c in group],
                torch.stack([c.nll_N for c in group], 1),
            )
        )
    return found


def _visible(token: str) -> str:
    """Without tabs and line ends, which would end a cell or a line."""
    return token.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
