"""Speed of ranks beside one process.

    python bench/ranks.py --text ../shared/data/tinyshakespeare/input.txt [--passes 9]

Two comparisons, each of runs in turn: two ranks of one thread beside one process of two threads that reads as
many rows in a step; and one rank under torchrun beside the same command without it. The result is the median
of the ratios of tokens a second, as the command reports them: starting and validation do not count.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
BATCH = 32  # rows of a step, in every run
# The name, and (ranks under torchrun or 0 without it, threads of each) of the run and of its peer.
COMPARISONS = {
    "two ranks of one thread / one process of two threads": ((2, 1), (0, 2)),
    "one rank under torchrun / without torchrun, one thread": ((1, 1), (0, 1)),
}


def speed(family: str, text: Path, steps: int, ranks: int, threads: int) -> float:
    """Tokens a second of a training."""
    begin = [*TORCHRUN, str(ranks)] if ranks else []
    with tempfile.TemporaryDirectory() as work:
        options = ["--text", str(text), "--tokens", "char", "--steps", str(steps), "--precision", "fp32"]
        options += ["--batch", str(BATCH // max(1, ranks)), "--evaluate-every", str(steps)]
        command = [sys.executable, *begin, "-m", "regard", "train", family, *options]
        done = subprocess.run(
            [*command, "--out", f"{work}/run", "--json"],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
            check=True,
        )
    trained = json.loads(done.stdout.splitlines()[-1])
    return trained["tokens"] / trained["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--passes", type=int, default=9)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--families", nargs="+", default=["lstm", "transformer"])
    given = parser.parse_args()
    for family in given.families:
        for name, (ours, theirs) in COMPARISONS.items():
            ratios = []
            for _ in range(given.passes):
                pair = [speed(family, given.text, given.steps, *run) for run in (ours, theirs)]
                ratios.append(pair[0] / pair[1])
            low, high = min(ratios), max(ratios)
            print(f"{family:<12} {name}: {statistics.median(ratios):.2f} [{low:.2f}-{high:.2f}]", flush=True)


if __name__ == "__main__":
    main()
