"""Files that are whole or absent, and folders that one process writes at a time."""

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

LOCK = ".lock"  # held by the process that writes into a folder; the operating system releases it when the process dies


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of an output folder, which is made if it is missing."""
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
        (folder / LOCK).unlink(
            missing_ok=True
        )  # while it is held: filelock notices a file that is no longer there
        lock.release()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file beside its place, flush it to disk and rename it: a kill at any moment leaves the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(data)
        flush(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


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
    """A path as a run keeps it: it does not depend on where a command was typed. `-` is standard input and stays."""
    return path if path == "-" else os.path.abspath(path)


def relocated(path: str, then: str, now: Path) -> str:
    """A path that a run kept when it lay in the folder `then`. Text that was moved together with the run to `now` is found."""
    moved = os.path.normpath(os.path.join(os.path.abspath(now), os.path.relpath(path, then)))
    return moved if path != "-" and (os.path.exists(moved) or glob.glob(moved)) else path


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
