"""Faults: kills, full disks, failing renames, removed folders, two processes for one folder, jumping clocks.

After each fault, the last good state must be there: the work is resumed, or begun again, and ends equal, to
the bit, to work that nothing disturbed. A command that meets a fault ends with one line and exit code 1 or 2.

python bench/faults.py [--minutes 10] [--kills 20] [--small] [--only kills calls sizes others] [--seed N]

Every command runs in a fork of this process, which has imported torch and computes nothing itself. `--small`
tries one family of each kind and every thirteenth call; tests/test_faults.py runs it. Prints one JSON object:
how many cases of each kind were tried, and a line for each that failed.
"""

import argparse
import contextlib
import errno
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import altair  # noqa: F401  (what every fork needs is imported here, once)
import torch
import torch._dynamo
import tyro  # noqa: F401
from safetensors import SafetensorError

import regard.verbs.compare
import regard.verbs.export
import regard.verbs.look  # noqa: F401
from regard.cli import main as cli
from regard.machine import disk
from regard.models import FAMILIES

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
KILLED = -signal.SIGKILL
CALLS = ("mkdir", "replace", "rename", "fsync", "unlink", "rmdir")  # of the module os


@dataclass
class Tally:
    """What was tried and what failed."""

    until: float  # by the monotonic clock; what is not tried until then is skipped and told
    tried: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def over(self, case: str) -> bool:
        """Whether the time is over. The case that is skipped is told."""
        if time.monotonic() < self.until:
            return False
        if not self.skipped or self.skipped[-1] != case:
            self.skipped.append(case)
        return True

    def check(self, kind: str, right: bool, case: str) -> None:
        self.tried[kind] += 1
        if not right:
            self.failed.append(f"{kind}: {case}")
            print(f"FAILED {kind}: {case}", file=sys.stderr, flush=True)


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


def end(process: int, limit: float = 120.0) -> int:
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


def kills(tally: Tally, job: Job, count: int, chance: random.Random) -> None:
    """SIGKILL at random moments of one work until it is done; then from the beginning, if kills are left."""
    if tally.over(f"kills: {job.name}"):
        return
    expected, left, longest = undisturbed(job), count, 1.5
    while left > 0 and not tally.over(f"{left} kills: {job.name}"):
        with folder() as work:
            job.prepare(work)
            while left > 0 and not all(job.results(work)[-1:]):
                begun = (
                    bool(job.resume)
                    and (work / "out" / "training.json").exists() | (work / "out/plan.json").exists()
                )
                process = start(work, (job.resume if begun else job.first) or job.first)
                began = time.monotonic()
                time.sleep(chance.random() * longest)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                code = end(process)
                if code != KILLED:  # it was faster
                    longest = max(0.02, min(longest, 1.1 * (time.monotonic() - began)))
                    break
                left -= 1
                tally.tried[f"kill -9: {job.name}"] += 1
            code = job.go_on(work)
            tally.check(
                "resumed after kills", code == 0 and same(job, work, expected), f"{job.name}: exit {code}"
            )


