"""Reads files that may be pipes or devices: a pipe without a writer and an endless device end in an error."""

import os
import stat
import time
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError
from regard.machine.memory import check_memory

WAIT = 10.0  # seconds in which a program must begin to write into a named pipe
CHUNK = 1 << 20


def read_input(path: str | Path, most: int | None = None) -> bytes:
    """Read a file, a pipe or a device. No more than `most` bytes are read."""
    mode = os.stat(path).st_mode
    if stat.S_ISFIFO(mode):
        handle, first = _open_pipe(path)
        with open(handle, "rb") as file:
            return read_stream(file, str(path), first, most)
    with open(path, "rb") as file:
        if stat.S_ISREG(mode):
            return file.read() if most is None else file.read(most)
        return read_stream(file, str(path), most=most)


def read_stream(file: BinaryIO, name: str, first: bytes = b"", most: int | None = None) -> bytes:
    """Read the rest of a stream after its `first` bytes.

    A zero byte ends it: text has none, and /dev/zero has no end. A stream that does not fit into memory, once
    as bytes and once as text, is refused.
    """
    data, part = bytearray(first), b""
    while most is None or len(data) < most:
        part = file.read(CHUNK)
        data += part
        check_memory(2 * len(data), f"{name} (what was read of it so far)")
        # A short part is the last one. To read again would ask a terminal for a second end.
        if len(part) < CHUNK or (b"\0" in part and not name.endswith(".gz")):
            break
    return bytes(data[:most])


def _open_pipe(path: str | Path) -> tuple[int, bytes]:
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
