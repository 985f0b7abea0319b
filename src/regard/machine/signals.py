"""Ctrl-C and SIGTERM during work that must not stop half-way."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any


def _signals(*names: str) -> list[signal.Signals]:
    """The signals with these names that this system has and that are not ignored."""
    here = (number for number in signal.Signals if number.name in names)
    return [number for number in here if signal.getsignal(number) != signal.SIG_IGN]


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Let SIGTERM, and the end of the terminal (SIGHUP), stop the work like Ctrl-C.

    A signal that is ignored, as under nohup, stays ignored.
    """
    before = dict[int, Any]()
    for number in _signals("SIGTERM", "SIGHUP"):
        with suppress(ValueError):  # only the main thread may set signal handlers
            before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for changed, handler in before.items():
            signal.signal(changed, handler)


@dataclass
class Stop:
    requested: bool = False


@contextmanager
def delayed_stop() -> Iterator[Stop]:
    """Delay Ctrl-C, SIGTERM and SIGHUP: the first sets `requested`, the second raises KeyboardInterrupt.

    A loop inside the context reads `requested` after each whole step and stops by itself.
    """
    stop = Stop()

    def handle(*_: Any) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    try:
        numbers = _signals("SIGINT", "SIGTERM", "SIGHUP")
        before = {number: signal.signal(number, handle) for number in numbers}
    except ValueError:  # only the main thread may set signal handlers
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
