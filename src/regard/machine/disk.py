"""Writes files atomically, and locks a folder so that one process writes into it at a time."""

import errno
import glob
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import save_file

from regard.errors import Busy, MachineError, UserError, notify

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BEGUN = ".regard-"  # begins the temporary names; a process that was killed may leave such a file
LOCK = ".lock"  # locked by the process that writes into the folder; a dead process holds no lock


@contextmanager
def lock_folder(folder: Path) -> Iterator[bool]:
    """Hold the lock of an output folder. The value says whether this process made the folder."""
    created = make_folder(folder)
    try:
        with lock_file(folder / LOCK, folder, "into this folder"):
            yield created
    except FileNotFoundError as error:
        if not folder.is_dir() and str(error.filename).startswith(str(folder)):
            raise MachineError(f"{folder}: was removed while regard was writing into it") from error
        raise


@contextmanager
def lock_file(path: Path, name: Path, place: str = "it") -> Iterator[None]:
    """Hold a lock for what `name` names. The operating system releases it when the process dies."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise Busy(
            f"{name}: another process is writing {place}; wait for it or choose another name"
        ) from None
    try:
        yield
    finally:
        # the file is removed while the lock is held: a process that has opened a removed file notices and
        # makes another
        path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def wait_for_lock(path: Path, why: str) -> Iterator[None]:
    """Hold a lock. If another process holds it, say why and wait."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        notify(f"{why}: waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while the lock is held, as in lock_file
        lock.release()


def make_folder(folder: Path) -> bool:
    """Make a folder and its parents. Return whether the folder is new."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder}: a part of this path is a file, not a folder; choose another") from None
    try:
        folder.mkdir()
    except FileExistsError:
        if folder.is_dir():
            return False
        kind = "a link to a folder that is missing" if folder.is_symlink() else "a file, not a folder"
        raise UserError(f"{folder}: is {kind}; choose another `out`") from None
    flush(folder.parent)
    return True


def remove_begun(folder: Path, names: Iterable[str], created: bool) -> None:
    """Remove what this process has begun and not finished: files by name, then the folder, if it is new.

    Anything else stays, and keeps the folder.
    """
    if created:
        remove_files(folder, (*names, LOCK))
    else:
        for name in names:
            (folder / name).unlink(missing_ok=True)


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files of a folder by their names, and the folder, unless it holds something else."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # the folder holds something else, or is gone
        folder.rmdir()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to disk and rename it.

    A kill leaves the old file or the new one.
    """
    with written_beside(path) as beside:
        beside.write_bytes(data)


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A temporary name for a file. At the end, the file is flushed to disk and renamed."""
    temporary = path.with_name(f"{BEGUN}{_short(path.name)}.{os.getpid()}.tmp")
    try:
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)
    except OSError as error:
        if error.filename == str(temporary):
            error.filename = str(path)  # the user knows the file by this name
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _short(name: str) -> str:
    """A name that may have letters before and after it: systems allow 255 bytes."""
    return name.encode()[-200:].decode(errors="ignore")


def is_begun(name: str) -> bool:
    """Whether a file or folder was left by a process that died while it wrote it, or is a lock."""
    return name == LOCK or (name.startswith(BEGUN) and name.endswith(".tmp"))


def write_json(data: dict[str, Any], path: Path) -> None:
    write_atomically(path, json.dumps(data, indent=2, ensure_ascii=False).encode())


def write_tensors(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write tensors and wait until they are on the disk."""
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        name = path.name.removeprefix(BEGUN).partition(".safetensors")[0] + ".safetensors"
        raise MachineError(
            f"{name} could not be written ({error}): free some room or write elsewhere with `out`"
        ) from None
    flush(path)


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def absolute(path: str) -> str:
    """An absolute path, so that a run does not depend on the current folder.

    `-` (standard input) stays as it is.
    """
    if path == "-":
        return path
    before, link, last = path.rpartition("::")  # a part of an archive: zip://PART::FILE
    return path if "://" in last else before + link + os.path.abspath(last)


def relocated(path: str, then: str, now: Path) -> str:
    """A text's path after its run has moved from the folder `then` to `now`.

    The result is the path at the same place relative to the run, if a file is there; otherwise the old path.
    """
    if "://" in path:
        return path
    moved = os.path.normpath(os.path.join(os.path.abspath(now), os.path.relpath(path, then)))
    return moved if path != "-" and (os.path.exists(moved) or glob.glob(moved)) else path


def flush(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_tree(path: Path) -> None:
    """Wait until a file, or a folder with all that it holds, is on the disk."""
    for inner in path.rglob("*") if path.is_dir() else ():
        flush(inner)
    flush(path)
