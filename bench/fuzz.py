"""Read files from outside that were changed at random, or written from their formats' grammars, for an hour.

    python bench/fuzz.py --minutes 60
    python bench/fuzz.py --seed 123 --minutes 5 --only gpt2

The seed is random and printed. Every failure is one line, as FOUND of tests/test_fuzz.py (file, way of the
change, seed) or of tests/test_grammars.py (grammar, content) repeats it. A failure is an exception other than
the two with one line, a hang of more than 20 seconds, or memory beyond 2 GB.
"""

import argparse
import contextlib
import io
import random
import resource
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fuzzed import Target, targets
from grammar_targets import Grammar, grammar_targets

HANG, MEMORY = 20, 2 << 30
TOGETHER = 40  # files that one grammar writes before another follows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rng, end = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    tally = Tally()
    signal.signal(signal.SIGALRM, _hang)
    with tempfile.TemporaryDirectory() as folder:
        made = [*targets(Path(folder) / "changed"), *grammar_targets(Path(folder) / "written")]
        good = [target for target in made if options.only in target.name]
        while time.monotonic() < end:
            target, seed = rng.choice(good), rng.randrange(10**9)
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    tally.begin()
                    if isinstance(target, Grammar):
                        target.hunt(seed, TOGETHER, lambda what: tally.add(target.name, what))  # noqa: B023
                    else:
                        tally.add(target.name, target.attempt(seed, Path(folder) / "scratch"))
            except KeyboardInterrupt:
                break
            except BaseException as error:  # also a panic of a native library
                tally.fail(target, seed, f"{type(error).__name__}: {str(error)[:200]!r}")
            signal.alarm(0)
    for name in sorted(tally.came):
        print(f"{tally.came[name]:8,} {name}")
    print(f"{tally.came.total():,} files, {tally.failed} failures, seed {options.seed}")
    raise SystemExit(tally.failed > 0)


class Tally:
    """What came of each file, and the time and the memory that it may take."""

    def __init__(self) -> None:
        self.came, self.failed = Counter[str](), 0

    def begin(self) -> None:
        self._before = _memory()
        signal.alarm(HANG)

    def add(self, name: str, what: str) -> None:
        self.came[f"{name} {what}"] += 1
        if _memory() - self._before > MEMORY:
            raise MemoryError("more than 2 GB")
        self.begin()

    def fail(self, target: Target | Grammar, seed: int, why: str) -> None:
        self.came[f"{target.name} failed"] += 1
        self.failed += 1
        case = target.file.read_bytes() if isinstance(target, Grammar) else seed
        print(f"({target.name!r}, {case!r}),  # {why}", flush=True)


def _hang(*_: object) -> None:
    raise TimeoutError(f"more than {HANG} seconds")


def _memory() -> int:
    """Return the most memory that this process has used so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
