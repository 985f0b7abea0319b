"""Checks of tensors from files. A mistake is a ValueError that names the tensor."""

from collections.abc import Mapping, Sequence

from torch import Tensor


def check_tensors(own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Check that the saved tensors have the names and shapes of the own tensors, and finite numbers."""
    for name, tensor in own.items():
        if name not in saved:
            raise ValueError(f"the tensor {name} is missing")
        check_tensor(name, saved[name], tensor.shape)
        if not bool(saved[name].isfinite().all()):
            raise ValueError(f"the tensor {name} holds NaN or infinity")
    unknown = [name for name in saved if name not in own]
    if unknown:
        raise ValueError(f"the model has no tensor {unknown[0]}")


def check_tensor(name: str, tensor: Tensor, shape: Sequence[int]) -> None:
    """Check that a tensor has this shape and holds floating-point numbers."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"the tensor {name} has the shape {list(tensor.shape)}, not {list(shape)}")
    if not tensor.is_floating_point():
        raise ValueError(f"the tensor {name} holds {str(tensor.dtype).removeprefix('torch.')}, not fractions")
