"""Training speed on an idle machine and beside busy processes, for several settings of OpenMP's threads.

    python bench/busy_machine.py --text ../shared/data/tinyshakespeare/input.txt [--passes 5]

Each pass trains each family once under each setting, in turn: first with the machine idle, then beside one
process that never sleeps. The result is the median of tokens a second, as the command reports them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CORES = str(os.cpu_count())
SETTINGS = {
    "regard's default": {},
    "GOMP_SPINCOUNT=1000, all threads": {"GOMP_SPINCOUNT": "1000", "OMP_NUM_THREADS": CORES},
    "GOMP_SPINCOUNT=300000 (libgomp's), all threads": {"GOMP_SPINCOUNT": "300000", "OMP_NUM_THREADS": CORES},
    "OMP_WAIT_POLICY=passive, all threads": {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": CORES},
    "OMP_NUM_THREADS=1": {"OMP_NUM_THREADS": "1"},
}


def speed(family: str, text: Path, steps: int, setting: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory() as work:
        options = ["--text", str(text), "--tokens", "char", "--steps", str(steps)]
        options += ["--evaluate-every", str(steps), "--out", f"{work}/run", "--json"]
        clean = {name: value for name, value in os.environ.items() if "OMP" not in name}
        done = subprocess.run(
            [sys.executable, "-m", "regard", "train", family, *options],
            env={**clean, **setting},
            capture_output=True,
            text=True,
            check=True,
        )
    trained = json.loads(done.stdout.splitlines()[-1])
    return trained["tokens"] / trained["seconds"]


@contextmanager
def busy_process(busy: bool) -> Iterator[None]:
    """Keep one core busy with a process that never sleeps."""
    if not busy:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--families", nargs="+", default=["lstm", "transformer"])
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text(options.text.read_text()[:200_000])
        for busy in (False, True):
            rates: dict[tuple[str, str], list[float]] = {}
            with busy_process(busy):
                for _ in range(options.passes):
                    for name, setting in SETTINGS.items():
                        for family in options.families:
                            measured = speed(family, text, options.steps, setting)
                            rates.setdefault((family, name), []).append(measured)
            print("one busy process" if busy else "idle machine")
            for (family, name), values in rates.items():
                spread = f"{statistics.median(values):,.0f} [{min(values):,.0f}-{max(values):,.0f}]"
                print(f"  {family:<12} {name:<48} {spread} tokens/s", flush=True)


if __name__ == "__main__":
    main()
