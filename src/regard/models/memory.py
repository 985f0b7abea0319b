"""Freed memory goes back to the system while n-grams are counted.

glibc keeps freed blocks of up to 32 MB in its heap, where the tables that stay pin them down: without this, counting wikitext-2 at order 5
peaks 70 MB higher (docs/benchmarks.md).
"""

import ctypes
import sys


def give_back() -> None:
    """Hand unused heap pages back; C libraries other than glibc are left as they are."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
