"""Opens files to read: a named pipe that no program writes into is an error, and no wait for ever."""

import io
import os
import stat
import time
from pathlib import Path
from typing import Any, BinaryIO, cast, final

from regard.errors import UserError

WAIT = 10.0  # seconds in which a program must begin to write into a named pipe
CHUNK = 1 << 16


def open_input(path: str | Path) -> BinaryIO:
    """Open a file, a device or a named pipe."""
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return open(path, "rb")
    return cast(BinaryIO, io.BufferedReader(_Pipe(*_opened(path))))


def _opened(path: str | Path) -> tuple[int, bytes]:
    """Open a named pipe when a program has opened it to write. Return it and the first bytes in it."""
    handle, end = os.open(path, os.O_RDONLY | os.O_NONBLOCK), time.monotonic() + WAIT
    try:
        while time.monotonic() < end:
            try:
                if first := os.read(handle, CHUNK):  # nothing is read from a pipe without a writer
                    break
            except BlockingIOError:  # the writer has not written yet
                first = b""
                break
            time.sleep(0.02)
        else:
            raise UserError(f"{path}: no program wrote into this pipe for {WAIT:.0f} seconds; start it first")
        os.set_blocking(handle, True)
    except BaseException:
        os.close(handle)
        raise
    return handle, first


@final
class _Pipe(io.RawIOBase):
    """A pipe of which some bytes were read."""

    def __init__(self, handle: int, first: bytes):
        self._file, self._first = io.FileIO(handle), first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if not self._first:
            return self._file.readinto(buffer)
        size = min(len(buffer), len(self._first))
        buffer[:size], self._first = self._first[:size], self._first[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()
