"""Stopping and going on. A checkpoint is one folder renamed into place; a kill at any moment leaves the last good one.

It holds the weights, the best weights so far, the optimisers' memory, the state carried over, the random numbers' state, and how far it
had come: all that makes a resumed run equal, to the bit, to one that was never stopped.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.errors import UserError
from regard.runs.folder import LOCK, file_hash, write_tensors

TENSORS, PROGRESS = "tensors.safetensors", "progress.json"


def save_checkpoint(out: Path, step: int, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
    folder = out / f"checkpoint-{step:08d}"
    beside = out / f"{folder.name}.tmp"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        write_tensors(tensors, beside / TENSORS)
        record = {**progress, "sha256": file_hash(beside / TENSORS)}
        (beside / PROGRESS).write_text(json.dumps(record))
        for name in (TENSORS, PROGRESS):
            _flush(beside / name)
        if folder.exists():  # the same step again: what it holds is equal
            return
        os.rename(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    for older in _checkpoints(out)[:-1]:
        shutil.rmtree(older)


def load_checkpoint(out: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The newest whole checkpoint, or None where there is none yet."""
    for folder in reversed(_checkpoints(out)):
        try:
            progress = json.loads((folder / PROGRESS).read_text("utf-8"))
            if file_hash(folder / TENSORS) == progress["sha256"]:
                return load_file(folder / TENSORS), progress
        except (OSError, ValueError, KeyError):
            continue
    return None


def remove_checkpoints(out: Path) -> None:
    for folder in _checkpoints(out):
        shutil.rmtree(folder)


def _checkpoints(out: Path) -> list[Path]:
    return sorted(path for path in out.glob("checkpoint-*") if path.suffix != ".tmp")


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def only_writer(out: Path) -> Iterator[None]:
    """Two processes never train into one folder."""
    import fcntl

    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{out}: another process is training into this folder; wait for it or choose another --out") from None
        try:
            yield
        finally:
            (out / LOCK).unlink(missing_ok=True)


def optimiser_tensors(optimisers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    found = {}
    for number, optimiser in enumerate(optimisers):
        for index, memory in optimiser.state_dict()["state"].items():
            for key, value in memory.items():
                found[f"optimiser.{number}.{index}.{key}"] = torch.as_tensor(value)
    return found


def restore_optimisers(optimisers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    for number, optimiser in enumerate(optimisers):
        memory: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith(f"optimiser.{number}."):
                _, _, index, key = name.split(".", 3)
                memory.setdefault(int(index), {})[key] = tensor.clone()
        optimiser.load_state_dict({"state": memory, "param_groups": optimiser.state_dict()["param_groups"]})
