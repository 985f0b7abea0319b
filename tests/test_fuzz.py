"""Files from outside, changed at random with a fixed seed: a reader reads them or says why not, in a line.

bench/fuzz.py runs the same for an hour with another seed. Each failure that it found is in FOUND.
"""

from collections import Counter
from pathlib import Path

import pytest
from fuzzed import Target, targets

from regard.cli import main

EACH = 25  # changes of each file
FOUND: list[tuple[str, int]] = []


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> list[Target]:
    return targets(tmp_path_factory.mktemp("good"))


def test_every_reader_reads_or_refuses(good: list[Target], tmp_path: Path):
    for target in good:
        many = 4 if target.slow else EACH
        came = Counter(target.attempt(seed, tmp_path / "changed") for seed in range(many))
        assert came["refused"] > many // 10 or target.slow, target.name


def test_good_files_are_read(good: list[Target]):
    for target in good:
        if not target.slow:
            assert target.read(target.folder) is None


def test_what_the_long_run_found(good: list[Target], tmp_path: Path):
    by_name = {target.name: target for target in good}
    for name, seed in FOUND:
        by_name[name].attempt(seed, tmp_path / "changed")


def test_the_command_line_has_one_line_and_an_exit_code(good: list[Target], tmp_path: Path, capfd):
    chosen = {target.name: target for target in good}
    codes = Counter[int]()
    for name in ("lstm/config.json:json", "lstm/tokenizer.json:bytes", "gpt2/config.json:json"):
        for seed in range(100, 106):
            folder = tmp_path / "run"
            chosen[name].attempt(seed, folder)
            capfd.readouterr()
            code = main(["evaluate", str(folder), "--text", str(tmp_path / "given")])
            codes[code] += 1
            out, err = capfd.readouterr()
            assert code in (0, 1, 2), name
            assert (out == "") == (code != 0)
            assert "Traceback" not in err
    assert codes[2] > 3
