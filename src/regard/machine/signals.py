"""Ctrl-C and SIGTERM during work that must not stop half-way."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Stop:
    requested: bool = False


@contextmanager
def delayed_stop() -> Iterator[Stop]:
    """Delay Ctrl-C and SIGTERM: the first one sets `requested`, the second one raises KeyboardInterrupt.

    A loop inside the context reads `requested` after each whole step and stops by itself.
    """
    stop = Stop()

    def handle(*_: Any) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    try:
        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # only the main thread may set signal handlers
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
