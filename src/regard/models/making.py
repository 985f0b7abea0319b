"""Makes models. A model that cannot fit into the memory of the machine is refused before it is allocated."""

from typing import Any

import torch

from regard.errors import UserError
from regard.machine.memory import memory_of_machine
from regard.models.contract import LanguageModel

GIB = 1 << 30
LOWER = "lower the sizes of the model (`width`, `layers`, `context`) or of its vocabulary"


def make(
    family: type[LanguageModel], vocabulary_size: int, config: Any, *source_size: int, copies: int = 1
) -> LanguageModel:
    """Make a model. `copies` is the number of arrays as large as the weights that will be needed."""
    outline(family, vocabulary_size, config, *source_size, copies=copies)
    return family(vocabulary_size, config, *source_size)


def outline(
    family: type[LanguageModel], vocabulary_size: int, config: Any, *source_size: int, copies: int = 1
) -> LanguageModel | None:
    """Make a model without numbers: its tensors have shapes only.

    Return None for a family from outside that reads numbers while it is made.
    """
    try:
        with torch.device("meta"):
            model = family(vocabulary_size, config, *source_size)
    except NotImplementedError:
        return None
    except (RuntimeError, OverflowError, TypeError) as error:
        if "overflow" not in str(error).lower() and "too large" not in str(error).lower():
            raise
        raise UserError(f"this model has more numbers than a computer can count: {LOWER}") from None
    tensors = [*model.parameters(), *model.buffers()]
    size, machine = copies * sum(tensor.nbytes for tensor in tensors), memory_of_machine()
    if size > machine:
        need = f"this model needs at least {size / GIB:,.1f} GiB of memory, and this machine has"
        raise UserError(f"{need} {machine / GIB:,.1f}: {LOWER}")
    return model
