"""Choosing words from predictions, written once, on the contract.

Shape legend: B rows, T positions, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import LanguageModel

ENDED = -1  # what a row gives once its document has ended


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen. Temperature 0 is greedy."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if self.temperature != 0 and not 1e-3 <= self.temperature < float("inf"):
            raise UserError("--temperature must be 0 (greedy), or 0.001 or more")
        if self.top_k is not None and self.top_k < 1:
            raise UserError("--top-k must be 1 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError("--top-p must be above 0 and at most 1")

    def choose(self, log_probs_BV: Tensor, generator: torch.Generator) -> Tensor:
        if self.temperature == 0:
            return log_probs_BV.argmax(1)
        probability_BV = (log_probs_BV.double() / self.temperature).softmax(1)
        if self.top_k is None and self.top_p is None:
            return torch.multinomial(probability_BV, 1, generator=generator).squeeze(1)
        sorted_BV, order_BV = probability_BV.sort(dim=1, descending=True, stable=True)
        if self.top_k is not None:
            sorted_BV[:, self.top_k :] = 0
        if self.top_p is not None:  # the fewest tokens that hold the share p: those before whom less than p was held
            sorted_BV[sorted_BV.cumsum(1) - sorted_BV >= self.top_p * sorted_BV.sum(1, keepdim=True)] = 0
        return order_BV.gather(1, torch.multinomial(sorted_BV, 1, generator=generator)).squeeze(1)


def generate(
    model: LanguageModel, prompts: Sequence[Sequence[int]], length: int, end: int | None, sampling: Sampling, generator: torch.Generator
) -> Iterator[Tensor]:
    """(B) tokens at a time, at most `length` times; a row whose document has ended gives ENDED from then on.

    Each prompt begins with the start mark. A state that is full starts again from the last half of its context.
    """
    device = model.device
    history = [list(prompt) for prompt in prompts]
    ended_B = torch.zeros(len(prompts), dtype=torch.bool)
    prediction, state = _read(model, history, device)
    longest = int(state.position_B.max())
    for step in range(length):
        with torch.inference_mode():
            log_probs_BV = prediction.log_probs()[:, 0].cpu()
        token_B = sampling.choose(log_probs_BV, generator).masked_fill_(ended_B, ENDED)
        if end is not None:
            ended_B |= token_B == end
        yield token_B
        if step + 1 == length or bool(ended_B.all()):
            return
        for row, token in zip(history, token_B.tolist(), strict=True):
            row.append(token if token != ENDED else model.padding)
        if model.context is not None and longest >= model.context:
            prediction, state = _read(model, history, device)
            longest = int(state.position_B.max())
        else:
            token_B1 = token_B.masked_fill(ended_B, model.padding).unsqueeze(1).to(device)
            with torch.inference_mode():  # never across a yield: the caller's mode is its own
                prediction, state = model(token_B1, state)
            longest += 1


@torch.inference_mode()
def _read(model: LanguageModel, history: Sequence[Sequence[int]], device: torch.device):
    """Read the end of each row from nothing, rows padded on the left so that the last position is everyone's last token."""
    if model.context is not None and max(map(len, history)) > model.context:
        history = [row[-max(1, model.context // 2) :] for row in history]
    longest = max(map(len, history))
    tokens_BT = torch.tensor([[model.padding] * (longest - len(row)) + list(row) for row in history])
    prediction, state = model(tokens_BT.to(device))
    return prediction.at(torch.full((len(history), 1), longest - 1, device=device)), state
