"""Random cases of a law: a small model, and texts for it.

Shape legend: B rows, T positions, V vocabulary.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.models.contract import LanguageModel, Prediction, State
from regard.parts.look import Look

Make = Callable[[], LanguageModel]
EXACT = 1e-10  # float64: some hundred operations on numbers of order one, at 2e-16 each, with room for exp and log
EXAMPLES = 12
LONGEST = 17


@contextmanager
def double() -> Iterator[None]:
    """Everything made inside is float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Case:
    """A model and random texts for it. Rows of a model with a source all begin with sources of their own."""

    def __init__(self, make: Make, seed: int = 0):
        self.model = make().eval()
        self.random = random.Random(seed)
        self.size = self.model.vocabulary_size

    def text(self, longest: int = LONGEST) -> list[int]:
        return [self.random.randrange(self.size) for _ in range(self.random.randint(1, longest))]

    def given(self, rows: int) -> int | Tensor:
        """The number of rows, or a source sentence for each, padded anywhere."""
        if self.model.given is None:
            return rows
        size, padding = self.model.given.size, self.model.given.padding
        sources = [
            [self.random.randrange(size) for _ in range(self.random.randint(1, 5))] for _ in range(rows)
        ]
        return torch.tensor(self.padded(sources, padding))

    def padded(self, texts: list[list[int]], padding: int, where: str = "anywhere") -> list[list[int]]:
        """Rows of one length, padded on the right or anywhere."""
        longest = max(map(len, texts))
        rows = []
        for text in texts:
            row = list(text)
            while len(row) < longest:
                row.insert(len(row) if where == "right" else self.random.randint(0, len(row)), padding)
            rows.append(row)
        return rows

    def begin(self, given: int | Tensor) -> State:
        return self.model.begin(given)

    def read(self, ids: list[int], given: int | Tensor, look: Look | None = None) -> tuple[Prediction, State]:
        """One row, behind the start mark."""
        return self.model(torch.tensor([[self.model.start, *ids]]), self.model.begin(given, look), look)

    def log_probs(self, ids: list[int], given: int | Tensor, look: Look | None = None) -> Tensor:
        return self.read(ids, given, look)[0].log_probs()


def row_of(given: int | Tensor, row: int) -> int | Tensor:
    return 1 if isinstance(given, int) else given[row : row + 1]


def close(first: Tensor, second: Tensor, tolerance: float = EXACT) -> None:
    torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)


def law(check: Callable[[Case], None]) -> Callable[[Make], None]:
    """A check of one random case, as a law over several."""

    def over_cases(make: Make) -> None:
        with double():
            for seed in range(EXAMPLES):
                check(Case(make, seed))

    over_cases.__doc__ = check.__doc__
    return over_cases
