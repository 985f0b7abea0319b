"""The compiled body of the decoder on a CPU: each step is one call of a package (machine/packages.py).

A step has two packages, one for a single row and one for any larger number. Both read buffers of any size.
A step without a package is run by the eager body, whose results a package must repeat.

Shape legend: B rows.
"""

import inspect
from pathlib import Path
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.errors import notify
from regard.machine.packages import Package, compiler, make_package, package_path, packages_folder
from regard.models.contract import LanguageModel, State
from regard.models.wrappers.wrapper import Wrapper
from regard.probabilities.step import Body, Choice, EagerBody, Step

EXAMPLE_ROWS, EXAMPLE_ROOM = 3, 32  # the sizes of the tensors with which a step is written down


@final
class PackagedBody(Body):
    """Runs the package of a step if there is one, and the eager body otherwise."""

    def __init__(self, step: Step, makes: bool = True):
        """`makes` compiles a missing package: the first text waits for the compiler."""
        self._step, self._makes = step, makes

    def begin(self, token_B: Tensor, state: State) -> None:
        package = _package(self._step, len(token_B), self._makes)
        self._body = EagerBody(self._step) if package is None else _Packaged(package)
        self._body.begin(token_B, state)

    def step(self, uniform_B: Tensor, next_uniform_B: Tensor | None = None) -> Choice:
        return self._body.step(uniform_B)

    def state(self) -> State:
        return self._body.state()


@final
class _Packaged(Body):
    """Calls a package, which reads and writes the tensors of the state."""

    def __init__(self, package: Package):
        self._package = package

    def begin(self, token_B: Tensor, state: State) -> None:
        places, tensors = set[int](), list[Tensor]()
        for tensor in state.tensors():
            # the package writes into every tensor, so no two of them may share their memory
            tensors.append(tensor.clone() if tensor.data_ptr() in places else tensor)
            places.add(tensor.data_ptr())
        self._state = state.with_tensors(tensors)
        self._tensors = [token_B.clone(), torch.empty(0), *tensors]

    def step(self, uniform_B: Tensor, next_uniform_B: Tensor | None = None) -> Choice:
        self._tensors[1] = uniform_B
        return Choice(*self._package(self._tensors))

    def state(self) -> State:
        return self._state


@final
class _Run(nn.Module):
    """A step as a function of tensors. It writes the new state, and the tokens, into the tensors given."""

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


_PACKAGES: WeakKeyDictionary[LanguageModel, dict[tuple, Package | None]] = WeakKeyDictionary()


def has_package(step: Step) -> bool:
    """Whether a package of this step was made before, for any number of rows."""
    return (
        packages_folder().is_dir()
        and _can_package(step.model)
        and any(_path(step, rows).exists() for rows in (1, EXAMPLE_ROWS))
    )


def _can_package(model: LanguageModel) -> bool:
    """Whether family, configuration and weights say what a step computes, on tensors whose axes are known."""
    known = not isinstance(model, Wrapper) and model.learns == "descent" and _source(model) is not None
    fits = model.given is None and (model.context is None or model.context > 2)
    return known and fits and model.steady and model.device.type == "cpu"


def _source(model: LanguageModel) -> str | None:
    """The file that defines the family, or None if there is no such file, as in a notebook."""
    try:
        return Path(inspect.getfile(type(model))).read_text()
    except (OSError, TypeError):
        return None


def _package(step: Step, rows: int, makes: bool) -> Package | None:
    """The package of this step for one row or for several. None: there is none, and it cannot be made."""
    weights = tuple(tensor.data_ptr() for tensor in (*step.model.parameters(), *step.model.buffers()))
    key = (step.sampling, step.likeliest, rows == 1, weights, torch.get_num_threads(), makes)
    packages = _PACKAGES.setdefault(step.model, {})
    if key not in packages:
        with torch.inference_mode(False), torch.no_grad():
            asks_nothing = Step(step.model, step.sampling, step.likeliest, may_ask=False)
            packages[key] = _load(asks_nothing, 1 if rows == 1 else EXAMPLE_ROWS, makes)
    return packages[key]


def _load(step: Step, rows: int, makes: bool) -> Package | None:
    if not _can_package(step.model):
        return None
    path = _path(step, rows)
    run = _Run(step, _state(step.model, rows, EXAMPLE_ROOM))
    weights = {name: weight.detach() for name, weight in (*run.named_parameters(), *run.named_buffers())}
    try:
        if path.exists():
            return Package(path, weights)
    except RuntimeError:  # a damaged file
        path.unlink(missing_ok=True)
    if not makes:
        return None
    if compiler() is None:
        notify("no C++ compiler was found (install g++, or set CXX): the decoder's step is not compiled")
        return None
    try:
        notify("compiling the decoder's step, which takes a quarter of a minute or more; the result is kept")
        _make(path, run, rows)
        return Package(path, weights)
    except Exception as error:  # of torch's compiler, or of the C++ compiler: there are many types
        reason = str(error).strip().partition("\n")[0]
        notify(f"the decoder's step could not be compiled ({reason}): it runs without")
        return None


def _make(path: Path, run: _Run, rows: int) -> None:
    many = {} if rows == 1 else {0: torch.export.Dim("rows", min=2)}
    room = torch.export.Dim("room", min=2)
    state = _state(run.step.model, rows, EXAMPLE_ROOM)
    tensors = [torch.zeros(rows, dtype=torch.long), torch.zeros(rows, dtype=torch.float64)]
    sizes: list[dict[int, Any]] = [many, many]
    for tensor, axes in zip(state.tensors(), _room_axes(run.step.model), strict=True):
        tensors.append(torch.zeros_like(tensor))
        sizes.append(many | dict.fromkeys(axes, room))
    make_package(path, run, tensors, sizes)


def _path(step: Step, rows: int) -> Path:
    """The place of the package of a step."""
    model = step.model
    weights = {name: (tensor.shape, tensor.dtype) for name, tensor in model.state_dict().items()}
    family = type(model).__qualname__, _source(model)
    settings = repr(step.sampling), step.likeliest, rows == 1
    return package_path(family, model.vocabulary_size, repr(model.config), weights, settings)


def _state(model: LanguageModel, rows: int, room: int) -> State:
    """Return a state with room that has read a token, and so has all its buffers."""
    start_B1 = torch.full((rows, 1), model.start)
    return model.with_room(model(start_B1, model.begin(rows))[1], room)


def _room_axes(model: LanguageModel) -> list[list[int]]:
    """The axes of each tensor of a state that are longer in a state with more room."""
    one, other = (
        [tensor.shape for tensor in _state(model, 1, room).tensors()]
        for room in (EXAMPLE_ROOM, EXAMPLE_ROOM + 1)
    )
    pairs = zip(one, other, strict=True)
    return [[axis for axis in range(len(a)) if a[axis] != b[axis]] for a, b in pairs]
