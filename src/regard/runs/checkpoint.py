"""Stopping and going on. A checkpoint is one folder renamed into place; a kill at any moment leaves the last good one.

It holds the weights, the best weights so far, the optimisers' memory, the state carried over, the random numbers' state, and how far it
had come: all that makes a resumed run equal, to the bit, to one that was never stopped.
"""

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.errors import UserError, notify
from regard.machine.disk import flush
from regard.runs.folder import file_hash, write_tensors

TENSORS, PROGRESS = "tensors.safetensors", "progress.json"
KEPT = 2  # checkpoints: if the newest is damaged, the one before it is resumed from


def save_checkpoint(out: Path, step: int, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
    """Write a checkpoint beside its place, flush it to disk and rename it. Then remove all but the newest KEPT checkpoints."""
    folder = out / f"checkpoint-{step:08d}"
    if folder.exists():
        if _read(folder) is not None:  # the same step again: what the folder holds is equal
            return
        set_aside(folder)
    beside = out / f"{folder.name}.tmp"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        write_tensors(tensors, beside / TENSORS)
        record = {**progress, "sha256": file_hash(beside / TENSORS)}
        (beside / PROGRESS).write_text(json.dumps(record))
        for path in (beside / TENSORS, beside / PROGRESS, beside):
            flush(path)
        os.rename(beside, folder)
        flush(out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    for older in checkpoints(out)[:-KEPT]:
        shutil.rmtree(older)


def load_checkpoint(out: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The newest whole checkpoint, or None if there is none yet. Damaged ones are named, set aside and never counted again."""
    damaged = list[Path]()
    for folder in reversed(checkpoints(out)):
        found = _read(folder)
        if found is not None:
            for path in damaged:
                notify(f"{path} is damaged; it is kept as {set_aside(path).name}, and {folder.name} is used instead")
            return found
        damaged.append(folder)
    if damaged:
        raise UserError(f"{damaged[0]}: is damaged, and there is no other checkpoint to resume from; train again into another --out")
    return None


def _read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """A whole checkpoint, or None if it is damaged."""
    try:
        progress = json.loads((folder / PROGRESS).read_text("utf-8"))
        if file_hash(folder / TENSORS) == progress["sha256"]:
            return load_file(folder / TENSORS), progress
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        pass
    return None


def set_aside(folder: Path) -> Path:
    """Rename a damaged checkpoint so that it is never counted again."""
    numbers = itertools.count(1)
    while (aside := folder.with_name(f"damaged-{folder.name}-{next(numbers)}")).exists():
        pass
    os.rename(folder, aside)
    return aside


def remove_checkpoints(out: Path) -> None:
    for folder in checkpoints(out):
        shutil.rmtree(folder)


def checkpoints(out: Path) -> list[Path]:
    """The checkpoints of a run, the oldest first."""
    return sorted(path for path in out.glob("checkpoint-*") if path.suffix != ".tmp")


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
