"""Memory that is freed goes back to the system at once, while n-grams are counted.

glibc keeps freed blocks of up to 32 MB in its heap, where the small tables that stay pin them down: counting wikitext-2 at order 5 then
peaks at 650 MB instead of 490 (docs/benchmarks.md).
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

M_MMAP_THRESHOLD = -3  # malloc.h
GLIBC_LARGEST = 32 << 20  # where glibc's own moving threshold ends up


@contextmanager
def returned_at_once(above: int = 1 << 20) -> Iterator[None]:
    """Blocks larger than `above` bytes are mapped and unmapped, not kept. Other C libraries are left as they are."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        yield
        return
    mallopt(M_MMAP_THRESHOLD, above)
    try:
        yield
    finally:
        mallopt(M_MMAP_THRESHOLD, GLIBC_LARGEST)
