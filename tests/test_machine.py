"""The machine: threads that do not spin for long, and the time they wait for a core."""

import os
import subprocess
import sys
import time

import pytest

from regard.machine import threads


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
