"""Sorts rows of whole numbers that are larger than memory, with DuckDB, which spills to disk.

Shape legend: R rows.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import MachineError, UserError
from regard.machine.child import usable_cores

DATABASE = "rows.db"
Rows = list[np.ndarray]  # (R) for each column


def need_engine() -> None:
    """Raise a UserError if DuckDB is not installed."""
    if find_spec("duckdb") is None:
        raise UserError("`memory` needs DuckDB, which is not installed: pip install 'regard[large]'")


def load_engine() -> Any:
    """Import DuckDB, whose code takes memory too."""
    import duckdb

    return duckdb


def sort_rows(rows: Iterable[Rows], columns: int, folder: Path, memory: int, size: int) -> Iterator[Rows]:
    """Yield the rows in ascending order, at most `size` at a time.

    The rows are pieces of any length. DuckDB takes `memory` bytes, and spills into `folder`.
    """
    duckdb = load_engine()
    names = [f"c{number}" for number in range(columns)]
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory}B",
        "temp_directory": str(folder),
        "threads": usable_cores(),
    }
    try:
        with closing(duckdb.connect(folder / DATABASE, config=settings)) as database:
            yield from _sorted(database, rows, names, size)
    except duckdb.Error as error:
        raise _failure(error, folder, memory) from None
    finally:
        for path in folder.glob(f"{DATABASE}*"):
            path.unlink()


def _sorted(database: Any, rows: Iterable[Rows], names: list[str], size: int) -> Iterator[Rows]:
    listed = ", ".join(names)
    database.execute("SET enable_progress_bar = false")
    database.execute(f"CREATE TABLE rows ({', '.join(f'{name} BIGINT' for name in names)})")
    for piece in rows:
        chunk = dict(zip(names, piece, strict=True))  # DuckDB finds it by its name
        database.execute(f"INSERT INTO rows SELECT {listed} FROM chunk")
        del chunk
    database.execute(f"CREATE TABLE sorted AS SELECT {listed} FROM rows ORDER BY {listed}")
    database.execute("DROP TABLE rows")
    (total,) = database.execute("SELECT count(*) FROM sorted").fetchone()
    for first in range(0, total, size):
        found = database.execute(
            f"SELECT {listed} FROM sorted WHERE rowid >= {first} AND rowid < {first + size}"
        ).fetchnumpy()
        yield [found[name] for name in names]


def _failure(error: Exception, folder: Path, memory: int) -> Exception:
    text = str(error)
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        if os.strerror(number) in text:
            return OSError(number, os.strerror(number), str(folder))
    if "max_temp_directory_size" in text:  # DuckDB leaves a tenth of the disk free
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    if "memory" in text.lower():
        return UserError(
            f"`memory` is too small for DuckDB, which has {memory / 1e6:.0f} MB of it: give more"
        )
    return MachineError(f"DuckDB failed while it sorted ({text.splitlines()[0]})")
