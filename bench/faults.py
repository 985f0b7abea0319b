"""Faults: kills, full disks, failing renames, removed folders, two processes for one folder, jumping clocks.

After each fault, the last good state must be there: the work is resumed, or begun again, and ends equal, to
the bit, to work that nothing disturbed. A command that meets a fault ends with one line and exit code 1 or 2.

python bench/faults.py [--minutes 10] [--kills 20] [--small] [--only kills calls sizes others]
                       [--job lstm] [--seed N]

`--small` tries one family of each kind and every thirteenth call; tests/test_faults.py runs it. Prints one
JSON object: how many cases of each kind were tried, and a line for each that failed. bench/fault_jobs.py has
the commands.
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
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fault_jobs import (
    Job,
    compare_job,
    end,
    export_jobs,
    folder,
    picture_job,
    run,
    said_one_line,
    same,
    start,
    train_job,
    undisturbed,
)
from safetensors import SafetensorError

from regard.machine import disk
from regard.models import FAMILIES

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
        Path.write_bytes = wrapped("write_bytes", Path.write_bytes, half=True)
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
    parser.add_argument("--job", default="", help="only the works with these letters in their names")
    parser.add_argument("--only", nargs="+", default=["calls", "sizes", "others", "kills"])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    began, chance = time.monotonic(), random.Random(options.seed)
    tally = Tally(began + 60 * options.minutes)
    small = options.small
    families = ["lstm", "recurrent-translator", "ngram"] if small else list(FAMILIES)
    compared = compare_job(["ngram", "dan"])
    writers = [train_job("lstm"), train_job("ngram"), *export_jobs()[: 1 if small else 3], picture_job()]
    writers = [job for job in [*writers, *([] if small else [compared])] if options.job in job.name]
    tasks: list[tuple[str, Callable[[], None]]] = [("others", partial(others, tally, train_job("lstm")))]
    limits = [2000] if small else [0, 300, 2000, 8000, 30000]
    tasks += [("calls", partial(calls, tally, job, 13 if small else options.stride)) for job in writers]
    tasks += [("sizes", partial(sizes, tally, job, limits)) for job in writers]
    killed = [*map(train_job, families), *([] if small else [compared, *export_jobs(), picture_job()])]
    killed = [job for job in killed if options.job in job.name]
    tasks += [("kills", partial(kills, tally, job, options.kills, chance)) for job in killed]
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
