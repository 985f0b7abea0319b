"""OpenMP threads: how long they spin, and how long they had to wait for a core.

torch's Linux wheels use GNU's libgomp. An idle libgomp thread spins for a while before it sleeps. On a
machine with one busy core, two threads that spin for each other are slower than one thread
(docs/benchmarks.md, "A busy machine").
"""

import os
import time
from pathlib import Path
from typing import final

# measured: as fast as the default on idle cores, and the fastest value tried beside a busy core
SPINS = "1000"
CHOICES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # variables with which a user makes another choice


def limit_spinning() -> None:
    """Make idle OpenMP threads sleep soon.

    Call this before torch is imported: libgomp then reads the variable.
    """
    if not any(name in os.environ for name in CHOICES):
        os.environ["GOMP_SPINCOUNT"] = SPINS


@final
class WaitingTime:
    """Measures the share of time in which threads of this process were ready to run and had no core.

    Linux counts that time for every thread (the second field of schedstat). On other systems the share is
    None.
    """

    def __init__(self) -> None:
        self._started, self._waited = time.perf_counter(), _waited_seconds()

    def share(self) -> float | None:
        """Seconds of waiting for each second since the start; 0.5 means that half a core was missing."""
        waited = _waited_seconds()
        if waited is None or self._waited is None:
            return None
        return max(0.0, waited - self._waited) / max(1e-9, time.perf_counter() - self._started)


def _waited_seconds() -> float | None:
    nanoseconds = list[int]()
    for task in Path("/proc/self/task").glob("*/schedstat"):
        try:
            nanoseconds.append(int(task.read_text().split()[1]))
        except (OSError, ValueError, IndexError):  # the thread has ended, or the kernel does not count
            continue
    return sum(nanoseconds) / 1e9 if nanoseconds else None
