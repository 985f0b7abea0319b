"""n-gram estimation in memory and within memory budgets: seconds, peak memory and peak disk.

    python bench/ngram_memory.py --like ../shared/data/wikitext-2/train.txt --megabytes 88 --memory 1GB none

The text is one of bench/growing_text.py. Each training is a process of its own. The text is encoded before:
the seconds are those of counting, estimating and writing the run. Processor seconds are shown beside them,
because other programs may share the cores.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from growing_text import write

from regard.runs.formats.folder import CONFIG, MODEL


def train(
    text: Path, out: Path, order: int, memory: str, engine: str | None = None
) -> tuple[float, float, float, float]:
    """Return wall seconds, processor seconds, and the peaks of memory and disk in megabytes."""
    budget = [] if memory == "none" else ["--memory", memory]
    budget += [] if engine is None else ["--engine", engine]
    command = [
        sys.executable,
        "-m",
        "regard",
        "train",
        "ngram",
        "--order",
        str(order),
        "--hold",
        "0",
        *budget,
    ]
    disk, done = 0, threading.Event()

    def watch() -> None:
        nonlocal disk
        while not done.wait(0.2):
            disk = max(disk, _size(out))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    process = os.posix_spawn(command[0], [*command, "--text", str(text), "--out", str(out)], os.environ)
    _, status, used = os.wait4(process, 0)
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    if status:
        raise SystemExit(f"{command}: status {status}")
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6, disk / 1e6


def _size(folder: Path) -> int:
    """Return the bytes of all files of a folder, some of which may go while they are listed."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--like", type=Path, help="the text whose pairs of words are sampled")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[88])
    parser.add_argument("--memory", nargs="+", default=["none", "1GB"], help="budgets; none: in memory")
    parser.add_argument("--engine", help="the address of a Dask scheduler with workers, which see --folder")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="the folder of the texts and runs")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        os.environ["REGARD_CACHE"] = f"{folder}/cache"
        for megabytes in chosen.megabytes:
            text, out = folder / "text.txt", folder / "run"
            write(text, int(megabytes * 1e6), like=chosen.like)
            train(text, folder / "first", 1, "none")  # encodes the text
            shutil.rmtree(folder / "first")
            hashes = set()
            for memory in chosen.memory:
                figures = train(text, out, chosen.order, memory, chosen.engine)
                size = (out / MODEL).stat().st_size / 1e6
                hashes.add(json.loads((out / CONFIG).read_text())["files"][MODEL])
                wall, cpu, peak, disk = (f"{figure:.0f}" for figure in figures)
                print(
                    f"{megabytes:.0f} MB of text, order {chosen.order}, memory {memory}: {wall} s, processor "
                    f"{cpu} s, memory {peak} MB, disk {disk} MB, model {size:.0f} MB",
                    flush=True,
                )
                shutil.rmtree(out)
            assert len(hashes) == 1, "the models differ"


if __name__ == "__main__":
    main()
