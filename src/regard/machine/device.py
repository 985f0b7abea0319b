"""The device and the precision of computations."""

import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch

from regard.errors import UserError

Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class Machine:
    device: torch.device
    bf16: bool  # linear layers run in bf16; attention on a CPU stays in fp32
    peak: float  # floating-point operations a second of a large matrix product in that precision


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def describe_machine() -> str:
    """Name the device, the number of threads and the versions, for reports of measurements."""
    device = torch.cuda.get_device_name() if best_device().type == "cuda" else _processor()
    count = torch.get_num_threads()
    threads = "1 thread" if count == 1 else f"{count} threads"
    return f"{device}, {threads}, torch {torch.__version__}, Python {platform.python_version()}"


def _processor() -> str:
    """Name the processor. Linux lists it; other systems tell Python, or name the architecture only."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text("utf-8", "replace").splitlines() if listed.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a CPU tensor to the device. A GPU copies from pinned memory, so that the host does not wait."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def choose_machine(precision: Precision) -> Machine:
    """Choose the GPU if there is one.

    With `auto`, choose bf16 if a measured matrix product is faster in bf16.
    """
    device = best_device()
    if device.type == "cuda" and precision != "fp32":
        torch.set_float32_matmul_precision("high")  # products that stay in fp32 may run in TF32
    fp32_rate, bf16_rate = _product_rate(device, torch.float32), _product_rate(device, torch.bfloat16)
    bf16 = bf16_rate > 1.2 * fp32_rate if precision == "auto" else precision == "bf16"
    return Machine(device, bf16, bf16_rate if bf16 else fp32_rate)


def check_precision(precision: str) -> None:
    if precision not in get_args(Precision):
        raise UserError(f"`precision` must be one of {', '.join(get_args(Precision))}; not {precision!r}")


def in_precision(precision: Precision) -> torch.autocast:
    """A context for linear layers in bf16: with `bf16`, and with `auto` if bf16 is faster here."""
    check_precision(precision)
    bf16 = choose_machine("auto").bf16 if precision == "auto" else precision == "bf16"
    return torch.autocast(best_device().type, torch.bfloat16, enabled=bf16)


def _product_rate(device: torch.device, dtype: torch.dtype, size: int = 768) -> float:
    square = torch.randn(size, size, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        total = (square @ square)[0, 0]
        float(total)  # waits for the device
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best
