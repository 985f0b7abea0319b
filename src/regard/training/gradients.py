"""The gradients of one step: eagerly, or replayed from a CUDA graph where shapes repeat.

A small model's step is hundreds of short kernels, and launching them takes longer than running them. A
recorded step launches all of them at once. It needs no compiler, so a training starts without a wait.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from regard.machine.device import Machine
from regard.machine.graphs import Recorded
from regard.machine.ranks import Ranks
from regard.models.contract import State
from regard.models.model import Model
from regard.training.task import Batch

REPEATS = 3  # steps of one shape before it is recorded


class Gradients(ABC):
    @abstractmethod
    def of(self, batches: Sequence[Batch], state: State | None) -> tuple[Tensor, State | None]:
        """Set the gradients of all parameters; the result is the loss and the carried state.

        The sums of all batches are divided by the number of all their targets, so accumulated batches equal
        one batch.
        """


def make_gradients(objective: nn.Module, model: Model, machine: Machine) -> Gradients:
    """Recorded gradients on a GPU, for models whose training step asks the host nothing (`repeats`)."""
    eager = EagerGradients(objective, machine)
    recorded = machine.device.type == "cuda" and model.repeats
    own = RecordedGradients(eager, model, machine.device) if recorded else eager
    return own if machine.ranks.count == 1 else SummedGradients(own, model, machine.ranks)


@final
class EagerGradients(Gradients):
    def __init__(self, objective: nn.Module, machine: Machine):
        self._objective, self._machine = objective, machine

    def of(self, batches: Sequence[Batch], state: State | None) -> tuple[Tensor, State | None]:
        weight = max(1.0, sum(batch.weight for batch in batches))
        total = torch.zeros((), device=self._machine.device)
        for batch in batches:
            state = _begun_anew(state, batch)
            summed, state = self.backward(batch.inputs, state, weight, batch.mean, batch.counts)
            total += summed.detach()
        return total, state

    def backward(
        self,
        inputs: dict[str, Tensor],
        state: State | None,
        weight: Tensor | float,
        mean: bool = True,
        counts: bool = True,
    ) -> tuple[Tensor, State | None]:
        """Add the gradients of one batch; those of rows that do not count are zero."""
        device = self._machine.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self._machine.bf16):
            summed, state = self._objective(**inputs, state=state)
        summed = summed if counts else summed * 0
        loss = summed / weight
        (loss if mean else summed).backward()
        return loss, state


@final
class SummedGradients(Gradients):
    """The sums of the gradients of all ranks. A parameter has one if it has one on any rank."""

    def __init__(self, own: Gradients, model: Model, ranks: Ranks):
        self._own, self._ranks = own, ranks
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def of(self, batches: Sequence[Batch], state: State | None) -> tuple[Tensor, State | None]:
        loss, state = self._own.of(batches, state)
        anywhere = self._ranks.most([float(parameter.grad is not None) for parameter in self._parameters])
        dense = [loss]
        for parameter, has in zip(self._parameters, anywhere, strict=True):
            if not has:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if parameter.grad.is_sparse:
                parameter.grad = self._ranks.joined_rows(parameter.grad)
            else:
                dense.append(parameter.grad)
        self._ranks.sum(dense)
        return loss, state


@final
class RecordedGradients(Gradients):
    """Replays recorded steps; shapes that are rare, such as the last segments of an epoch, run eagerly."""

    def __init__(self, eager: EagerGradients, model: Model, device: torch.device):
        self._eager, self._device = eager, device
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._seen: dict[tuple, int] = {}
        self._recorded: dict[tuple, _RecordedStep] = {}

    def of(self, batches: Sequence[Batch], state: State | None) -> tuple[Tensor, State | None]:
        if len(batches) > 1:
            return self._eager.of(batches, state)
        (batch,) = batches
        if not batch.counts:
            return self._eager.of(batches, state)
        state = _begun_anew(state, batch)
        key = _shapes(batch, state)
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] < REPEATS:
            return self._eager.of(batches, state)
        if key not in self._recorded:
            if len(self._recorded) == 2:  # shapes that keep changing are not worth a recording
                return self._eager.of(batches, state)
            self._recorded[key] = _RecordedStep(self._eager, batch, state, self._parameters, self._device)
        return self._recorded[key].run(batch, state)


@final
class _RecordedStep:
    """Forward and backward pass of one shape, on buffers of its own."""

    def __init__(
        self,
        eager: EagerGradients,
        batch: Batch,
        state: State | None,
        parameters: list[nn.Parameter],
        device: torch.device,
    ):
        self._parameters = parameters
        self._inputs = {name: tensor.clone() for name, tensor in batch.inputs.items()}
        self._state = None if state is None else state.copy()
        self._weight = torch.ones((), device=device)
        self._loss = torch.zeros((), device=device)
        self._after: State | None = None
        self._grads = list[Tensor | None]()

        def run() -> None:
            for parameter in parameters:
                parameter.grad = None  # the backward pass writes into the recording's own memory
            loss, self._after = eager.backward(self._inputs, self._state, self._weight)
            self._loss = loss.detach()
            self._grads = [parameter.grad for parameter in parameters]

        self._run = Recorded(run, device)

    def run(self, batch: Batch, state: State | None) -> tuple[Tensor, State | None]:
        for name, tensor in batch.inputs.items():
            self._inputs[name].copy_(tensor)
        if state is not None and self._state is not None:
            for buffer, new in zip(self._state.tensors(), state.tensors(), strict=True):
                if buffer.data_ptr() != new.data_ptr():
                    buffer.copy_(new)
        self._weight.fill_(max(1.0, batch.weight))
        self._run()
        for parameter, grad in zip(self._parameters, self._grads, strict=True):
            parameter.grad = grad
        after = None if self._after is None else self._after.copy()
        return self._loss.clone(), after


def _begun_anew(state: State | None, batch: Batch) -> State | None:
    """The carried state, with the rows that begin a document reset."""
    if state is None or batch.fresh_B is None or not bool(batch.fresh_B.any()):
        return state
    return None if bool(batch.fresh_B.all()) else state.reset(batch.fresh_B.to(state.position_B.device))


def _shapes(batch: Batch, state: State | None) -> tuple:
    inputs = tuple((name, tensor.shape) for name, tensor in batch.inputs.items())
    return inputs, None if state is None else tuple(tensor.shape for tensor in state.tensors())
