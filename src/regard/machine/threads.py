"""OpenMP threads: how long they spin, and how long they had to wait for a core.

torch's Linux wheels use GNU's libgomp. A libgomp thread that has nothing to do spins for a while before it sleeps. On a machine with
one busy core, two threads that spin for each other are slower than one thread (docs/benchmarks.md, "A busy machine").
"""

import os
import time
from pathlib import Path
from typing import final

SPINS = "1000"  # measured: as fast as the default on idle cores, and the fastest of those tried beside a busy core
CHOICES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # variables by which a person chooses for themselves


def limit_spinning() -> None:
    """Make idle OpenMP threads sleep soon. libgomp reads the variable once, when torch is imported: call this before."""
    if not any(name in os.environ for name in CHOICES):
        os.environ["GOMP_SPINCOUNT"] = SPINS


@final
class WaitingTime:
    """Measures the share of time in which the threads of this process were ready to run and had no core.

    The kernel counts that time for every thread (the second field of Linux's schedstat). Other systems do not tell: the share is None.
    """

    def __init__(self) -> None:
        self._began, self._waited = time.perf_counter(), _waited_seconds()

    def share(self) -> float | None:
        """Seconds of waiting for each second since the meter was made; 0.5 means that half a core was missing."""
        waited = _waited_seconds()
        if waited is None or self._waited is None:
            return None
        return max(0.0, waited - self._waited) / max(1e-9, time.perf_counter() - self._began)


def _waited_seconds() -> float | None:
    total, seen = 0, False
    for task in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total, seen = total + int(task.read_text().split()[1]), True
        except (OSError, ValueError, IndexError):  # the thread ended, or the kernel does not count
            continue
    return total / 1e9 if seen else None
