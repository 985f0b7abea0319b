"""n-grams counted by two worker processes: the same model to the bit, and one line for every mistake."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import distributed
import numpy as np
import pytest

import regard
from regard.errors import MachineError, UserError
from regard.machine import cluster
from regard.machine.cluster import read_rows, sort_on_cluster

LIMIT = "300MB"  # of a worker


@pytest.fixture(scope="module")
def started(tmp_path_factory) -> Iterator[tuple[str, list[str]]]:
    """The address of a scheduler without workers, and the command that starts a worker."""
    file = tmp_path_factory.mktemp("dask") / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    dask = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*dask, "scheduler", *common, "--host", "127.0.0.1", "--port", "0"], stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while not file.exists() or not file.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        worker = [*dask, "worker", *common, "--nthreads", "1", "--memory-limit", LIMIT, "--no-nanny"]
        yield json.loads(file.read_text())["address"], worker
    finally:
        scheduler.terminate()
        scheduler.wait()


@pytest.fixture(scope="module")
def engine(started, tmp_path_factory) -> Iterator[str]:
    """The address of a scheduler with two workers."""
    address, command = started
    workers = [
        subprocess.Popen(
            [*command, "--local-directory", str(tmp_path_factory.mktemp("worker"))],
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    yield address
    for worker in workers:
        worker.terminate()
        worker.wait()


def test_a_scheduler_without_workers_says_how_to_start_one(started, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "WAIT", 1)
    address, _ = started
    with pytest.raises(UserError, match=f"has no workers: start some with: dask worker {address}"):
        regard.train("ngram", engine=address, out=str(tmp_path / "run"))


def test_two_workers_give_the_same_run(engine: str, tmp_path):
    plain = regard.train("ngram", order=3, out=str(tmp_path / "plain"))
    counted = regard.train("ngram", order=3, engine=engine, memory="8GB", out=str(tmp_path / "counted"))
    assert counted.run.fingerprint == plain.run.fingerprint
    assert counted.loss == plain.loss
    assert {path.name for path in (tmp_path / "counted").iterdir()} == {
        path.name for path in (tmp_path / "plain").iterdir()
    }


def test_rows_come_back_in_order(engine: str, tmp_path):
    """Rows of three columns, with many equal first numbers."""
    table_R = np.random.default_rng(1).integers(0, 17, (5003, 3))
    pieces = ([*map(np.ascontiguousarray, part.T)] for part in np.array_split(table_R, 7))
    found = [np.stack(piece, 1) for piece in sort_on_cluster(engine, pieces, 3, tmp_path, 401)]
    assert max(map(len, found)) <= 401
    np.testing.assert_array_equal(np.concatenate(found), table_R[np.lexsort(table_R.T[::-1])])
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_a_worker_does_not_see_is_named(engine: str, tmp_path, monkeypatch):
    """As on a machine whose folder of this name is another one."""
    monkeypatch.setattr(Path, "touch", lambda path: None)
    with pytest.raises(UserError, match=r"the worker tcp://.* does not see .*: choose an `out`"):
        list(sort_on_cluster(engine, iter([]), 2, tmp_path, 7))


def test_a_worker_with_another_version_is_named(engine: str, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "__version__", "9.9")
    with pytest.raises(UserError, match=r"the worker tcp://.* has regard .*, and this machine has 9.9"):
        list(sort_on_cluster(engine, iter([]), 2, tmp_path, 7))


def test_an_address_that_does_not_answer(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UserError, match=f"`engine` tcp://127.0.0.1:{port} does not answer"):
        regard.train("ngram", engine=f"tcp://127.0.0.1:{port}", out=str(tmp_path / "run"))
    with pytest.raises(UserError, match="`engine` must be an address such as tcp://"):
        regard.train("ngram", engine="some cluster", out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'regard\[cluster\]'"):
        regard.train("ngram", engine="tcp://127.0.0.1:8786")


def test_files_of_rows_are_read_in_pieces(tmp_path):
    table_R = np.arange(39).reshape(13, 3)
    (tmp_path / "rows").write_bytes(table_R.tobytes())
    pieces = [np.stack(piece, 1) for piece in read_rows(tmp_path / "rows", 3, 5)]
    assert [len(piece) for piece in pieces] == [5, 5, 3]
    np.testing.assert_array_equal(np.concatenate(pieces), table_R)


def test_lost_workers_are_one_line():
    class Lost:
        def result(self) -> None:
            raise distributed.KilledWorker("sort_part", SimpleNamespace(address="tcp://10.0.0.7:1"), 3)

    with pytest.raises(MachineError, match=r"workers were lost .*tcp://10.0.0.7:1\): give them more memory"):
        cluster._wait(Lost())


def test_a_worker_with_too_little_memory_says_how_much_it_needs(tmp_path, monkeypatch):
    manager, state = SimpleNamespace(memory_limit=10 << 20), SimpleNamespace(nthreads=1)
    worker = SimpleNamespace(memory_manager=manager, state=state, address="tcp://10.0.0.7:1")
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    (tmp_path / "part_0").touch()
    with pytest.raises(UserError, match=r"too little memory: give --memory-limit \d+MB"):
        cluster.sort_part(str(tmp_path / "part_0"), 2)
