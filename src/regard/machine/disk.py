"""Writes files atomically, and locks a folder so that one process writes into it at a time."""

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import save_file

from regard.errors import Busy, MachineError

LOCK = ".lock"  # locked by the process that writes into the folder; a dead process holds no lock


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of an output folder. The folder is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise Busy(
            f"{folder}: another process is writing into this folder; wait for it or choose another `out`"
        ) from None
    try:
        yield
    finally:
        # the file is removed while the lock is held: a process that waits for a removed file notices and
        # makes another
        (folder / LOCK).unlink(missing_ok=True)
        lock.release()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to disk and rename it.

    A kill leaves the old file or the new one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(data: dict[str, Any], path: Path) -> None:
    write_atomically(path, json.dumps(data, indent=2, ensure_ascii=False).encode())


def write_tensors(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise MachineError(
            f"{path.name} could not be written ({error}): free some room or write elsewhere with `out`"
        ) from None


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def absolute(path: str) -> str:
    """An absolute path, so that a run does not depend on the current folder.

    `-` (standard input) stays as it is.
    """
    return path if path == "-" else os.path.abspath(path)


def relocated(path: str, then: str, now: Path) -> str:
    """A text's path after its run has moved from the folder `then` to `now`.

    The result is the path at the same place relative to the run, if a file is there; otherwise the old path.
    """
    moved = os.path.normpath(os.path.join(os.path.abspath(now), os.path.relpath(path, then)))
    return moved if path != "-" and (os.path.exists(moved) or glob.glob(moved)) else path


def flush(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
