"""What becomes of freed memory, where the C library is glibc; other libraries are left as they are.

Left alone, glibc does the wrong thing twice. While n-grams are counted it keeps freed blocks of up to 32 MB in its heap, where the tables
that stay pin them down: counting wikitext-2 at order 5 peaks 70 MB higher. While a network is trained it hands larger blocks back at once,
and the system clears every page again for the next step, which asks for the same ones: up to half of a step's time (docs/benchmarks.md).
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # malloc.h
NEVER, MIB = 2**31 - 1, 2**20


def give_back() -> None:
    """Hand unused heap pages back."""
    _glibc("malloc_trim", 0)


@contextmanager
def kept_for_reuse() -> Iterator[None]:
    """Freed memory stays in the heap while this lasts, then all of it goes back."""
    _glibc("mallopt", MMAP_MAX, 0)
    _glibc("mallopt", TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        _glibc("mallopt", MMAP_MAX, 65536)  # as it was; the thresholds as they settle in any process that frees large blocks
        _glibc("mallopt", MMAP_THRESHOLD, 32 * MIB)
        _glibc("mallopt", TRIM_THRESHOLD, 64 * MIB)
        give_back()


def _glibc(name: str, *arguments: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:
        function(*arguments)
