"""Families at published strength on one GPU: each named training is a `regard train` of its own, several at a
time.

    PYTHONPATH=src python3 bench/gpu_families.py --runs runs.json --out $OUT [--at-once 4]

runs.json holds {name: {"train": [arguments of `regard train`], "evaluate": [[arguments of `regard evaluate
RUN`], ...]}}. Prints one JSON line a training: what `train --json` and each `evaluate --json` say, and the
curve of validations.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

POINTS = 14  # of a curve


def carry_out(name: str, wanted: dict[str, Any]) -> None:
    """Train and evaluate one run."""
    with tempfile.TemporaryDirectory() as folder:
        run, started = f"{folder}/run", time.monotonic()
        result = {"name": name, "command": " ".join(["regard", "train", *wanted["train"]])}
        result["train"] = regard("train", *wanted["train"], "--out", run)
        result["seconds"] = time.monotonic() - started
        rows = [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]
        times = [json.loads(line)["seconds"] for line in Path(run, "timing.jsonl").read_text().splitlines()]
        curve = [(row["step"], second, row["valid_loss"]) for row, second in zip(rows, times, strict=True)]
        result["curve"] = curve[:: max(1, len(curve) // POINTS)] + curve[-1:]
        print("PART " + json.dumps(result), flush=True)  # what there is, if an evaluation fails
        result["evaluate"] = [regard("evaluate", run, *arguments) for arguments in wanted["evaluate"]]
        print("RESULT " + json.dumps(result), flush=True)


def regard(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "regard", *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = json.loads(options.runs.read_text())
    if options.only:
        carry_out(options.only, wanted[options.only])
        return
    waiting, running = list(wanted), dict[str, subprocess.Popen]()
    while waiting or running:
        while waiting and len(running) < options.at_once:
            name = waiting.pop(0)
            with (options.out / f"{name}.log").open("w") as log:
                command = [sys.executable, __file__, *sys.argv[1:], "--only", name]
                running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                lines = (options.out / f"{name}.log").read_text().splitlines()
                results = [line for line in lines if line.startswith(("PART", "RESULT"))]
                print(results[-1] if results else f"{name} failed: {lines[-3:]}", flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
