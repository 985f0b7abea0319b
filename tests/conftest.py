"""Shared by all tests: one thread in each process, and float64 for the laws."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings
from trainings import TEXT

import regard
from regard.text import parallel

settings.register_profile(
    "regard", deadline=None, max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("regard")


def pytest_configure() -> None:
    """Use one thread here and in the commands that tests run: pytest runs a process on each core."""
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")


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
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run


@pytest.fixture
def text(tmp_path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


@pytest.fixture
def open_page() -> Iterator[Callable[..., Any]]:
    """Open a file in a narrow browser.

    At the end, check that there was no error, that the page loaded nothing from outside, and that only parts
    of the page scroll sideways.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    asked, errors = list[str](), list[object]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"]
        )
        opened = browser.new_page(viewport={"width": 360, "height": 640})
        opened.on("request", lambda request: asked.append(request.url))
        opened.on("pageerror", lambda error: errors.append(error))
        opened.on("dialog", lambda dialog: errors.append(dialog))

        def go(path: Path, ready: str = "body[data-ready]") -> Any:
            opened.goto(path.as_uri())
            opened.wait_for_selector(ready)
            return opened

        yield go
        width = opened.evaluate("document.documentElement.scrollWidth")
        browser.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert width <= 360


@pytest.fixture(scope="session")
def taught(tmp_path_factory) -> Path:
    """Train two small translators: `run` (recurrent) on 60 sentences until it knows them, `back` hardly."""
    folder = tmp_path_factory.mktemp("translated")
    pairs = parallel.built_in().part(range(60))
    (folder / "en.txt").write_text("\n".join(pairs.sources) + "\n")
    (folder / "es.txt").write_text("\n".join(pairs.targets) + "\n")
    options = {"source": str(folder / "en.txt"), "target": str(folder / "es.txt"), "seed": 2}
    learnt = {
        "valid_source": options["source"],
        "valid_target": options["target"],
        "steps": 300,
        "batch_tokens": 256,
        "evaluate_every": 100,
    }
    regard.train("recurrent-translator", out=str(folder / "run"), width=64, dropout=0.0, **options, **learnt)
    back = {
        "source": options["target"],
        "target": options["source"],
        "valid_source": options["target"],
        "valid_target": options["source"],
    }
    regard.train("transformer-translator", out=str(folder / "back"), **{**learnt, **back, "steps": 30})
    return folder
