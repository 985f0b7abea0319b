"""The compiled body of the decoder on a CPU: each step is one call of a package (machine/packages.py).

There are two packages of a step, for one row and for any larger number. Both read buffers of any size.

Shape legend: B rows.
"""

from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.machine.packages import Package, make_package, package_path
from regard.models.contract import LanguageModel, State
from regard.probabilities.step import Body, Choice, Step

EXAMPLE_ROWS, EXAMPLE_ROOM = 3, 32  # the sizes of the tensors that a step is written down with


def can_package(step: Step) -> bool:
    """Whether the operations of a step are the same for all tokens, and the weights are all that it learned."""
    model = step.model
    return model.steady and model.given is None and model.learns == "descent" and model.device.type == "cpu"


@final
class PackagedBody(Body):
    """Runs the package of a step. A package that is missing is made."""

    def __init__(self, step: Step):
        self._step = Step(step.model, step.sampling, step.likeliest, may_ask=False)

    def begin(self, token_B: Tensor, state: State) -> None:
        # The package changes the tensors of the state, so no two of them may share their memory.
        seen = set[int]()
        tensors = list[Tensor]()
        for tensor in state.tensors():
            shared = tensor.data_ptr() in seen
            seen.add(tensor.data_ptr())
            tensors.append(tensor.clone() if shared else tensor)
        self._state = state.with_tensors(tensors)
        self._package = _package(self._step, len(token_B))
        self._tensors = [token_B.clone(), torch.empty(0), *tensors]

    def step(self, uniform_B: Tensor, next_uniform_B: Tensor | None = None) -> Choice:
        self._tensors[1] = uniform_B
        return Choice(*self._package(self._tensors))

    def state(self) -> State:
        return self._state


@final
class _Run(nn.Module):
    """A step as a function of tensors: it writes the new state, and the tokens, into the tensors it is given."""

    def __init__(self, step: Step, state: State):
        super().__init__()
        self.step, self._state = step, state

    def forward(self, tensors: list[Tensor]) -> list[Tensor]:
        token_B, uniform_B, *before = tensors
        choice, state = self.step(token_B, uniform_B, self._state.with_tensors(before))
        for tensor, new in zip(before, state.tensors(), strict=True):
            if new is not tensor:  # a KV cache is written in place
                tensor.copy_(new)
        token_B.copy_(choice.token_B)
        return [choice.token_B, choice.log_prob_B, choice.likeliest_BK, choice.likeliest_log_prob_BK]


_PACKAGES: WeakKeyDictionary[LanguageModel, dict[tuple, Package]] = WeakKeyDictionary()


def _package(step: Step, rows: int) -> Package:
    """The package of this step for one row or for several, made now if there is none."""
    weights = tuple(tensor.data_ptr() for tensor in (*step.model.parameters(), *step.model.buffers()))
    key = (step.sampling, step.likeliest, rows == 1, weights, torch.get_num_threads())
    packages = _PACKAGES.setdefault(step.model, {})
    if key not in packages:
        with torch.inference_mode(False), torch.no_grad():
            packages[key] = _load(step, 1 if rows == 1 else EXAMPLE_ROWS)
    return packages[key]


def _load(step: Step, rows: int) -> Package:
    path = path_of(step, rows)
    state = step.model.with_room(step.model.begin(rows), EXAMPLE_ROOM)
    run = _Run(step, state)
    if not path.exists():
        token_B, uniform_B = torch.zeros(rows, dtype=torch.long), torch.zeros(rows, dtype=torch.float64)
        tensors = [token_B, uniform_B, *(torch.zeros_like(tensor) for tensor in state.tensors())]
        make_package(path, run, tensors, _changing(step.model, rows))
    return Package(path, run)


def path_of(step: Step, rows: int) -> Any:
    """The place of the package of a step."""
    model = step.model
    weights = {name: (tensor.shape, tensor.dtype) for name, tensor in model.state_dict().items()}
    family = f"{type(model).__module__}.{type(model).__qualname__}"
    return package_path(
        family, model.vocabulary_size, repr(model.config), weights, repr(step.sampling), step.likeliest, rows == 1
    )


def _changing(model: LanguageModel, rows: int) -> list[dict[int, Any]]:
    """The axes whose size may change: that of rows, if there are several, and those that room lengthens."""
    first = {} if rows == 1 else {0: torch.export.Dim("rows", min=2)}
    room = torch.export.Dim("room", min=2)
    shapes = [
        [tensor.shape for tensor in model.with_room(model.begin(rows), size).tensors()]
        for size in (EXAMPLE_ROOM, EXAMPLE_ROOM + 1)
    ]
    axes = list[dict[int, Any]]([dict(first), dict(first)])
    for one, other in zip(*shapes, strict=True):
        axes.append(first | {axis: room for axis in range(1, len(one)) if one[axis] != other[axis]})
    return axes
