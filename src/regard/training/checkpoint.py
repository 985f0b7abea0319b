"""Checkpoints: a training that was stopped or killed can be resumed from its last checkpoint.

A resumed training is equal, to the bit, to a training that was not stopped. A checkpoint therefore holds the
weights, the best weights so far, the state of the optimisers, the carried state of the model, the state of
the random number generators, and the progress. A checkpoint is written under a temporary name and then
renamed, so that a kill at any moment leaves the last complete checkpoint.

Rank 0 writes it. The names of the carried state and the random numbers of rank r > 0 begin with `rankR.`. As
many ranks as before take their own; another number of ranks divides the rows of the state anew.
"""

import hashlib
import itertools
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.boundary import parse_json
from regard.errors import UserError, notify
from regard.machine.disk import BEGUN, file_hash, flush, remove_files, write_tensors
from regard.machine.ranks import Ranks
from regard.models.contract import LanguageModel, State
from regard.models.model import Model, as_kind
from regard.training.task import Progress
from regard.training.weights import BestWeights, with_prefix

TENSORS, PROGRESS, HASH, OWN = "tensors.safetensors", "progress.json", "sha256", "own_sha256"
FILES = (TENSORS, PROGRESS)  # of a checkpoint
UNFINISHED = f"{BEGUN}checkpoint.tmp"
KEEP = 2  # the number of checkpoints; the second newest is used if the newest is damaged


@final
class Checkpoints:
    """Saves and restores a training."""

    def __init__(
        self,
        out: Path,
        model: Model,
        optimisers: list[torch.optim.Optimizer],
        weights: BestWeights,
        ranks: Ranks,
    ):
        self._out, self._model, self._optimisers, self._weights = out, model, optimisers, weights
        self._ranks = ranks

    def save(self, progress: Progress, state: State | None) -> None:
        """Write a checkpoint."""
        own = {"random.cpu": torch.get_rng_state()}
        if self._model.device.type == "cuda":
            own["random.cuda"] = torch.cuda.get_rng_state()
        if state is not None:
            own |= {f"state.{number}": tensor for number, tensor in enumerate(state.tensors())}
        every = self._ranks.gather(own)
        if not self._ranks.speaks:
            return
        tensors = {f"model.{name}": tensor for name, tensor in self._model.state_dict().items()}
        tensors |= self._weights.tensors() | optimiser_tensors(self._optimisers)
        for rank, theirs in enumerate(every):
            tensors |= {_of_rank(rank) + name: tensor for name, tensor in theirs.items()}
        save_checkpoint(self._out, progress.step, tensors, asdict(progress))

    def restore(self) -> tuple[Progress, State | None]:
        """Load the newest complete checkpoint. Return its progress and its carried state.

        Without a checkpoint, the progress is that of step 0, and the state is None.
        """
        with self._ranks.first_alone():  # it sets damaged checkpoints aside
            checkpoint = load_checkpoint(self._out)
        if checkpoint is None:
            return Progress(), None
        tensors, progress = checkpoint
        try:
            return progress, self._load(tensors)
        except (RuntimeError, KeyError, ValueError, TypeError, IndexError) as error:
            reason = next(iter(str(error).splitlines()), "")[:200]
            raise UserError(
                f"{self._out}: its checkpoint is of another training than its training.json ({reason}); the "
                "checkpoints are kept: train again into another `out`"
            ) from error

    def _load(self, tensors: dict[str, Tensor]) -> State | None:
        """Load the tensors of a checkpoint. Return the carried state."""
        device = self._model.device
        self._model.load_state_dict(with_prefix("model.", tensors, device))
        self._weights.restore(tensors, device)
        restore_optimisers(self._optimisers, tensors)
        saved = 0  # the number of ranks that have written it
        while _of_rank(saved) + "random.cpu" in tensors:
            saved += 1
        own = _of_rank(self._ranks.index)
        if self._ranks.index < saved:
            torch.set_rng_state(tensors[own + "random.cpu"])
            if own + "random.cuda" in tensors:
                torch.cuda.set_rng_state(tensors[own + "random.cuda"])
        if saved == self._ranks.count:
            return self._state(own, tensors)
        states = [self._state(_of_rank(rank), tensors) for rank in range(saved)]
        parts = [state for state in states if state is not None]
        return _divided(parts, self._ranks) if parts else None

    def _state(self, rank: str, tensors: dict[str, Tensor]) -> State | None:
        """Return the carried state of a rank."""
        carried = with_prefix(f"{rank}state.", tensors, self._model.device)
        if not carried:
            return None
        template = as_kind(self._model, LanguageModel).begin(len(carried["0"]))
        return template.with_tensors(carried[str(number)] for number in range(len(carried)))


