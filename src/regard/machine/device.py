"""The device and the precision of computations."""

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import torch

from regard.errors import UserError
from regard.machine.ranks import ALONE, Ranks, current_ranks

Precision = Literal["auto", "fp32", "bf16"]
PROBES, PROBED = 5, 8  # turns, and products of a turn, that choose the number of threads
WORTH_THREADS = 1.3  # all threads must be faster than one by this factor


@dataclass(frozen=True)
class Machine:
    device: torch.device
    bf16: bool  # linear layers run in bf16; attention on a CPU stays in fp32
    peak: float  # floating-point operations a second of large matrix products in that precision, on all ranks
    threads: int  # of a rank that trains on a CPU
    ranks: Ranks = ALONE

    @contextmanager
    def using_threads(self) -> Iterator[None]:
        """Use this number of threads inside the context."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def describe_machine() -> str:
    """Name the device, the number of threads and the versions, for reports of measurements."""
    device = torch.cuda.get_device_name() if best_device().type == "cuda" else _processor()
    count = fastest_threads()
    threads = "1 thread" if count == 1 else f"{count} threads"
    return f"{device}, {threads}, torch {torch.__version__}, Python {platform.python_version()}"


def _processor() -> str:
    """Name the processor. Linux lists it; other systems tell Python, or name the architecture only."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text("utf-8", "replace").splitlines() if listed.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor to the device. A GPU copies from pinned memory, so that the host does not wait."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def choose_machine(precision: Precision, threads: int | None = None) -> Machine:
    """Choose the GPU if there is one.

    With `auto`, choose bf16 if a measured matrix product is faster in bf16. What rank 0 chooses holds for all
    ranks.
    """
    ranks, device = current_ranks(), best_device()
    threads = ranks.first(threads or fastest_threads())
    if device.type == "cuda" and precision != "fp32":
        torch.set_float32_matmul_precision("high")  # products that stay in fp32 may run in TF32
    fp32_rate, bf16_rate = _product_rate(device, torch.float32), _product_rate(device, torch.bfloat16)
    bf16 = ranks.first(bf16_rate > 1.2 * fp32_rate if precision == "auto" else precision == "bf16")
    return Machine(device, bf16, ranks.count * (bf16_rate if bf16 else fp32_rate), threads, ranks)


@cache
def fastest_threads() -> int:
    """The number of threads with which this process trains on a CPU: all, or one on a busy machine.

    Threads that share a product wait for the slowest of them. Beside a process that keeps a core busy, two
    threads are slower than one (docs/benchmarks.md, "A busy machine"). The choice is made once, so that all
    trainings of a comparison have it. OMP_NUM_THREADS decides if it is set.
    """
    every = torch.get_num_threads()
    if every == 1 or "OMP_NUM_THREADS" in os.environ or best_device().type != "cpu":
        return every
    square = torch.randn(384, 384, generator=torch.Generator().manual_seed(0))
    seconds = {every: 0.0, 1: 0.0}
    try:
        for _ in range(PROBES):  # in turn, so that both meet the same load
            for count in seconds:
                torch.set_num_threads(count)
                square @ square  # the first product of a changed number of threads starts them
                started = time.perf_counter()
                for _ in range(PROBED):
                    square @ square
                seconds[count] += time.perf_counter() - started
    finally:
        torch.set_num_threads(every)
    return every if seconds[1] > WORTH_THREADS * seconds[every] else 1


def leaves_threads() -> bool:
    """True if training uses one thread although torch has more."""
    return fastest_threads() < torch.get_num_threads()


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
