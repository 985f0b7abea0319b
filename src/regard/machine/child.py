"""Runs code of a native library that can abort in a process of its own, so that only that process dies."""

import os
import signal
import subprocess
import sys

from regard.errors import MachineError


def run_child(code: str, data: bytes, what: str) -> bytes:
    """Run Python code that reads standard input and writes standard output. `what` names it in an error."""
    paths = [path for path in sys.path if path]  # without the current folder
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        input=data,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    if done.returncode == 0:
        return done.stdout
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise MachineError(f"{what} stopped with {name}: it probably needs more memory than it may have")
    reason = next(iter(done.stderr.decode(errors="replace").strip().splitlines()[-1:]), "no reason is known")
    raise MachineError(f"{what} failed ({reason[:300]})")
