"""The machine: threads that do not spin for long, and the time they wait for a core."""

import os
import subprocess
import sys
import time

import pytest
import torch

from regard.machine import device, threads
from regard.machine.device import Machine


@pytest.mark.parametrize(
    ("name", "value"), [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "active"), (None, None)]
)
def test_the_persons_own_setting_wins(monkeypatch, name, value):
    for variable in threads.CHOICES:
        monkeypatch.delenv(variable, raising=False)
    if name is not None:
        monkeypatch.setenv(name, value)
    threads.limit_spinning()
    own = {variable: os.environ.get(variable) for variable in threads.CHOICES}
    expected = dict.fromkeys(threads.CHOICES) | ({name: value} if name else {"GOMP_SPINCOUNT": threads.SPINS})
    assert own == expected


@pytest.mark.parametrize(
    "code", ["import regard; regard.train", "from regard.cli import main; main(['evaluate', 'no-run'])"]
)
def test_the_variable_is_set_before_torch_is_imported(code):
    environment = {name: value for name, value in os.environ.items() if name not in threads.CHOICES}
    watch = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': print('at import', os.environ.get('GOMP_SPINCOUNT'))\n"
        "sys.meta_path.insert(0, Watch())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", watch + code], capture_output=True, text=True, env=environment
    )
    assert f"at import {threads.SPINS}" in done.stdout


def test_waiting_is_counted_where_there_are_more_threads_than_cores():
    if threads.WaitingTime().share() is None:
        pytest.skip("this kernel does not count it")
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        meter, until = threads.WaitingTime(), time.perf_counter() + 1.0
        while time.perf_counter() < until:
            pass
        crowded = meter.share()
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert crowded is not None
    assert crowded > 0.3  # two others for every core: two thirds of the time, were the scheduler exactly fair


@pytest.mark.parametrize(("slowdown", "chosen"), [(0.5, 4), (2.0, 1)])
def test_one_thread_trains_where_more_threads_are_slower(monkeypatch, slowdown, chosen):
    """A clock in the place of the machine: a product with four threads takes `slowdown` of one's time."""
    now, threads_now = [0.0], [4]

    class Product:
        def __matmul__(self, other):
            now[0] += 1.0 if threads_now[0] == 1 else slowdown

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(device.torch, "get_num_threads", lambda: threads_now[0])
    monkeypatch.setattr(device.torch, "set_num_threads", lambda count: threads_now.__setitem__(0, count))
    monkeypatch.setattr(device.torch, "randn", lambda *sizes, generator: Product())
    monkeypatch.setattr(device.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(device, "best_device", lambda: torch.device("cpu"))
    assert device.fastest_threads.__wrapped__() == chosen
    assert threads_now == [4]  # the person's number is set again
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert device.fastest_threads.__wrapped__() == 4


def test_a_training_has_its_threads_and_gives_them_back():
    before = torch.get_num_threads()
    with Machine(torch.device("cpu"), bf16=False, peak=1.0, threads=3).using_threads():
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
