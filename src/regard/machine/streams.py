"""Standard input, output and error, also if they are closed, full or broken."""

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


def open_streams() -> None:
    """Open the standard streams that the caller has closed, and write UTF-8 whatever the locale says.

    The number of a closed stream would otherwise go to the next file that is opened, which libraries then
    write their messages into. Reading closed input and writing closed output stay errors; messages for
    closed standard error are dropped.
    """
    if sys.stdin is None:
        _occupy(0, os.O_WRONLY)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    if sys.stdout is None:
        _occupy(1, os.O_RDONLY)
        sys.stdout = _writer(1)
    if sys.stderr is None:
        _occupy(2, os.O_WRONLY)
        sys.stderr = _writer(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _writer(number: int) -> TextIO:
    file = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", line_buffering=True)


def _occupy(number: int, flags: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        handle = os.open(os.devnull, flags)
        if handle != number:
            os.dup2(handle, number)
            os.close(handle)


def tell(text: str, end: str = "\n") -> None:
    """Write a message to standard error. If it cannot be written, it is dropped, and the work goes on."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard(sys.stderr)


def flush_or_discard(stream: TextIO) -> None:
    """Write out a stream. If it cannot be written, drop the rest."""
    try:
        stream.flush()
    except (OSError, ValueError):
        discard(stream)


def discard(stream: TextIO) -> None:
    """Drop what a stream has not written, so that the interpreter does not try again when it ends."""
    with suppress(OSError, ValueError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, stream.fileno())
        os.close(handle)
        stream.flush()
