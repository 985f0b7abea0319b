"""Ends of ranks: a process that is killed, a mistake, and Ctrl-C. One line says which rank, and why."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from ranked import WAIT, begin_ranks, end_ranks, run_ranks
from safetensors.torch import load_file
from trainings import TEXT

import regard
from regard.errors import Interrupted, Notice, UserError
from regard.machine import joining
from regard.machine.torchrun import Place

TRAIN = ["-m", "regard", "train", "lstm", "--text", "text.txt", "--tokens", "char", "--steps", "200"]
TRAIN += ["--evaluate-every", "20", "--batch", "3", "--width", "8", "--segment", "7", "--precision", "fp32"]
SECONDS = 30  # in which all ranks end after one was lost


def lines(streams: list[tuple[int, str, str]]) -> list[str]:
    """The lines of regard itself, without the progress and the messages of torch."""
    every = "".join(error for _, _, error in streams).splitlines()
    return [line for line in every if line.startswith("regard: ")]


def wait_for_checkpoint(run: Path, ranks: list[subprocess.Popen[str]], before: Path | None = None) -> Path:
    """Wait for a checkpoint after the one `before`."""
    until = time.monotonic() + WAIT
    while (newest := max(run.glob("checkpoint-*[0-9]"), default=None)) in (None, before):
        assert time.monotonic() < until
        assert all(rank.poll() is None for rank in ranks), end_ranks(ranks)
        time.sleep(0.005)
    return newest


def files(run: Path) -> tuple[bytes, str]:
    return (run / "model.safetensors").read_bytes(), (run / "metrics.jsonl").read_text()


def test_after_kill_9_of_a_rank_all_end_and_the_training_goes_on_to_the_bit(tmp_path, text):
    """With dropout: the ranks have random numbers of their own, which the checkpoint holds."""
    assert [code for code, _, _ in run_ranks([[*TRAIN, "--out", "whole"]] * 2, tmp_path)] == [0, 0]
    newest = None
    for lost in (1, 0):
        more = ["--resume"] if lost == 0 else []
        ranks, _store = begin_ranks([[*TRAIN, "--out", "killed", *more]] * 2, tmp_path)
        newest = wait_for_checkpoint(tmp_path / "killed", ranks, newest)
        ranks[lost].send_signal(signal.SIGKILL)
        began = time.monotonic()
        ended = end_ranks(ranks)
        if ended[1 - lost][0] == 0:
            pytest.skip("it was done before a rank could be killed")
        assert time.monotonic() - began < SECONDS
        assert ended[1 - lost][0] == 1
        (said,) = lines(ended)
        begins = rf"regard: rank {lost} \(process {ranks[lost].pid} on .*\) was lost: it was killed, "
        assert re.match(begins, said)
        assert said.endswith("; go on with: regard train lstm --out killed --resume, under torchrun")
        if lost == 1:
            saved = load_file(newest / "tensors.safetensors")
            assert not saved["random.cpu"].equal(saved["rank1.random.cpu"])
    again = run_ranks([["-m", "regard", "train", "lstm", "--out", "killed", "--resume"]] * 2, tmp_path)
    assert [code for code, _, _ in again] == [0, 0]
    assert [bool(out) for _, out, _ in again] == [True, False]  # rank 0 speaks
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob("*checkpoint*"))


def test_torchrun_trains_and_ctrl_c_stops_it(tmp_path, text):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    long = [*TRAIN, "--steps", "1000000", "--out", "run"]
    process = subprocess.Popen(
        [*torchrun, *long], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for_checkpoint(tmp_path / "run", [process])
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=WAIT)
    finally:
        process.kill()
    (said,) = [line for line in error.splitlines() if line.startswith("regard: ")]
    assert re.fullmatch(r"regard: stopped at step \d+, which is saved; go on with: .* --resume", said)


def test_a_late_rank_is_named(monkeypatch):
    """Rank 1 of 3 comes; rank 2 is told of, and then rank 0 gives up."""
    store = dist.HashStore()
    for rank in (0, 1):
        store.set(f"hello/{rank}", "{}")
    monkeypatch.setattr(joining, "NOTICE", 0.05)
    monkeypatch.setattr(joining, "PATIENCE", 0.2)
    with pytest.warns(Notice, match=r"^waiting for rank 2 of 3$"):
        assert joining.wait_for_all(store, 3).startswith("rank 2 did not come within 0 seconds: start it")

    def stopped(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(joining.time, "sleep", stopped)
    with pytest.raises(Interrupted, match=r"^stopped while waiting for rank 2$"):
        joining.wait_for_all(store, 3)


def test_a_port_in_use_and_a_variable_that_is_missing(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        place = Place(0, 2, 0, "127.0.0.1", port, served=False, attempt="0")
        words = f"port {port} of 127.0.0.1 is in use: choose another with torchrun --master-port"
        with pytest.raises(UserError, match=words):
            joining.open_store(place)
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    with pytest.raises(UserError, match="a variable of torchrun is missing: 'MASTER_PORT'"):
        regard.train("lstm")
    monkeypatch.setenv("MASTER_PORT", "none")
    with pytest.raises(UserError, match="a variable of torchrun is no number"):
        regard.train("lstm")


def test_a_mistake_is_one_line_of_rank_0(tmp_path, text):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "text.txt").write_text(TEXT + "more\n")
    (tmp_path / "empty").mkdir()
    shared = ["--out", str(tmp_path / "run")]
    runs_other = r"rank 1 \(process .*\) runs regard 0\.0, and rank 0 regard .*"
    old = "import sys, regard.machine.joining as j; j.__version__ = '0.0'; from regard.cli import main; "
    old += f"sys.exit(main({[*TRAIN[2:], *shared]!r}))"
    cases = [
        (
            [[*TRAIN, *shared], [*TRAIN, *shared, "--steps", "61"]], {},
            r"--steps is 61 on rank 1, and 200 on rank 0: start all ranks with the same command",
        ),
        (
            [[*TRAIN, *shared]] * 2, {1: tmp_path / "other"},
            r".*text\.txt differs between rank 1 and rank 0: give all the same files",
        ),
        ([[*TRAIN, *shared]] * 2, {1: tmp_path / "empty"}, r"rank 1: .*text\.txt.*"),
        (
            [[*TRAIN, "--out", "run"]] * 2, {1: tmp_path / "other"},
            "run: rank 1 does not see this folder; --out must lie on a disk that all machines share",
        ),
        ([[*TRAIN, *shared], ["-c", old]], {}, runs_other),
        ([["-m", "regard", "evaluate", "run"]] * 2, {}, "regard evaluate is one process: .* torchrun"),
    ]  # fmt: skip
    for commands, places, words in cases:
        ended = run_ranks(commands, tmp_path, places)
        (said,) = lines(ended)
        assert re.fullmatch(f"regard: ({words})", said), said
        assert [code for code, _, _ in ended] == [2, 2], ended
        assert not any(out for _, out, _ in ended)
        assert not (tmp_path / "run").exists()
