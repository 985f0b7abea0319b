"""Random cases of a law: a small model, and texts for it.

Shape legend: B rows, T positions, V vocabulary.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor

from regard.models.contract import LanguageModel, Prediction, State
from regard.models.model import M
from regard.models.rows import RowModel
from regard.parts.look import Look

Make = Callable[[], LanguageModel]
MakeRows = Callable[[], RowModel]
# The tolerance in float64: some hundred operations on numbers of order one have errors of 2e-16 each; exp and
# log enlarge them.
EXACT = 1e-10
EXAMPLES = 12  # the number of random cases of a law
LONGEST = 17  # the maximal number of tokens in a random text


@contextmanager
def double() -> Iterator[None]:
    """Make float64 the default type of new tensors."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Texts(Generic[M]):
    """A model in evaluation mode, and random texts for it."""

    def __init__(self, make: Callable[[], M], seed: int = 0):
        self.model = make().eval()
        self.random = random.Random(seed)
        self.size = self.model.vocabulary_size

    def text(self, longest: int = LONGEST) -> list[int]:
        """Return a random text of 1 to `longest` tokens."""
        return [self.random.randrange(self.size) for _ in range(self.random.randint(1, longest))]

    def padded(self, texts: list[list[int]], padding: int, side: str = "anywhere") -> list[list[int]]:
        """Return rows of equal length, padded on the right or anywhere."""
        longest = max(map(len, texts))
        rows = []
        for text in texts:
            row = list(text)
            while len(row) < longest:
                row.insert(len(row) if side == "right" else self.random.randint(0, len(row)), padding)
            rows.append(row)
        return rows


class RowCase(Texts[RowModel]):
    """A model that reads whole rows, and random texts for it."""


class Case(Texts[LanguageModel]):
    """A language model, and random texts and sources for it."""

    def given(self, rows: int) -> int | Tensor:
        """Return the number of rows, or a random source sentence or image for each row, with padding."""
        return rows if self.model.given is None else self.model.given.random(rows, self.random)

    def begin(self, given: int | Tensor) -> State:
        """Return the model's state before the first token."""
        return self.model.begin(given)

    def read(self, ids: list[int], given: int | Tensor, look: Look | None = None) -> tuple[Prediction, State]:
        """Read the start mark and a text as a single row."""
        return self.model(torch.tensor([[self.model.start, *ids]]), self.model.begin(given, look), look)

    def log_probs(self, ids: list[int], given: int | Tensor, look: Look | None = None) -> Tensor:
        """(1, 1 + T, V): the log-probabilities after the start mark and after each token of a text."""
        return self.read(ids, given, look)[0].log_probs()


def row_of(given: int | Tensor, row: int) -> int | Tensor:
    """Return the argument of `begin` for a single row of a batch."""
    return 1 if isinstance(given, int) else given[row : row + 1]


def close(first: Tensor, second: Tensor, tolerance: float = EXACT) -> None:
    """Raise an AssertionError unless the tensors are equal within the tolerance."""
    torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)


C = TypeVar("C", bound=Texts)


def law(
    check: Callable[[C], None], kind: Callable[[Callable[[], M], int], C]
) -> Callable[[Callable[[], M]], None]:
    """Make a law from a check of a single random case: the law runs the check on several cases."""

    def over_cases(make: Callable[[], M]) -> None:
        with double():
            for seed in range(EXAMPLES):
                check(kind(make, seed))

    over_cases.__doc__ = check.__doc__
    return over_cases
