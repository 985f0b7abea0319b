"""A ladder is a table: a row for each token of a text, and a column for each model's surprisal.

A ladder holds the models that read the same tokens. The sum of a column is the model's loss times the number
of tokens.

Shape legend: N tokens, M models.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.machine.disk import written_beside
from regard.tokens.contract import Encoded, Tokenizer

PASSAGE = 48  # tokens that a report shows


@dataclass(frozen=True)
class Column:
    """One model's surprisal, -log P in nats, of every token."""

    name: str
    tokenizer: Tokenizer
    text: Encoded
    nll_N: Tensor


@dataclass(frozen=True)
class Ladder:
    """The surprisals of several models on the same tokens."""

    tokens: list[str]
    names: list[str]
    nll_NM: Tensor

    def passage(self, length: int = PASSAGE) -> "Ladder":
        """Return the passage of `length` tokens on which the models' surprisals differ most."""
        spread_N = torch.nan_to_num(self.nll_NM, posinf=30.0)
        spread_N = spread_N.amax(1) - spread_N.amin(1)
        running = torch.cat([spread_N.new_zeros(1), spread_N.cumsum(0)])
        length = min(length, len(self.tokens))
        first = int((running[length:] - running[:-length]).argmax())
        return Ladder(self.tokens[first : first + length], self.names, self.nll_NM[first : first + length])

    def write(self, path: Path) -> None:
        """Write a .tsv file with a line for each token: the token, then every model's surprisal."""
        with written_beside(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
            file.write("\t".join(["token", *self.names]) + "\n")
            for token, row in zip(self.tokens, self.nll_NM.tolist(), strict=True):
                file.write("\t".join([_one_cell(token), *(f"{nll:.6f}" for nll in row)]) + "\n")


def ladders(columns: list[Column]) -> list[Ladder]:
    """Return a ladder for each tokenizer of the models. Models keep their order."""
    groups: dict[str, list[Column]] = {}
    for column in columns:
        groups.setdefault(str(column.tokenizer.to_json()), []).append(column)
    tables = list[Ladder]()
    for group in groups.values():
        tokenizer = group[0].tokenizer
        names = [tokenizer.name(token) for token in group[0].text.ids_N.tolist()]
        nll_NM = torch.stack([column.nll_N for column in group], 1)
        tables.append(Ladder(names, [column.name for column in group], nll_NM))
    return tables


def _one_cell(token: str) -> str:
    """Escape tabs and line ends, which would end a cell or a line of the file."""
    return token.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
