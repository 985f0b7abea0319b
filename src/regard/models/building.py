"""Makes a model from a config. A model that the machine cannot hold is refused before its memory is taken."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from regard.errors import UserError
from regard.machine.memory import check_memory
from regard.models.contract import LanguageModel
from regard.ranges import check_sizes

MOST_TENSORS = 100_000  # weight tensors of a model; a Transformer has 16 in each layer
TOO_LARGE = ("overflow", "Overflow", "too large", "exceeds")  # of torch, for products of sizes


def build_model(family: type[LanguageModel], vocabulary_size: int, config: Any, *sizes: int) -> LanguageModel:
    """Make the model, or raise a UserError with the memory that its weights need."""
    check_sizes(config)
    name = f"this {family.family}"
    try:
        with _counted(name):
            return family(vocabulary_size, config, *sizes)
    except (RuntimeError, OverflowError) as error:
        if not isinstance(error, OverflowError) and not any(words in str(error) for words in TOO_LARGE):
            raise
        raise UserError(f"{name} is too large for any machine: choose smaller numbers") from None


@contextmanager
def _counted(name: str) -> Iterator[None]:
    """Stop the making of a model whose weights are too many. A weight counts before it is filled."""
    total, tensors = 0, 0

    def count(module: nn.Module, parameter_name: str, parameter: nn.Parameter) -> None:
        nonlocal total, tensors
        total, tensors = total + parameter.nbytes, tensors + 1
        check_memory(total, f"{name} with its weights")
        if tensors > MOST_TENSORS:
            raise UserError(f"{name} has more than {MOST_TENSORS:,} tensors of weights: choose fewer layers")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()
