"""Sorts rows of whole numbers on several machines. Dask is the scheduler, and a worker sorts as one machine.

The rows are divided into parts by the range of their first number, so that the sorted parts, one after the
other, are the sorted rows. Parts are files in a folder that all machines share. A task is given the name of a
part, and calls `sort_rows`; no row passes through the scheduler.

Shape legend: R rows, P parts.
"""

import logging
import os
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regard import __version__
from regard.errors import MachineError, UserError
from regard.machine.memory import resident_memory, usable_memory
from regard.machine.sorting import Rows, load_engine, need_engine, sort_rows

PARTS = 4  # of each worker, so that a worker that is done early takes another part
WAIT = 30  # seconds in which a scheduler answers and has a worker
LEAST = 64 << 20  # bytes for a sort, above what the worker takes itself
SORTED = ".sorted"
ADDRESS = re.compile(r"(?:(?:tcp|tls)://)?([^:/]+):(\d+)")


def need_scheduler() -> None:
    """Raise a UserError if Dask is not installed."""
    if find_spec("distributed") is None:
        raise UserError("`engine` needs Dask, which is not installed: pip install 'regard[cluster]'")
    need_engine()


def sort_on_cluster(
    address: str, rows: Iterable[Rows], columns: int, folder: Path, size: int
) -> Iterator[Rows]:
    """Yield the rows in ascending order, at most `size` at a time. All machines see `folder`."""
    folder = folder.absolute()
    with _connected(address) as client:
        _check_workers(client, folder)
        number = PARTS * len(client.scheduler_info(n_workers=-1)["workers"])
        parts = _divide(rows, folder, number)
        tasks = [client.submit(sort_part, str(part), columns, pure=False, retries=2) for part in parts]
        for part, task in zip(parts, tasks, strict=True):
            _wait(task)
            yield from read_rows(Path(f"{part}{SORTED}"), columns, size)
            os.unlink(f"{part}{SORTED}")


def _wait(task: Any) -> None:
    from distributed import KilledWorker

    try:
        task.result()
    except KilledWorker as error:
        raise MachineError(
            f"workers were lost while they sorted the same part (the last was {error.last_worker.address}): "
            "give them more memory with --memory-limit"
        ) from None


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are raised, and said once
    place = ADDRESS.fullmatch(address)
    if place is None:
        raise UserError(f"`engine` must be an address such as tcp://10.0.0.1:8786, not {address!r}")
    try:
        socket.create_connection((place[1], int(place[2])), WAIT).close()  # Dask would wait much longer
        client = Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"`engine` {address} does not answer ({reason}): start it there with: dask scheduler"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WAIT)
        except TimeoutError:
            raise UserError(
                f"`engine` {address} has no workers: start some with: dask worker {address}"
            ) from None
        yield client


def _check_workers(client: Any, folder: Path) -> None:
    """Raise a UserError that names a worker with another version of regard, or without the folder."""
    mark = folder / "mark"
    mark.touch()
    for worker, found in client.run(look_around, str(mark), on_error="return").items():
        if isinstance(found, Exception):
            raise UserError(f"the worker {worker} cannot count ({str(found).splitlines()[0]})")
        if found != __version__:
            raise UserError(f"the worker {worker} has regard {found}, and this machine has {__version__}")
    mark.unlink()


def look_around(mark: str) -> str:
    """Return the version of regard of a worker that sees the file."""
    need_engine()
    if not os.path.exists(mark):
        raise UserError(f"it does not see {os.path.dirname(mark)}: choose an `out` that all machines share")
    return __version__


def _divide(rows: Iterable[Rows], folder: Path, number: int) -> list[Path]:
    """Write each row into the part of its range. The ranges divide the first piece of rows equally."""
    rows = iter(rows)
    first_piece = next(rows)
    end_P = np.quantile(first_piece[0], np.arange(1, number) / number, method="lower")
    parts = [folder / f"part_{place}" for place in range(number)]
    with ExitStack() as stack:
        files = [stack.enter_context(part.open("wb")) for part in parts]
        for piece in chain([first_piece], rows):
            part_R = np.searchsorted(end_P, piece[0])
            order_R = part_R.argsort(kind="stable")
            first_P = np.searchsorted(part_R[order_R], np.arange(number + 1))
            table_R = np.stack(piece, 1)[order_R]
            for file, first, last in zip(files, first_P, first_P[1:], strict=False):
                file.write(table_R[first:last].data)
    return parts


def read_rows(path: Path, columns: int, size: int) -> Iterator[Rows]:
    """Yield the rows of a file, at most `size` at a time."""
    with path.open("rb") as file:
        while len(numbers := np.fromfile(file, np.int64, size * columns)):
            yield list(np.ascontiguousarray(numbers.reshape(-1, columns).T))


def sort_part(path: str, columns: int) -> None:
    """Sort a file of rows within the memory of this worker, and remove it."""
    from distributed import get_worker

    if not os.path.exists(path) and os.path.exists(f"{path}{SORTED}"):
        return  # a worker was lost after its last step
    worker = get_worker()
    load_engine()
    limit = worker.memory_manager.memory_limit or usable_memory()
    memory = (limit - resident_memory()) // worker.state.nthreads
    if memory < LEAST:
        more = (limit + (LEAST - memory) * worker.state.nthreads) / 1e6
        raise UserError(
            f"the worker {worker.address} has too little memory: give --memory-limit {more:.0f}MB"
        )
    size = memory // 16 // (16 * columns)
    beside = f"{path}.{worker.id}"
    try:
        with tempfile.TemporaryDirectory(dir=worker.local_directory) as folder, open(beside, "wb") as out:
            for piece in sort_rows(
                read_rows(Path(path), columns, size), columns, Path(folder), memory // 2, size
            ):
                out.write(np.stack(piece, 1).data)
    except OSError as error:
        raise MachineError(f"the worker {worker.address} could not sort a part ({error})") from None
    os.replace(beside, f"{path}{SORTED}")
    os.unlink(path)