def _of_rank(rank: int) -> str:
    """The beginning of the names of a rank's own tensors. Those of rank 0 are those of a single process."""
    return f"rank{rank}." if rank else ""


def _divided(states: list[State], ranks: Ranks) -> State:
    """Return the rows of this rank, from the states of another number of ranks."""
    rows = [len(state.position_B) for state in states]
    before = [sum(rows[:rank]) for rank in range(len(rows))]
    # Row i of the batch is row i // N of rank i modulo N (`Ranks.own`).
    place_B = torch.tensor([before[row % len(rows)] + row // len(rows) for row in range(sum(rows))])
    joined = State.join(states)
    return joined.pick(ranks.own(place_B).to(joined.position_B.device))


def save_checkpoint(out: Path, step: int, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
    """Write a checkpoint under a temporary name, flush it and rename it. Then remove old checkpoints."""
    folder = out / f"checkpoint-{step:08d}"
    if folder.exists():
        if _read(folder) is not None:  # the step was repeated, so the folder already holds the same numbers
            return
        set_aside(folder)
    # The temporary folder has one name. What a killed process left there is written over.
    temporary = out / UNFINISHED
    temporary.mkdir(exist_ok=True)
    try:
        write_tensors(tensors, temporary / TENSORS)
        record = {**progress, HASH: file_hash(temporary / TENSORS), OWN: _own_hash(progress)}
        (temporary / PROGRESS).write_bytes(json.dumps(record).encode())
        flush(temporary / PROGRESS)
        flush(temporary)
        os.rename(temporary, folder)
        flush(out)  # before an older checkpoint goes
    except BaseException:
        remove_files(temporary, FILES)
        raise
    for older in checkpoints(out)[:-KEEP]:
        remove_files(older, FILES)


def load_checkpoint(out: Path) -> tuple[dict[str, Tensor], Progress] | None:
    """Read the newest complete checkpoint, or return None if there is no checkpoint.

    Damaged checkpoints are reported and renamed, so that they are ignored from then on.
    """
    damaged = list[Path]()
    for folder in reversed(checkpoints(out)):
        checkpoint = _read(folder)
        if checkpoint is not None:
            for path in damaged:
                aside = set_aside(path).name
                notify(f"{path} is damaged and was renamed to {aside}; {folder.name} is used instead")
            return checkpoint
        damaged.append(folder)
    if damaged:
        raise UserError(
            f"{damaged[0]}: is damaged, and there is no other checkpoint to resume from; train again into "
            "another `out`"
        )
    return None


def _read(folder: Path) -> tuple[dict[str, Tensor], Progress] | None:
    """Read a checkpoint, or return None if it is damaged."""
    try:
        record = json.loads((folder / PROGRESS).read_bytes())
        own, tensors = record.pop(OWN, None), record.pop(HASH)  # checkpoints before 0.3 have no `own`
        if own in (None, _own_hash(record)) and file_hash(folder / TENSORS) == tensors:
            progress = parse_json(Progress, json.dumps(record).encode(), str(folder / PROGRESS))
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


def _own_hash(progress: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(progress, sort_keys=True).encode()).hexdigest()


def set_aside(folder: Path) -> Path:
    """Rename a damaged checkpoint, so that it is ignored from then on. Return the new path."""
    numbers = itertools.count(1)
    while (aside := folder.with_name(f"damaged-{folder.name}-{next(numbers)}")).exists():
        pass
    os.rename(folder, aside)
    return aside


def remove_checkpoints(out: Path) -> None:
    """Remove all checkpoints of a finished run: its model holds what they hold."""
    for folder in checkpoints(out):
        remove_files(folder, FILES)


def checkpoints(out: Path) -> list[Path]:
    """Return the checkpoints of a run, the oldest first."""
    whole = (path for path in out.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d{8,}", path.name))
    return sorted(whole, key=lambda path: int(path.name.partition("-")[2]))


def optimiser_tensors(optimisers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return the states of the optimisers as named tensors."""
    named = {}
    for number, optimiser in enumerate(optimisers):
        for index, memory in optimiser.state_dict()["state"].items():
            for key, value in memory.items():
                named[f"optimiser.{number}.{index}.{key}"] = torch.as_tensor(value)
    return named


def restore_optimisers(optimisers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    """Load the states of the optimisers from the tensors of a checkpoint."""
    for number, optimiser in enumerate(optimisers):
        memory: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith(f"optimiser.{number}."):
                _, _, index, key = name.split(".", 3)
                memory.setdefault(int(index), {})[key] = tensor.clone()
        optimiser.load_state_dict({"state": memory, "param_groups": optimiser.state_dict()["param_groups"]})
