"""One step of the decoder reads the last token of every row, predicts, and chooses the next token.

`Step` defines the operations, and `EagerBody` calls it directly. The static body runs the same operations on
buffers with fixed addresses: see `captured.py`.

Shape legend: B rows, V vocabulary, K likeliest tokens.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor, nn

from regard.models.contract import LanguageModel, State
from regard.probabilities.sampling import Sampling


@dataclass(frozen=True)
class Choice:
    """The next token of each row, and its log-probability before temperature, top-k and top-p are applied."""

    token_B: Tensor
    log_prob_B: Tensor
    likeliest_BK: Tensor  # the K likeliest tokens and their log-probabilities; K may be 0
    likeliest_log_prob_BK: Tensor

    def tokens(self) -> list[int]:
        """Wait for the tokens and read them."""
        return self.token_B.tolist()

    def log_probs(self) -> Tensor:
        """Return the log-probabilities on the host. Called after tokens()."""
        return self.log_prob_B.cpu()


@final
class Step(nn.Module):
    """The module that is compiled or captured: (tokens, uniform random numbers, state) -> (choice, state)."""

    def __init__(self, model: LanguageModel, sampling: Sampling, likeliest: int = 0, may_ask: bool = True):
        super().__init__()
        self.model, self.sampling, self.likeliest, self.may_ask = model, sampling, likeliest, may_ask

    def forward(self, token_B: Tensor, uniform_B: Tensor, state: State) -> tuple[Choice, State]:
        prediction, state = self.model(token_B.unsqueeze(1), state, padded="right")
        return self.choose(prediction.log_probs()[:, 0], uniform_B), state

    def choose(self, log_probs_BV: Tensor, uniform_B: Tensor) -> Choice:
        token_B1 = self.sampling.choose(log_probs_BV, uniform_B, self.may_ask).unsqueeze(1)
        chosen_B = log_probs_BV.gather(1, token_B1).squeeze(1)
        likeliest = token_B1[:, :0], log_probs_BV[:, :0]
        if self.likeliest:
            best = log_probs_BV.topk(min(self.likeliest, log_probs_BV.shape[1]), 1)
            likeliest = best.indices, best.values
        return Choice(token_B1.squeeze(1), chosen_B, *likeliest)


class Body(ABC):
    """A body runs steps on a state whose buffers have a fixed size."""

    # True: the buffers are hardly larger than the text. False: they have room for the whole text at once.
    grows: ClassVar[bool] = True

    @abstractmethod
    def begin(self, token_B: Tensor, state: State) -> None:
        """Set the state, and the tokens that the next step reads."""

    @abstractmethod
    def step(self, uniform_B: Tensor, next_uniform_B: Tensor | None = None) -> Choice:
        """Run one step. `uniform_B` holds a random number for each row.

        A body on a GPU may start the next step, with `next_uniform_B`, before the host has read this one.
        """

    @abstractmethod
    def state(self) -> State:
        """Return the state after the last step, if no next step was announced.

        The next step may overwrite the state.
        """


@final
class EagerBody(Body):
    """Runs each step as ordinary PyTorch calls."""

    def __init__(self, step: Step):
        self._step = step

    def begin(self, token_B: Tensor, state: State) -> None:
        self._token_B, self._state = token_B, state

    def step(self, uniform_B: Tensor, next_uniform_B: Tensor | None = None) -> Choice:
        choice, self._state = self._step(self._token_B, uniform_B, self._state)
        self._token_B = choice.token_B
        return choice

    def state(self) -> State:
        return self._state