def fail_at(number: int, act: Callable[[str], None], hit: Path) -> Callable[[], None]:
    """Make the numbered call of the file system fail: a rename, a flush, a removal, or a written file."""

    def patch() -> None:
        counter = itertools.count(1)

        def wrapped(name: str, call: Callable, half: bool = False) -> Callable:
            def instead(*arguments, **options):
                if next(counter) == number:
                    if half:
                        with contextlib.suppress(Exception):
                            call(*arguments, **options)
                            place = next(item for item in arguments if isinstance(item, Path))
                            os.truncate(place, place.stat().st_size // 2)
                    with open(hit, "w") as file:
                        file.write(f"({name} {arguments[0]})"[:200])
                    act(name)
                return call(*arguments, **options)

            return instead

        for name in CALLS:
            setattr(os, name, wrapped(name, getattr(os, name)))
        Path.write_bytes = wrapped("write_bytes", Path.write_bytes, half=True)  # type: ignore[method-assign]
        disk.save_file = wrapped("save_file", disk.save_file, half=True)

    return patch


def die(name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def no_room(name: str) -> None:
    if name == "save_file":
        raise SafetensorError("No space left on device (os error 28)")
    raise OSError(errno.ENOSPC, "No space left on device")


def denied(name: str) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


def calls(tally: Tally, job: Job, stride: int) -> None:
    """Fail at the first call of the file system, then at the second, and so on, in three ways."""
    if tally.over(f"calls: {job.name}"):
        return
    expected = undisturbed(job)
    for act in (die, no_room, denied):
        for number in itertools.count(1, stride):
            if tally.over(f"{act.__name__}: {job.name}, calls from {number}"):
                break
            with folder() as work:
                job.prepare(work)
                code = run(work, job.first, fail_at(number, act, work / "hit"))
                if not (work / "hit").exists():  # there are no more calls
                    break
                case = (
                    f"{job.name}: {act.__name__} at call {number} {(work / 'hit').read_text()}: exit {code}"
                )
                if act is not die:
                    one_line = code == 0 or (code in (1, 2) and said_one_line(work))
                    tally.check(f"{act.__name__}: one line", one_line, case)
                code = job.go_on(work)
                good = code == 0 and same(job, work, expected)
                tally.check(f"{act.__name__}: the work is done after it", good, f"{case}, then {code}")


def limit_files(limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def sizes(tally: Tally, job: Job, limits: list[int]) -> None:
    """A file system on which no file may grow beyond a limit."""
    expected = undisturbed(job)
    for limit in limits:
        if tally.over(f"sizes: {job.name}"):
            break
        with folder() as work:
            job.prepare(work)
            code = run(work, job.first, partial(limit_files, limit))
            case = f"{job.name}: files of at most {limit} bytes: exit {code}"
            # the error itself may not fit into the file of standard error
            tally.check(
                "full disk: ends", code == 0 or (code == 1 and (limit < 500 or said_one_line(work))), case
            )
            code = job.go_on(work)
            tally.check("full disk: the work is done after it", code == 0 and same(job, work, expected), case)


def others(tally: Tally, job: Job) -> None:
    """The folder is removed; two processes; a clock that jumps."""
    expected = undisturbed(job)
    with folder() as work:
        process = start(work, job.first)
        while not list((work / "out").glob("checkpoint-*")):
            time.sleep(0.002)
        shutil.rmtree(work / "out", ignore_errors=True)
        code = end(process)
        tally.check("removed folder", code in (0, 1) and (code == 0 or said_one_line(work)), f"exit {code}")
    with folder() as work:
        (work / "other").mkdir()
        pair = [
            start(work, job.first),
            start(work / "other", [*job.first[:-1], "../out", "--text", "../text.txt"]),
        ]
        codes = sorted(map(end, pair))
        tally.check("two processes", codes == [0, 2] and same(job, work, expected), f"exits {codes}")
    for jump in (-1e9, 1e9):
        with folder() as work:
            code = run(work, job.first, partial(jumping_clock, jump))
            tally.check("jumping clock", code == 0 and same(job, work, expected), f"{jump:.0e}: exit {code}")


def jumping_clock(jump: float) -> None:
    real, moments = time.time, itertools.count()
    time.time = lambda: real() + jump * (next(moments) % 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--stride", type=int, default=1, help="try every so many calls")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="+", default=["calls", "sizes", "others", "kills"])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    began, chance = time.monotonic(), random.Random(options.seed)
    tally = Tally(began + 60 * options.minutes)
    small = options.small
    families = ["lstm", "recurrent-translator", "ngram"] if small else list(FAMILIES)
    compared = compare_job(["ngram", "dan"])
    writers = [train_job("lstm"), train_job("ngram"), *export_jobs()[: 1 if small else 3], picture_job()]
    tasks: list[tuple[str, Callable[[], None]]] = [("others", partial(others, tally, train_job("lstm")))]
    limits = [2000] if small else [0, 300, 2000, 8000, 30000]
    tasks += [("calls", partial(calls, tally, job, 13 if small else options.stride)) for job in writers]
    tasks += [("sizes", partial(sizes, tally, job, limits)) for job in writers]
    killed = [*map(train_job, families), *([] if small else [compared, *export_jobs(), picture_job()])]
    tasks += [("kills", lambda job=job: kills(tally, job, options.kills, chance)) for job in killed]
    if not small:
        tasks += [
            ("calls", lambda: calls(tally, compared, 3)),
            ("sizes", lambda: sizes(tally, compared, [2000, 30000])),
        ]
    for name, task in tasks:
        try:
            task() if name in options.only else None
        except AssertionError as error:  # the undisturbed work failed
            tally.check("undisturbed", False, f"{name}: {error}")
    result = {"seed": options.seed, "seconds": round(time.monotonic() - began), "skipped": tally.skipped}
    print(json.dumps({**result, "tried": dict(tally.tried), "failed": tally.failed}, indent=1))
    sys.exit(bool(tally.failed))


if __name__ == "__main__":
    main()
