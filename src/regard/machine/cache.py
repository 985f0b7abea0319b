"""The folder of the user's cache."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """REGARD_CACHE, or else the folder `regard` in XDG_CACHE_HOME, or else ~/.cache/regard."""
    chosen = os.environ.get("REGARD_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "regard"
