"""The memory of the machine, and settings of glibc's malloc. Other C libraries are left as they are.

glibc's defaults are wrong in two cases. While n-grams are counted, glibc keeps freed blocks of up to 32 MB in
its heap, and tables that stay in use pin these blocks down: counting wikitext-2 at order 5 peaks 70 MB
higher. While a network is trained, glibc returns larger blocks to the system at once, and the system clears
their pages again for the next step: up to half of a step's time (docs/benchmarks.md).
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # numbers of malloc.h
NEVER, MIB = 2**31 - 1, 2**20


def memory_of_machine() -> int:
    """Return the bytes of memory that this process may use: of the machine, its container or its limits."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    container = Path("/sys/fs/cgroup/memory.max")
    if container.is_file() and (text := container.read_text().strip()).isdigit():
        limits.append(int(text))
    limits += [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min(limit for limit in limits if limit > 0)


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
