"""Shared by all tests: one thread where results are compared to the bit, float64 where laws are checked."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile("regard", deadline=None, max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
settings.load_profile("regard")


@pytest.fixture
def double() -> Iterator[None]:
    """Everything made inside is float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def regard_cli(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line as a person would, in a folder of its own."""

    def run(*arguments: str, stdin: bytes = b"", **more) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "regard", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            timeout=300,
            **more,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
