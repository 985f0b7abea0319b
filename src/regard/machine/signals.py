"""Ctrl-C and SIGTERM while something is computed that must end whole."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Stop:
    asked: bool = False


@contextmanager
def stopping() -> Iterator[Stop]:
    """The first Ctrl-C (or SIGTERM) sets `asked`, so that the loop can stop after a whole step; the second one stops at once."""
    stop = Stop()

    def ask(*_: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # signals reach the main thread alone
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
