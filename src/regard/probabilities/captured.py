"""The static body of the decoder: each step runs on buffers with fixed addresses, as one CUDA graph on a GPU.

A graph is recorded once for each number of rows and each buffer size, and is kept as long as its model.
Numbers of rows are rounded up to powers of two, so that few graphs serve all batches.

Shape legend: B rows, R rows of the buffers, K likeliest tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from regard.machine.graphs import Recorded
from regard.models.contract import LanguageModel, State
from regard.probabilities.packaged import PackagedBody, has_package
from regard.probabilities.step import Body, Choice, EagerBody, Step

MOST_GRAPHS = 16  # of one model; the graph that was recorded first is dropped


def body_for(step: Step) -> Body:
    """Return the fastest body that is ready on the model's device.

    On a GPU, the steps of models with fixed shapes are recorded as graphs. On a CPU, a step runs as a package
    if it was compiled before.
    """
    if step.model.device.type == "cuda" and step.model.steady:
        return CapturedBody(step)
    return PackagedBody(step, makes=False) if has_package(step) else EagerBody(step)


def compiled_body_for(step: Step) -> Body:
    """Return a compiled body: the first text waits for the compiler. What cannot be compiled is eager."""
    if step.model.device.type == "cuda" and step.model.steady:
        return CapturedBody(step, compiles=True)
    return PackagedBody(step)


@final
class CapturedBody(Body):
    """Copies the state into the buffers of a recorded step, and replays the step for each token."""

    grows = False

    def __init__(self, step: Step, compiles: bool = False):
        """`compiles` fuses the kernels of a step: the first text waits for the compiler."""
        self._started: Choice | None = None
        self._step, self._compiles = Step(step.model, step.sampling, step.likeliest, may_ask=False), compiles

    def begin(self, token_B: Tensor, state: State) -> None:
        self._rows, self._started = len(token_B), None
        self._recorded = _recorded_step(self._step, token_B, state, self._compiles)
        self._recorded.load(token_B, state)

    def step(self, uniform_B: Tensor, next_uniform_B: Tensor | None = None) -> Choice:
        choice = self._started or self._recorded.start(uniform_B, self._rows)
        self._started = None
        if next_uniform_B is not None:  # the GPU works on the next step while the host reads this one
            self._started = self._recorded.start(next_uniform_B, self._rows)
        return choice

    def state(self) -> State:
        return self._recorded.rows_of_state(self._rows)


@final
@dataclass(frozen=True)
class _StartedChoice(Choice):
    """A choice whose tokens are on their way to the host."""

    token_on_host_B: Tensor
    log_prob_on_host_B: Tensor
    arrived: torch.cuda.Event | None

    def tokens(self) -> list[int]:
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.token_on_host_B.tolist()

    def log_probs(self) -> Tensor:
        return self.log_prob_on_host_B


@final
class _RecordedStep:
    """One step of the decoder on its own buffers: it reads tokens, random numbers and a state, and writes
    the chosen tokens and the new state.
    """

    def __init__(self, step: Callable[..., tuple[Choice, State]], token_R: Tensor, state: State):
        # The warm-up of a recording writes into the buffers. Positions begin at 0, so that the writes stay
        # inside.
        self._token_R, self._state = token_R.clone(), state.reset(torch.ones_like(token_R, dtype=torch.bool))
        self._uniform_R = torch.zeros(len(token_R), dtype=torch.float64, device=token_R.device)
        self._choice: Choice

        def run() -> None:
            self._choice, after = step(self._token_R, self._uniform_R, self._state)
            for buffer, new in zip(self._state.tensors(), after.tensors(), strict=True):
                if new.data_ptr() != buffer.data_ptr():  # a KV cache is written in place
                    buffer.copy_(new)
            self._token_R.copy_(self._choice.token_B)

        self._run = Recorded(run, token_R.device)

    def load(self, token_B: Tensor, state: State) -> None:
        """Copy tokens and a state into the first rows of the buffers. Results of other rows are ignored."""
        self._token_R[: len(token_B)].copy_(token_B)
        for buffer, new in zip(self._state.tensors(), state.tensors(), strict=True):
            buffer[: len(new)].copy_(new)

    def start(self, uniform_B: Tensor, rows: int) -> Choice:
        """Start a step, and the copy of its tokens to the host."""
        self._uniform_R[:rows].copy_(uniform_B)
        self._run()
        choice = self._choice
        token_B = choice.token_B[:rows].clone()  # the next step overwrites the tensors
        log_prob_B = choice.log_prob_B[:rows].clone()
        likeliest = choice.likeliest_BK[:rows].clone(), choice.likeliest_log_prob_BK[:rows].clone()
        here = _to_host(token_B, log_prob_B) if token_B.is_cuda else (token_B, log_prob_B, None)
        return _StartedChoice(token_B, log_prob_B, *likeliest, *here)

    def rows_of_state(self, rows: int) -> State:
        return self._state.map(lambda buffer: buffer[:rows])


def _to_host(token_B: Tensor, log_prob_B: Tensor) -> tuple[Tensor, Tensor, torch.cuda.Event]:
    """Start copies to the host. Return them, and the event that tells when they have arrived."""
    on_host = [torch.empty(len(each), dtype=each.dtype, pin_memory=True) for each in (token_B, log_prob_B)]
    for copied, each in zip(on_host, (token_B, log_prob_B), strict=True):
        copied.copy_(each, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()
    return on_host[0], on_host[1], arrived


_RECORDED: WeakKeyDictionary[LanguageModel, dict[tuple, _RecordedStep]] = WeakKeyDictionary()


def _recorded_step(step: Step, token_B: Tensor, state: State, compiles: bool) -> _RecordedStep:
    """The recorded step for these shapes, made now if there is none."""
    rows = 1 << (len(token_B) - 1).bit_length()
    padded_R = torch.arange(rows, device=token_B.device).clamp(max=len(token_B) - 1)
    shapes = tuple((tensor.shape[1:], tensor.dtype) for tensor in state.tensors())
    # a graph reads the weights at the addresses that they had when it was recorded
    weights = tuple(tensor.data_ptr() for tensor in (*step.model.parameters(), *step.model.buffers()))
    key = (step.sampling, step.likeliest, rows, shapes, weights, compiles)
    steps = _RECORDED.setdefault(step.model, {})
    if key not in steps:
        while len(steps) >= MOST_GRAPHS:
            del steps[next(iter(steps))]
        body = torch.compile(step, dynamic=False) if compiles else step
        steps[key] = _RecordedStep(body, token_B[padded_R], state.pick(padded_R))
    return steps[key]
