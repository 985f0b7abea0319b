"""The output folder of several ranks: rank 0 locks it and writes into it, and all ranks see it."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError
from regard.machine.disk import BEGUN, lock_folder
from regard.machine.ranks import Ranks

PATIENCE = 10.0  # seconds after which a file must be seen on the other machines


@contextmanager
def lock_shared(folder: Path, ranks: Ranks) -> Iterator[bool]:
    """Hold the lock of an output folder. The value says whether this process made the folder."""
    if not ranks.speaks:
        yield False
        return
    with lock_folder(folder) as created:
        yield created


def check_shared(folder: Path, ranks: Ranks) -> None:
    """Raise a UserError if a rank does not see a file that rank 0 writes into the folder."""
    if ranks.count == 1:
        return
    mark = folder / ranks.first(f"{BEGUN}{os.urandom(8).hex()}.tmp")
    with ranks.first_alone():
        if ranks.speaks:
            mark.touch()
        until = time.monotonic() + PATIENCE
        while not (seen := mark.exists()) and time.monotonic() < until:
            time.sleep(0.1)
    blind = ranks.most([float(rank == ranks.index and not seen) for rank in range(ranks.count)])
    if ranks.speaks:
        mark.unlink()
    if any(blind):
        advice = "`out` must lie on a disk that all machines share"
        raise UserError(f"{folder}: rank {blind.index(1.0)} does not see this folder; {advice}")
