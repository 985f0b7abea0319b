"""Measures peak memory against the size of the text: regard train, evaluate and score, for every --tokens.

Each command runs in a process of its own. "process" is the largest resident memory of that process as the
system reports it, mapped pages included; "tree" adds the processes that encode the text, and counts shared
pages once (proportional set size, sampled ten times a second).

    python bench/memory_by_size.py --megabytes 1 100 --tokens char byte word bpe --out memory.json
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from growing_text import write

TRAIN = ("--steps", "5", "--precision", "fp32", "--evaluate-every", "5")
OPTIONS = {"word": ("--cutoff", "20")}  # so that the vocabulary, and the model with it, hardly grow


def children(process: int) -> list[int]:
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        threads = Path(f"/proc/{process}/task").iterdir()
        listed = [child for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return []
    return [int(child) for child in listed] + [grand for child in listed for grand in children(int(child))]


def proportional(process: int) -> int:
    """The proportional set size in kilobytes."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def run(*arguments: str) -> dict[str, float]:
    """Run a command. Return its seconds, and its peaks in megabytes."""
    began, peak, done = time.perf_counter(), 0, threading.Event()
    with tempfile.TemporaryFile() as errors:
        command = [sys.executable, "-m", "regard", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.1):
                peak = max(peak, sum(map(proportional, [process.pid, *children(process.pid)])))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, used = os.wait4(process.pid, 0)
        done.set()
        watcher.join()
        if status:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)}: {errors.read().decode()[-500:]}")
    seconds = time.perf_counter() - began
    return {"seconds": round(seconds, 1), "process": used.ru_maxrss / 1024, "tree": peak / 1024}


def measure(tokens: str, size: float, folder: Path) -> list[dict[str, object]]:
    text, valid, out = folder / "text.txt", folder / "valid.txt", folder / "run"
    write(text, int(size * 1e6))
    write(valid, 200_000, seed=2)
    shutil.rmtree(out, ignore_errors=True)
    given = ("--tokens", tokens, *OPTIONS.get(tokens, ()), "--text", str(text), "--valid", str(valid))
    commands = {
        "train": ("train", "transformer", *given, *TRAIN, "--out", str(out)),
        "train again": ("train", "transformer", *given, *TRAIN, "--out", str(folder / "again")),
    }
    rows = list[dict[str, object]]()
    for name, command in commands.items():
        rows.append({"tokens": tokens, "megabytes": size, "command": name, **run(*command)})
        print(json.dumps(rows[-1]), flush=True)
    shutil.rmtree(folder / "again")
    return rows


def measure_ngram(size: float, folder: Path) -> list[dict[str, object]]:
    """Evaluate and score a text with a counted model: it reads a large text in minutes."""
    text, small, out = folder / "text.txt", folder / "small.txt", folder / "ngram"
    write(text, int(size * 1e6))
    write(small, 1_000_000, seed=2)
    shutil.rmtree(out, ignore_errors=True)
    run("train", "ngram", "--order", "2", "--text", str(small), "--out", str(out))
    rows = list[dict[str, object]]()
    for name in ("evaluate", "score"):
        measured = run(name, str(out), "--text", str(text))
        rows.append({"tokens": "word", "megabytes": size, "command": f"{name} (ngram)", **measured})
        print(json.dumps(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[1, 100])
    parser.add_argument("--tokens", nargs="*", default=["char", "byte", "word", "bpe"])
    parser.add_argument("--ngram", action="store_true", help="also evaluate and score with an n-gram model")
    parser.add_argument("--folder", type=Path, help="the folder of the texts, runs and shards")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        os.environ["REGARD_CACHE"] = f"{name}/cache"
        measured = [
            row
            for size in chosen.megabytes
            for kind in chosen.tokens
            for row in measure(kind, size, Path(name))
        ]
        if chosen.ngram:
            measured += [row for size in chosen.megabytes for row in measure_ngram(size, Path(name))]
    if chosen.out:
        chosen.out.write_text(json.dumps(measured, indent=1))
