"""Stopping and going on. A checkpoint is a folder that is renamed into place; a kill at any moment leaves the last whole one.

It holds everything that makes a resumed training equal, to the bit, to one that was never stopped: weights, the best weights so far, the
optimisers' memory, the carried state, the state of the random numbers, and the progress.
"""

import itertools
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.boundary import parse_json
from regard.errors import UserError, notify
from regard.machine.disk import file_hash, flush, write_tensors
from regard.models.contract import LanguageModel, State
from regard.training.task import Progress
from regard.training.weights import BestWeights, under

TENSORS, PROGRESS, HASH = "tensors.safetensors", "progress.json", "sha256"
KEPT = 2  # checkpoints: if the newest is damaged, the one before it is resumed from


@final
class Checkpoints:
    """Saves and restores one training."""

    def __init__(
        self, out: Path, model: LanguageModel, optimisers: list[torch.optim.Optimizer], weights: BestWeights
    ):
        self._out, self._model, self._optimisers, self._weights = out, model, optimisers, weights

    def save(self, progress: Progress, state: State | None) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self._model.state_dict().items()}
        tensors |= self._weights.tensors() | optimiser_tensors(self._optimisers)
        tensors["random.cpu"] = torch.get_rng_state()
        if self._model.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        if state is not None:
            tensors |= {f"state.{number}": tensor for number, tensor in enumerate(state.tensors())}
        save_checkpoint(self._out, progress.step, tensors, asdict(progress))

    def restore(self) -> tuple[Progress, State | None]:
        """The progress and the carried state of the newest whole checkpoint; those of a beginning if there is none."""
        found = load_checkpoint(self._out)
        if found is None:
            return Progress(), None
        tensors, progress = found
        device = self._model.device
        self._model.load_state_dict(under("model.", tensors, device))
        self._weights.restore(tensors, device)
        restore_optimisers(self._optimisers, tensors)
        carried = under("state.", tensors, device)
        state = None
        if carried:
            template = self._model.begin(len(carried["0"]))
            state = template.with_tensors(carried[str(number)] for number in range(len(carried)))
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"])
        return progress, state


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
        record = {**progress, HASH: file_hash(beside / TENSORS)}
        (beside / PROGRESS).write_text(json.dumps(record))
        for path in (beside / TENSORS, beside / PROGRESS, beside):
            flush(path)
        os.rename(beside, folder)
        flush(out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    for older in checkpoints(out)[:-KEPT]:
        shutil.rmtree(older)


def load_checkpoint(out: Path) -> tuple[dict[str, Tensor], Progress] | None:
    """The newest whole checkpoint, or None if there is none yet. Damaged ones are named, set aside and never counted again."""
    damaged = list[Path]()
    for folder in reversed(checkpoints(out)):
        found = _read(folder)
        if found is not None:
            for path in damaged:
                notify(
                    f"{path} is damaged; it is kept as {set_aside(path).name}, and {folder.name} is used instead"
                )
            return found
        damaged.append(folder)
    if damaged:
        raise UserError(
            f"{damaged[0]}: is damaged, and there is no other checkpoint to resume from; train again into another `out`"
        )
    return None


def _read(folder: Path) -> tuple[dict[str, Tensor], Progress] | None:
    """A whole checkpoint, or None if it is damaged."""
    try:
        written = json.loads((folder / PROGRESS).read_bytes())
        if file_hash(folder / TENSORS) == written.pop(HASH):
            progress = parse_json(Progress, json.dumps(written).encode(), str(folder / PROGRESS))
            return load_file(folder / TENSORS), progress
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        SafetensorError,
        UserError,
    ):
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
    named = {}
    for number, optimiser in enumerate(optimisers):
        for index, memory in optimiser.state_dict()["state"].items():
            for key, value in memory.items():
                named[f"optimiser.{number}.{index}.{key}"] = torch.as_tensor(value)
    return named


def restore_optimisers(optimisers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    for number, optimiser in enumerate(optimisers):
        memory: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith(f"optimiser.{number}."):
                _, _, index, key = name.split(".", 3)
                memory.setdefault(int(index), {})[key] = tensor.clone()
        optimiser.load_state_dict({"state": memory, "param_groups": optimiser.state_dict()["param_groups"]})
