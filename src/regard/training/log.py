"""The log of a training: metrics, timing and samples.

metrics.jsonl and samples.txt are equal, to the bit, in a repeated training. The seconds are in timing.jsonl.
"""

import json
import math
import os
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import MachineError, notify
from regard.machine.disk import write_atomically
from regard.training.board import Board
from regard.training.task import Progress

METRICS, TIMING, SAMPLES = "metrics.jsonl", "timing.jsonl", "samples.txt"


class Losses:
    """The losses of the last steps, on the device. They are read together, because reading waits for it."""

    def __init__(self) -> None:
        self.waiting = list[Tensor]()

    def add(self, loss: Tensor) -> None:
        """Add the loss of a step."""
        self.waiting.append(loss)

    def settle(self, progress: Progress) -> float:
        """Read the waiting losses and add them to the progress. Return the last loss."""
        values = torch.stack(self.waiting).tolist() if self.waiting else []
        self.waiting.clear()
        for back, value in zip(range(len(values), 0, -1), values, strict=True):
            if not math.isfinite(value):
                advice = "train again with a lower `learning_rate`, and write to another `out`"
                raise MachineError(f"the loss is not a number at step {progress.step - back + 1}: {advice}")
            progress.summed_loss += value
        progress.summed_steps += len(values)
        return values[-1] if values else math.nan


class Log:
    """The files of the log. Lines that were written after the restored checkpoint are removed."""

    def __init__(self, out: Path, progress: Progress, tensorboard: bool, writes: bool):
        """`writes` is False on all ranks but one."""
        self._out, self._writes = out, writes
        for name in (METRICS, TIMING, SAMPLES) if writes else ():
            _cut(out / name, b"" if name != SAMPLES else HEAD.encode(), progress.metrics)
        self._board = Board(out / "tensorboard", progress.step) if tensorboard and writes else None

    def write(
        self,
        progress: Progress,
        train_loss: float,
        valid_loss: float | None,
        judged: float,
        learning_rate: float,
        sample: str | None,
    ) -> None:
        loss = train_loss if valid_loss is None else valid_loss
        row = {
            "step": progress.step,
            "tokens": progress.tokens,
            "train_loss": train_loss,
            "valid_loss": valid_loss,
            **({} if judged == loss else {"judged": judged}),
            "learning_rate": learning_rate,
        }
        if self._board is not None:
            self._board.write(row)
        self._append(METRICS, json.dumps(row))
        self._append(TIMING, json.dumps({"step": progress.step, "seconds": progress.seconds}))
        # The lines of a sample are indented, so that no sample can contain a head line.
        lines = "\n".join(f"    {line}" for line in (sample or "").split("\n"))
        self._append(SAMPLES, f"{HEAD}{progress.step}\n{lines}")
        progress.metrics += 1
        progress.summed_loss, progress.summed_steps = 0.0, 0

    def _append(self, name: str, text: str) -> None:
        if not self._writes:
            return
        with (self._out / name).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())  # a checkpoint counts on these lines


HEAD = "--- step "


def _cut(path: Path, head: bytes, count: int) -> None:
    """Remove what a stopped training wrote after the first `count` validations. `head` begins each one."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    starts = [number for number, line in enumerate(lines) if line and line.startswith(head)]
    if count < len(starts):
        kept = lines[: starts[count]]
        write_atomically(path, b"".join(line + b"\n" for line in kept))
        return
    if count > len(starts):
        notify(f"{path} has lost lines: it holds {len(starts)} of {count} validations")
    path.touch()
