"""Read files from outside that were changed at random, for an hour, with a random seed that is printed.

    python bench/fuzz.py --minutes 60
    python bench/fuzz.py --seed 123 --minutes 5 --only gpt2

Every failure is one line: file, way of the change and seed, as tests/test_fuzz.py (FOUND) repeats it. A
failure is an exception other than the two with one line, a hang of more than 20 seconds, or memory beyond
2 GB.
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

from fuzzed import targets

HANG, MEMORY = 20, 2 << 30


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rng, end = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    came, failed = Counter[str](), 0
    signal.signal(signal.SIGALRM, _hang)
    with tempfile.TemporaryDirectory() as folder:
        good = [target for target in targets(Path(folder)) if options.only in target.name]
        while time.monotonic() < end:
            target, seed = rng.choice(good), rng.randrange(10**9)
            before = _memory()
            signal.alarm(HANG)
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    what = target.attempt(seed, Path(folder) / "changed")
            except BaseException as error:  # also a panic of a native library
                if isinstance(error, KeyboardInterrupt):
                    break
                what = "failed"
                print(
                    f"({target.name!r}, {seed}),  # {type(error).__name__}: {str(error)[:200]!r}", flush=True
                )
            signal.alarm(0)
            if _memory() - before > MEMORY:
                what = "failed"
                print(f"({target.name!r}, {seed}),  # more than 2 GB", flush=True)
            came[f"{target.name} {what}"] += 1
            failed += what == "failed"
    for name in sorted(came):
        print(f"{came[name]:8,} {name}")
    print(f"{came.total():,} changed files, {failed} failures, seed {options.seed}")
    raise SystemExit(failed > 0)


def _hang(*_: object) -> None:
    raise TimeoutError(f"more than {HANG} seconds")


def _memory() -> int:
    """Return the most memory that this process has used so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
