"""Commands that write, run in forks of this process: what bench/faults.py disturbs and resumes.

Every command runs in a fork of this process, which has imported torch and computes nothing itself.
"""

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import altair  # noqa: F401  (what every fork needs is imported here, once)
import torch
import torch._dynamo
import tyro  # noqa: F401

import regard.verbs.compare
import regard.verbs.export
import regard.verbs.look  # noqa: F401
from regard.cli import main as cli

TEXT = "".join(f"line {number % 13} says {'abc' * (number % 7)} and {number} ends\n" for number in range(300))
TRAINING = ["--steps", "24", "--evaluate-every", "6", "--width", "16"]
PAIRS = ["--pairs", "pairs.tsv", "--batch-tokens", "128", "--average", "2", *TRAINING]
PLAIN = ["--text", "text.txt", "--tokens", "char", "--batch", "4", *TRAINING]
LABELS = ["--labelled", "labels.tsv", "--batch", "4", *TRAINING]
OWN = {  # the options of families that do not read a plain text of characters
    "recurrent-translator": PAIRS,
    "transformer-translator": PAIRS,
    "classifier": LABELS,
    "embedding": ["--text", "text.txt", *TRAINING],
    "captioner": ["--batch", "4", *TRAINING],
    "transformer-captioner": ["--batch", "4", *TRAINING],
}
COMPARE = ["compare", "--text", "text.txt", "--tokens", "char", "--tokens-each", "1500", "--out", "out"]


def start(work: Path, arguments: list[str], before: Callable[[], None] = lambda: None) -> int:
    """Run a command in a fork and return its process id. `before` prepares the fault."""
    process = os.fork()
    if process:
        return process
    code = 99
    try:
        os.chdir(work)
        for number, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        torch.set_num_threads(1)
        before()
        code = cli(arguments)
    finally:
        os._exit(code)


def end(process: int, limit: float = 300.0) -> int:
    """Wait for a command. Return its exit code, a negative signal number, or 124 after the time limit."""
    stop = time.monotonic() + limit
    while time.monotonic() < stop:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return 124


def run(work: Path, arguments: list[str], before: Callable[[], None] = lambda: None) -> int:
    return end(start(work, arguments, before))


def said_one_line(work: Path) -> bool:
    """Whether standard error ends with one line of regard's, and holds no traceback."""
    lines = (work / "stderr").read_text().splitlines()
    own = [line for line in lines if line.startswith("regard: ")]
    return bool(own) and lines[-1] == own[-1] and "Traceback" not in "\n".join(lines)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        (work / "text.txt").write_text(TEXT)
        pairs = (f"line {number} says a b\tb a says {number} line\n" for number in range(60))
        (work / "pairs.tsv").write_text("".join(pairs))
        labels = (
            f"{'odd' if number % 2 else 'even'}\tline {number} says {number % 7}\n" for number in range(80)
        )
        (work / "labels.tsv").write_text("".join(labels))
        yield work


@dataclass(frozen=True)
class Job:
    """A command that writes, the command that goes on with it, and the files that it leaves."""

    name: str
    first: list[str]
    resume: list[str] | None  # None: the same command again
    files: list[str]
    before: list[list[str]] = field(default_factory=list)  # commands that prepare the folder

    def prepare(self, work: Path) -> None:
        for arguments in self.before:
            assert run(work, arguments) == 0, (work / "stderr").read_text()

    def results(self, work: Path) -> list[bytes | None]:
        return [(work / name).read_bytes() if (work / name).is_file() else None for name in self.files]

    def go_on(self, work: Path) -> int:
        """Resume; where there is nothing to resume, begin again. 0 if the work is done."""
        if self.results(work)[-1] is not None and self.resume is None:
            return 0
        code = run(work, self.resume or self.first)
        said = (work / "stderr").read_text()
        if code == 2 and "is finished; there is nothing to resume" in said:
            return 0
        if code == 2 and ("to resume" in said or "is not an empty folder" in said):
            code = run(work, self.first)
        return code


def train_job(family: str) -> Job:
    if family == "ngram":
        counted = ["train", "ngram", "--text", "text.txt", "--out", "out"]
        return Job("train ngram", counted, None, ["out/model.safetensors", "out/config.json"])
    first = ["train", family, *OWN.get(family, PLAIN), "--out", "out"]
    files = ["out/model.safetensors", "out/metrics.jsonl", "out/samples.txt"]
    return Job(f"train {family}", first, ["train", family, "--out", "out", "--resume"], files)


def compare_job(families: list[str]) -> Job:
    files = [f"out/{family}/model.safetensors" for family in families] + ["out/ladder.tsv"]
    resume = ["compare", "--out", "out", "--resume"]
    return Job("compare", [*COMPARE, "--families", ",".join(families)], resume, files)


def export_jobs() -> list[Job]:
    counted = [["train", "ngram", "--text", "text.txt", "--out", "run"]]
    deep = [
        [
            "train",
            "transformer",
            *PLAIN,
            "--tokens",
            "bpe",
            "--positions",
            "learned",
            "--no-readout-bias",
            "--out",
            "run",
        ]
    ]
    return [
        Job("export arpa", ["export", "run", "--to", "out.arpa"], None, ["out.arpa"], counted),
        Job("export folder", ["export", "run", "--to", "out", "--format", "regard"], None,
            ["out/model.safetensors"], counted),
        Job("export gpt2", ["export", "run", "--to", "out", "--format", "gpt2"], None,
            ["out/tokenizer.json", "out/model.safetensors"], deep),
    ]  # fmt: skip


def picture_job() -> Job:
    counted = [["train", "ngram", "--text", "text.txt", "--out", "run"]]
    first = ["look", "run", "--text", "line 3 says", "--out", "out.json"]
    return Job("look --out", first, None, ["out.json"], counted)


def undisturbed(job: Job) -> list[bytes | None]:
    with folder() as work:
        job.prepare(work)
        assert run(work, job.first) == 0, (work / "stderr").read_text()
        return job.results(work)


def same(job: Job, work: Path, expected: list[bytes | None]) -> bool:
    """Whether the files are equal to the bit. config.json holds seconds and folders: there, it must exist."""
    pairs = zip(job.files, job.results(work), expected, strict=True)
    return all(one == other if "config" not in name else one is not None for name, one, other in pairs)
