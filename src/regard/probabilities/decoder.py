"""Writing text with a model, token by token, written once on the contract.

Shape legend: B rows, T positions, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.models.contract import LanguageModel, State
from regard.probabilities.sampling import Sampling, uniform

ENDED = -1  # the token of a row whose document has ended


@dataclass(frozen=True)
class Written:
    """One token for each row."""

    token_B: Tensor  # ENDED for rows that have ended
    log_prob_B: Tensor  # of the token; 0 for rows that have ended


def generate(
    model: LanguageModel,
    state: State,
    prompts: Sequence[Sequence[int]],
    length: int,
    end: int | None,
    sampling: Sampling,
    seed: int,
    numbers: Sequence[int] | None = None,
) -> Iterator[Written]:
    """A token for each row, at most `length` times. Each prompt begins with the start mark.

    Random numbers depend on the seed, the row's number (0, 1, ... unless others are given) and the position in the row, so a row is written
    as it would be written alone.
    """
    rows = _Rows(model, state, prompts)
    ended_B = torch.zeros(len(prompts), dtype=torch.bool)
    row_B = torch.arange(len(prompts)) if numbers is None else torch.tensor(numbers)
    for step in range(length):
        with torch.inference_mode():  # never across a yield: the caller's mode is its own
            log_probs_BV = rows.next_log_probs()
            token_B = sampling.choose(log_probs_BV, uniform(seed, row_B, rows.positions()))
            log_prob_B = log_probs_BV.gather(1, token_B.unsqueeze(1)).squeeze(1).masked_fill_(ended_B, 0)
            token_B.masked_fill_(ended_B, ENDED)
        if end is not None:
            ended_B = ended_B | (token_B == end)
        yield Written(token_B, log_prob_B)
        if step + 1 == length or bool(ended_B.all()):
            return
        rows.append([model.padding if token == ENDED else token for token in token_B.tolist()])


@final
class _Rows:
    """The rows that are written, and the model's state after all but the last token of each.

    A row whose context is full is read again from the last half of it in a new window (`LanguageModel.slide`).
    """

    def __init__(self, model: LanguageModel, state: State, prompts: Sequence[Sequence[int]]):
        self._model, self._state = model, state
        self._history = [list(prompt) for prompt in prompts]
        self._unread = [row if self._fits(len(row)) else self._last_half(row) for row in self._history]
        self._filled = [0] * len(prompts)  # tokens in each row's window

    def positions(self) -> Tensor:
        return torch.tensor([len(row) for row in self._history])

    def append(self, tokens: Sequence[int]) -> None:
        for row, token in zip(self._history, tokens, strict=True):
            row.append(token)
        self._unread = [[token] for token in tokens]

    def next_log_probs(self) -> Tensor:
        """(B, V): read what has not been read, and predict."""
        full = [
            row for row, filled in enumerate(self._filled) if not self._fits(filled + len(self._unread[row]))
        ]
        if not full:
            log_probs_BV, self._state = self._read(self._unread, self._state)
            self._filled = [
                filled + len(unread) for filled, unread in zip(self._filled, self._unread, strict=True)
            ]
            return log_probs_BV
        for row in full:
            self._unread[row], self._filled[row] = self._last_half(self._history[row]), 0
        rest = [row for row in range(len(self._history)) if row not in full]
        log_probs, states = [], list[State]()
        for rows, slide in ((full, True), (rest, False)):
            if rows:
                chosen = torch.tensor(rows, device=self._model.device)
                some = self._read([self._unread[row] for row in rows], self._state.pick(chosen), slide)
                log_probs.append(some[0])
                states.append(some[1])
        order = torch.tensor([*full, *rest]).argsort()
        self._state = State.join(states).pick(order.to(self._model.device)) if rest else states[0]
        self._filled = [
            filled + len(unread) for filled, unread in zip(self._filled, self._unread, strict=True)
        ]
        return torch.cat(log_probs)[order]

    def _read(self, rows: Sequence[Sequence[int]], state: State, slide: bool = False) -> tuple[Tensor, State]:
        model = self._model
        longest = max(map(len, rows))
        # padded on the left, so that the last column holds the last token of every row
        padded = [[model.padding] * (longest - len(row)) + list(row) for row in rows]
        tokens_BT = torch.tensor(padded, device=model.device)
        if slide:
            prediction, state = model.slide(tokens_BT, state)
        else:
            prediction, state = model(tokens_BT, state)
            prediction = prediction.at(torch.full_like(tokens_BT[:, :1], longest - 1))
        return prediction.log_probs()[:, 0].cpu(), state

    def _fits(self, length: int) -> bool:
        return self._model.context is None or length <= self._model.context

    def _last_half(self, row: list[int]) -> list[int]:
        return row[-max(1, (self._model.context or 0) // 2) :]
