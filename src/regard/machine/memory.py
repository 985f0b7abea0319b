"""The memory that there is, and settings of glibc's malloc. Other C libraries are left as they are.

glibc's defaults are wrong in two cases. While n-grams are counted, glibc keeps freed blocks of up to 32 MB in
its heap, and tables that stay in use pin these blocks down: counting wikitext-2 at order 5 peaks 70 MB
higher. While a network is trained, glibc returns larger blocks to the system at once, and the system clears
their pages again for the next step: up to half of a step's time (docs/benchmarks.md).
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import UserError

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # numbers of malloc.h
NEVER, MIB = 2**31 - 1, 2**20
GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of containers


def check_memory(size: float, what: str) -> None:
    """Refuse a size that needs more bytes than there are, before they are allocated."""
    there = usable_memory()
    if size > there:
        needs = f"{what} needs at least {size / 1e9:,.1f} GB of memory"
        raise UserError(f"{needs}, and this machine has {there / 1e9:,.1f}; choose a smaller number")


def usable_memory() -> int:
    """The bytes of memory of this machine, or fewer if its container or `ulimit -v` allows fewer."""
    limits = list[int]()
    with suppress(ValueError, OSError, AttributeError):  # a system without sysconf
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in GROUP_LIMITS:
        with suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text()))
    with suppress(ImportError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        limits += [limit] if limit != resource.RLIM_INFINITY else []
    return min(limits, default=sys.maxsize)


def resident_memory() -> int:
    """The bytes of memory that this process has now, or the most it had, where the system tells only that."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return 0


def release_freed_memory() -> None:
    """Return unused pages of the heap to the system."""
    _glibc("malloc_trim", 0)


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory in the heap inside the context, for reuse.

    Afterwards all of it returns to the system.
    """
    _glibc("mallopt", MMAP_MAX, 0)
    _glibc("mallopt", TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        # 65536 is glibc's default; any process that frees large blocks reaches these two thresholds
        _glibc("mallopt", MMAP_MAX, 65536)
        _glibc("mallopt", MMAP_THRESHOLD, 32 * MIB)
        _glibc("mallopt", TRIM_THRESHOLD, 64 * MIB)
        release_freed_memory()


def _glibc(name: str, *arguments: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:
        function(*arguments)
