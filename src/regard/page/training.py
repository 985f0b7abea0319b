"""The lab's own training: a small model on the built-in text, when there is no run to look at.

The training is `regard train` in a process of its own. The page reads what the process writes: its metrics,
its samples, and in the end the run.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from regard.page.messages import Trained
from regard.page.protocol import Progress

SECONDS = 40.0  # of training; the page can use the model within a minute
METRICS, SAMPLES, CONFIG = "metrics.jsonl", "samples.txt", "config.json"
FILM, PREFIX = "film", "step-"  # the folder of the kept weights, and how the names of its files begin


@final
class Training:
    """A training that begins when the page asks for it."""

    def __init__(self, out: Path, finished: Callable[[Path], str], wanted: bool):
        self._out, self._finished, self._run = out, finished, None
        self.on = wanted
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    def begin(self) -> None:
        """Start the process, once."""
        if self._process is not None or not self.on:
            return
        self._began = time.monotonic()
        options = ["--minutes", str(SECONDS / 60), "--evaluate-every", "25", "--out", str(self._out)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "regard", "train", "transformer", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the lab, which then stops the training in its own way
        )

    def progress(self) -> Progress:
        if self._process is None:
            return Progress("none")
        seconds, code = time.monotonic() - self._began, self._process.poll()
        samples = _samples(self._out)
        told: dict[str, Any] = {"seconds": seconds, "limit": SECONDS, "losses": _losses(self._out)}
        told["sample"] = samples[-1][1] if samples else ""
        if code == 0:
            return Progress("done", run=self._finished(self._out), **told)
        if code is not None:
            stderr = self._process.stderr
            lines = (
                [] if stderr is None or stderr.closed else stderr.read().decode(errors="replace").splitlines()
            )
            return Progress("failed", error=lines[-1] if lines else f"the training ended with {code}", **told)
        return Progress("training" if told["losses"] else "starting", **told)

    def stop(self) -> None:
        """Stop the process as Ctrl-C does: it saves a checkpoint."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)


def trained(path: Path) -> Trained:
    """Return the record of a finished training, from the small files of its folder."""
    kept = sorted(
        int(file.stem.removeprefix(PREFIX)) for file in (path / FILM).glob(f"{PREFIX}*.safetensors")
    )
    return Trained(_losses(path), _samples(path), kept)


def _losses(path: Path) -> list[tuple[int, float, float | None]]:
    losses = []
    for line in _read(path / METRICS).splitlines():
        try:
            entry = json.loads(line)
            losses.append((entry["step"], entry["train_loss"], entry.get("valid_loss")))
        except (ValueError, KeyError):  # the last line is not complete yet
            break
    return losses


def _samples(path: Path) -> list[tuple[int, str]]:
    """Return the step and the text of each sample."""
    found = []
    for part in _read(path / SAMPLES).split("--- step ")[1:]:
        head, *lines = part.splitlines()
        step = re.match(r"[\d,]+", head)
        if step is not None:
            text = "\n".join(line[4:] for line in lines).strip()
            found.append((int(step.group().replace(",", "")), text))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
