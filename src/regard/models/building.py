"""Makes a model from a config. A model that the machine cannot hold is refused before its memory is taken."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from regard.errors import UserError
from regard.machine.memory import check_memory
from regard.models.model import Model
from regard.ranges import check_sizes

M = TypeVar("M", bound=Model)
MOST_TENSORS = 10_000  # tensors of a model; a Transformer has 16 in each layer
TOO_LARGE = ("overflow", "Overflow", "too large", "exceeds")  # of torch, for products of sizes
UNUSUAL = 2**32  # the largest number of a config, squared, times the second; GPT-2 XL stays below


def build_model(family: type[M], vocabulary_size: int, config: Any, *sizes: int | tuple[int, ...]) -> M:
    """Make the model, or raise a UserError with the memory that its weights need."""
    check_sizes(config)
    name = f"this {family.family}"
    try:
        if _is_unusual(config):
            with suppress(NotImplementedError, RuntimeError), _pretended(), _counted(name):
                family(vocabulary_size, config, *sizes)
        with _counted(name):
            return family(vocabulary_size, config, *sizes)
    except (RuntimeError, OverflowError) as error:
        if not isinstance(error, OverflowError) and not any(words in str(error) for words in TOO_LARGE):
            raise
        raise UserError(f"{name} is too large for any machine: choose smaller numbers") from None


def outline(family: type[M], vocabulary_size: int, config: Any, *sizes: int | tuple[int, ...]) -> M | None:
    """Make a large model without its numbers, so that saved tensors can be compared with its shapes.

    Return None for a usual model, and for a family that reads numbers while it is made.
    """
    if not _is_unusual(config):
        return None
    with suppress(NotImplementedError, RuntimeError), _pretended(), _counted(f"this {family.family}"):
        return family(vocabulary_size, config, *sizes)
    return None


def _is_unusual(config: Any) -> bool:
    numbers = [value for value in vars(config).values() if isinstance(value, int)]
    *_, second, largest = sorted([1, 1, *numbers])
    return largest**2 * second > UNUSUAL


@contextmanager
def _pretended() -> Iterator[None]:
    """Make tensors that take no memory. The first takes torch a second, so usual configs do without."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        yield


@contextmanager
def _counted(name: str) -> Iterator[None]:
    """Stop the making of a model whose tensors are too many. A weight counts before it is filled."""
    total, tensors = 0, 0

    def count(module: nn.Module, tensor_name: str, tensor: torch.Tensor | None) -> None:
        nonlocal total, tensors
        if tensor is None:
            return
        total, tensors = total + tensor.nbytes, tensors + 1
        check_memory(total, f"{name} with its weights")
        if tensors > MOST_TENSORS:
            raise UserError(f"{name} has more than {MOST_TENSORS:,} tensors of weights: choose fewer layers")

    hooks = (
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
