"""The decoder writes text with any language model, token by token.

The first call of the model reads the prompts. A body then runs one step for each new token, on a state whose
buffers have free space ("room") for further tokens. Now and then, rows that have ended leave the batch, and
rows whose context is full begin a new window.

Shape legend: B rows, T positions, V vocabulary, N steps, K likeliest tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from regard.models.contract import LanguageModel, State
from regard.probabilities.captured import body_for
from regard.probabilities.measures import ABOVE_ZERO, check_log_probs
from regard.probabilities.sampling import Sampling, uniform
from regard.probabilities.step import Body, Choice, Step

ENDED = -1  # the token of a row whose document has ended
# Sizes of buffers that do not grow, in tokens; larger ones have multiples of 1024.
ROOMS = (64, 128, 256, 384, 512, 768, 1024, 1536)
# After so many steps, rows that have ended leave the batch, and buffers grow by as many tokens.
CHECKED = 64
STEPS_AT_ONCE = 512  # the random numbers of this many steps are computed in one call


@dataclass(frozen=True)
class Written:
    """One token for each row. A row that has ended has the token ENDED and the log-probability 0."""

    tokens: list[int]  # on the host
    token_B: Tensor
    log_prob_B: Tensor
    likeliest_BK: Tensor  # the K likeliest tokens at this position; K is Writing.likeliest
    likeliest_log_prob_BK: Tensor


@dataclass(frozen=True, kw_only=True)
class Writing:
    """The settings of generate()."""

    length: int  # the maximal number of new tokens in a row
    end: int | None  # the token that ends a row
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 1
    likeliest: int = 0  # the number of likeliest tokens that are reported at each position
    body: Callable[[Step], Body] = body_for


def generate(
    model: LanguageModel,
    state: State,
    prompts: Sequence[Sequence[int]],
    writing: Writing,
    numbers: Sequence[int] | None = None,
) -> Iterator[Written]:
    """Yield one token for each row, at most `length` times. Each prompt begins with the start token.

    A random number depends on the seed, the row's number (`numbers`; 0, 1, ... by default) and the position
    in the row. The text of a row is therefore independent of the other rows in the batch.
    """
    rows = _Rows(model, state, prompts, writing, range(len(prompts)) if numbers is None else numbers)
    for _ in range(writing.length):
        if not rows.alive:
            return
        with torch.inference_mode():  # ends before the yield, so that the caller's code runs in its own mode
            written = rows.next()
        yield written


def room_for(filled: int, left: int, grows: bool) -> int:
    """Return the size of buffers that hold `filled` tokens, if `left` more are to be written.

    Unused slots keep the others apart, and waste the processor's cache. Of buffers that do not grow there are
    few sizes, because a recorded body is made once for each size.
    """
    if grows:
        return filled - filled % CHECKED + CHECKED
    tokens = filled + left
    return next((room for room in ROOMS if room >= tokens), -(-tokens // 1024) * 1024)


@final
class _Rows:
    """The rows of the batch and the state of the model.

    When a row's context is full, the model reads the last half of its tokens again (`LanguageModel.slide`).
    """

    def __init__(
        self,
        model: LanguageModel,
        state: State,
        prompts: Sequence[Sequence[int]],
        writing: Writing,
        numbers: Sequence[int],
    ):
        self._model, self._state, self._writing = model, state, writing
        self._step = Step(model, writing.sampling, writing.likeliest)
        self._body = writing.body(self._step)
        self._history = [list(prompt) for prompt in prompts]
        self._numbers = torch.tensor(list(numbers))
        self.alive = set(range(len(prompts)))  # rows that have not ended
        self._batch = list(range(len(prompts)))  # the rows that the state holds, in its order
        self._filled = [0] * len(prompts)  # the number of tokens in each row's window
        self._free = 0  # the number of tokens that the body can read before the next check
        self._left = writing.length  # the number of steps that are left
        self._uniform_NB, self._used = list[Tensor](), 0

    def next(self) -> Written:
        """Write one more token in every row."""
        if not self._free:
            self._leave_ended()
            if self._fits():
                self._make_room()
        if self._free:
            self._free, self._left = self._free - 1, self._left - 1
            goes_on = self._free > 0 and self._left > 0
            choice = self._body.step(self._uniform(0), self._uniform(1) if goes_on else None)
            if not goes_on:
                self._state = self._body.state()
            for row in self._batch:
                self._filled[row] += 1
        else:
            self._left -= 1
            choice = self._step.choose(self._read(), self._uniform(0))
        self._used += 1
        written = self._written(choice)
        log_probs = choice.log_probs()
        if not all(log_prob <= ABOVE_ZERO for log_prob in log_probs.tolist()):
            check_log_probs(log_probs)
        return written

    def _fits(self) -> bool:
        """Return whether every prompt has been read and every window has a free position."""
        filled, context = [self._filled[row] for row in self._batch], self._model.context
        return min(filled) > 0 and (context is None or max(filled) < context)

    def _make_room(self) -> None:
        filled, context = max(self._filled[row] for row in self._batch), self._model.context
        room = 0 if context is None else min(room_for(filled, self._left, self._body.grows), context)
        self._free = CHECKED if context is None else min(room - filled, CHECKED)
        last_B = torch.tensor([self._history[row][-1] for row in self._batch], device=self._model.device)
        self._body.begin(last_B, self._model.with_room(self._state, room))

    def _read(self) -> Tensor:
        """(B, V): the log-probabilities after the prompts and after full windows, which begin anew.

        Rows that begin a new window and rows that go on are read by separate calls.
        """
        full = [
            place for place, row in enumerate(self._batch) if self._filled[row] and not self._has_place(row)
        ]
        rest = [place for place in range(len(self._batch)) if place not in full]
        log_probs, states = [], list[State]()
        for places, slide in ((full, True), (rest, False)):
            if places:
                state = self._state.pick(self._on_device(places)) if full and rest else self._state
                log_probs_BV, state = self._read_rows([self._batch[place] for place in places], state, slide)
                log_probs.append(log_probs_BV)
                states.append(state)
        order = self._on_device([*full, *rest]).argsort()
        self._state = State.join(states).pick(order) if len(states) > 1 else states[0]
        return torch.cat(log_probs)[order]

    def _read_rows(self, rows: Sequence[int], state: State, slide: bool) -> tuple[Tensor, State]:
        model, unread = self._model, [self._unread(row) for row in rows]
        longest = max(map(len, unread))
        # Padding goes on the left: then the last column holds the last token of every row.
        padded = [[model.padding] * (longest - len(tokens)) + tokens for tokens in unread]
        tokens_BT = self._on_device(padded)
        if slide:
            prediction, state = model.slide(tokens_BT, state.trimmed())
        else:
            prediction, state = model(tokens_BT, state.trimmed())
            prediction = prediction.at(torch.full_like(tokens_BT[:, :1], longest - 1))
        for row, tokens in zip(rows, unread, strict=True):
            self._filled[row] = len(tokens) if slide else self._filled[row] + len(tokens)
        return prediction.log_probs()[:, 0], state

    def _unread(self, row: int) -> list[int]:
        """Return the tokens of a row that the model reads next.

        They are the prompt at first, the last token later, and the last half of the context if the window is
        full.
        """
        history, filled, context = self._history[row], self._filled[row], self._model.context
        new = history[-1:] if filled else history
        fits = context is None or filled + len(new) <= context
        return new if fits else history[-max(1, (context or 0) // 2) :]

    def _has_place(self, row: int) -> bool:
        return self._model.context is None or self._filled[row] < self._model.context

    def _leave_ended(self) -> None:
        """Remove the rows that have ended from the state."""
        if len(self.alive) < len(self._batch):
            places = [place for place, row in enumerate(self._batch) if row in self.alive]
            self._state = self._state.trimmed().pick(self._on_device(places))
            self._batch = sorted(self.alive)
            self._used = len(self._uniform_NB)

    def _uniform(self, ahead: int) -> Tensor:
        """(B): the random numbers of the step `ahead` steps from now. One call draws those of many."""
        if self._used + ahead >= len(self._uniform_NB):
            first_B1 = torch.tensor([[len(self._history[row])] for row in self._batch])
            position_BN = first_B1 + torch.arange(min(STEPS_AT_ONCE, self._writing.length) + ahead)
            uniform_BN = uniform(self._writing.seed, self._numbers[self._batch], position_BN)
            self._uniform_NB, self._used = list(uniform_BN.T.contiguous().to(self._model.device)), 0
        return self._uniform_NB[self._used + ahead]

    def _written(self, choice: Choice) -> Written:
        """Add the chosen tokens to the history, and return one entry for every row, ended rows included."""
        size, end, places = len(self._history), self._writing.end, list[int]()
        tokens = [ENDED] * size
        for place, (row, token) in enumerate(zip(self._batch, choice.tokens(), strict=True)):
            if row in self.alive:
                places.append(place)
                tokens[row] = token
                self._history[row].append(token)
                if token == end:
                    self.alive.remove(row)
        if len(places) == size:
            likeliest = choice.likeliest_BK, choice.likeliest_log_prob_BK
            return Written(tokens, choice.token_B, choice.log_prob_B, *likeliest)
        rows = self._on_device([self._batch[place] for place in places])

        def spread(values: Tensor, filler: float) -> Tensor:
            out = values.new_full((size, *values.shape[1:]), filler)
            return out.index_copy_(0, rows, values[self._on_device(places)])

        parts = (choice.token_B, ENDED), (choice.log_prob_B, 0.0), (choice.likeliest_BK, ENDED)
        return Written(tokens, *(spread(*part) for part in (*parts, (choice.likeliest_log_prob_BK, 0.0))))

    def _on_device(self, numbers: Sequence[Any]) -> Tensor:
        return torch.tensor(numbers, device=self._model.device)
