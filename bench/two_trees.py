"""Two versions of regard beside each other: training speed, and the number of operators of a training step.

    python bench/two_trees.py --old PATH --text ../shared/data/tinyshakespeare/input.txt [--passes 9]

PATH is another checkout, for example of `git worktree add PATH COMMIT`. Each pass trains every family once
with each version, in turn, in a process of its own. The result is the median of the ratios new / old.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

NEW = Path(__file__).parent.parent
FAMILIES = ("dan", "window", "rnn", "lstm", "gru", "attentive", "transformer", "backpack")
# The difference of two trainings leaves out the validation and the sample, which both have once.
COUNT = """
import sys, torch, regard
from torch.profiler import ProfilerActivity, profile
counts = []
for steps in (2, 12):
    options = {"text": sys.argv[2], "tokens": "char", "steps": steps, "precision": "fp32"}
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        regard.train(sys.argv[1], **options, out=f"{sys.argv[3]}-{steps}")
    counts.append(sum(event.name.startswith("aten::") for event in seen.events()))
print((counts[1] - counts[0]) // 10)
"""


def run(tree: Path, *arguments: str) -> str:
    """Run Python with a version of regard. Return the last line of standard output."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def speed(tree: Path, family: str, text: Path, steps: int) -> float:
    """Tokens a second of a training, as the command reports them."""
    with tempfile.TemporaryDirectory() as work:
        options = ["--text", str(text), "--tokens", "char", "--steps", str(steps), "--precision", "fp32"]
        options += ["--evaluate-every", str(steps), "--out", f"{work}/run", "--json"]
        trained = json.loads(run(tree, "-m", "regard", "train", family, *options))
    return trained["tokens"] / trained["seconds"]


def operators(tree: Path, family: str, text: Path) -> int:
    with tempfile.TemporaryDirectory() as work:
        return int(run(tree, "-W", "ignore", "-c", COUNT, family, str(text), f"{work}/run"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    parser.add_argument("--passes", type=int, default=9)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text(options.text.read_text()[:200_000])
        for family in options.families:
            ratios = list[float]()
            for number in range(options.passes):
                trees = (options.old, NEW) if number % 2 else (NEW, options.old)
                rates = {tree: speed(tree, family, text, options.steps) for tree in trees}
                ratios.append(rates[NEW] / rates[options.old])
            counts = [operators(tree, family, text) for tree in (options.old, NEW)]
            spread = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}-{max(ratios):.2f}]"
            print(
                f"{family:<12} new / old {spread}; operators a step {counts[0]:,} and {counts[1]:,}",
                flush=True,
            )


if __name__ == "__main__":
    main()
