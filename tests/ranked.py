"""Starts ranks as torchrun does, without its own process, and runs trainings on them."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.distributed as dist

import regard
from regard.errors import Interrupted
from regard.machine.joining import joined
from regard.machine.ranks import Ranks
from regard.machine.torchrun import end_process
from regard.training.checkpoint import Checkpoints

WAIT = 120  # seconds, on a machine that is busy with other work


def begin_ranks(
    commands: Sequence[Sequence[str]], folder: Path, places: Mapping[int, Path] = {}
) -> tuple[list[subprocess.Popen[str]], dist.Store]:
    """Start Python commands, one for each rank, which meet in a store of this process at a free port.

    `places` are the folders of ranks that begin in another one. The store must be kept until the ranks end.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = {
        "WORLD_SIZE": str(len(commands)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=places.get(rank, folder),
            env={**os.environ, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, command in enumerate(commands)
    ]
    return ranks, store


def end_ranks(ranks: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Wait for the ranks. Return the exit code, the output and the messages of each."""
    try:
        said = [rank.communicate(timeout=WAIT) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, *streams) for rank, streams in zip(ranks, said, strict=True)]


def run_ranks(
    commands: Sequence[Sequence[str]], folder: Path, places: Mapping[int, Path] = {}
) -> list[tuple[int, str, str]]:
    """Run Python commands as ranks until they end."""
    ranks, _store = begin_ranks(commands, folder, places)
    return end_ranks(ranks)


def train_on_ranks(count: int, jobs: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Run trainings in float64 on `count` ranks, one after the other. Each has the name of its folder."""
    ended = run_ranks([[__file__, json.dumps(dict(jobs))]] * count, folder)
    assert [code for code, _, _ in ended] == [0] * count, ended


def train_in_double(jobs: Mapping[str, Mapping[str, Any]]) -> None:
    """Run trainings in float64. With `stop`, a training is stopped at this step, after its checkpoint."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        with joined() as ranks:
            for name, options in jobs.items():
                train_job(name, ranks, **options)
    finally:
        torch.set_default_dtype(torch.float32)


def train_job(name: str, ranks: Ranks, stop: int | None = None, fast: bool = False, **options: Any) -> None:
    """Train a model into the folder `name`. `fast`: the clocks of ranks above 0 run three times as fast."""
    clock, save = time.perf_counter, Checkpoints.save
    if fast and ranks.index:
        time.perf_counter = lambda: 3 * clock()

    def save_and_stop(self, progress, state) -> None:
        save(self, progress, state)
        if progress.step == stop:
            raise KeyboardInterrupt

    Checkpoints.save = save_and_stop
    try:
        model = regard.train(out=name, **options).run.model
    except Interrupted:
        assert stop
    else:
        weights = hashlib.sha256(safetensors.torch.save(model.tensors())).hexdigest()
        assert ranks.difference({name: weights}) is None
    finally:
        time.perf_counter, Checkpoints.save = clock, save


if __name__ == "__main__":
    train_in_double(json.loads(sys.argv[1]))
    end_process(0)
