"""One step of the decoder: read the last token of every row, predict, and choose the next token.

`Step` is the specification and the eager body. The other bodies do the same operations on buffers that stay where they are: see
`captured.py` (a CUDA graph) and `packaged.py` (compiled ahead of time for a CPU).

Shape legend: B rows, V vocabulary, K likeliest tokens.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from regard.models.contract import LanguageModel, State
from regard.probabilities.sampling import Sampling


@final
@dataclass(frozen=True)
class Choice:
    """The next token of each row, and its log-probability under the model, whatever the sampling."""

    token_B: Tensor
    log_prob_B: Tensor
    likeliest_BK: Tensor  # the likeliest tokens and their log-probabilities, as many as are wanted
    likeliest_log_prob_BK: Tensor


@final
class Step(nn.Module):
    """What is compiled or captured: (tokens, uniform numbers, state) -> (choice, state)."""

    def __init__(self, model: LanguageModel, sampling: Sampling, likeliest: int = 0, may_ask: bool = True):
        super().__init__()
        self.model, self.sampling, self.likeliest, self.may_ask = model, sampling, likeliest, may_ask

    def forward(self, token_B: Tensor, uniform_B: Tensor, state: State) -> tuple[Choice, State]:
        prediction, state = self.model(token_B.unsqueeze(1), state, padded="right")
        return self.choose(prediction.log_probs()[:, 0], uniform_B), state

    def choose(self, log_probs_BV: Tensor, uniform_B: Tensor) -> Choice:
        token_B = self.sampling.choose(log_probs_BV, uniform_B, self.may_ask)
        best = log_probs_BV.topk(min(self.likeliest, log_probs_BV.shape[1]), 1)
        chosen_B = log_probs_BV.gather(1, token_B.unsqueeze(1)).squeeze(1)
        return Choice(token_B, chosen_B, best.indices, best.values)


class Body(ABC):
    """Runs steps from a state whose buffers have a fixed size."""

    @abstractmethod
    def begin(self, token_B: Tensor, state: State) -> None:
        """Go on from this state; `token_B` is read next."""

    @abstractmethod
    def step(self, uniform_B: Tensor) -> Choice: ...

    @abstractmethod
    def state(self) -> State:
        """The state after all steps so far; its tensors may be overwritten by the next step."""


@final
class EagerBody(Body):
    def __init__(self, step: Step):
        self._step = step

    def begin(self, token_B: Tensor, state: State) -> None:
        self._token_B, self._state = token_B, state

    def step(self, uniform_B: Tensor) -> Choice:
        choice, self._state = self._step(self._token_B, uniform_B, self._state)
        self._token_B = choice.token_B
        return choice

    def state(self) -> State:
        return self._state
