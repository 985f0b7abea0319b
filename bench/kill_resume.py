"""kill -9 at random moments, again and again, then compare with a run that was never stopped: weights and
metrics, to the bit.

python bench/kill_resume.py [--kills 20] [--families lstm transformer]
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from regard.models import FAMILIES

TEXT = "".join(f"line {number % 13} says {'abc' * (number % 7)} and {number} ends\n" for number in range(400))
SMALL = [
    "--text",
    "text.txt",
    "--tokens",
    "char",
    "--evaluate-every",
    "5",
    "--batch",
    "4",
    "--width",
    "16",
    "--layers",
    "2",
]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "regard", "train", *arguments]


def newest(out: Path) -> str:
    return max((path.name for path in out.glob("checkpoint-*[0-9]")), default="")


def survives(family: str, kills: int, work: Path, chance: random.Random) -> tuple[int, bool]:
    options = [family, *SMALL, "--steps", str(60 * kills)]
    subprocess.run(command(*options, "--out", f"{family}-whole"), cwd=work, check=True, capture_output=True)
    out = work / f"{family}-killed"
    arguments, done = [*options, "--out", out.name], 0
    while True:
        before = newest(out)
        process = subprocess.Popen(
            command(*arguments), cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if done < kills:
            while process.poll() is None and newest(out) == before:
                time.sleep(0.005)
            time.sleep(chance.random() * 0.4)  # some steps, validations and savings later
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                done += 1
        if process.wait() == 0 or (out / "config.json").exists():
            break
        arguments = [family, "--out", out.name, "--resume"]
    same = all(
        (out / name).read_bytes() == (work / f"{family}-whole" / name).read_bytes()
        for name in ("model.safetensors", "metrics.jsonl")
    )
    return done, same


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--families", nargs="+", default=[family for family in FAMILIES if family != "ngram"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "text.txt").write_text(TEXT)
        for family in options.families:
            done, same = survives(family, options.kills, Path(folder), random.Random(family))
            print(f"{family}: killed {done} times, {'equal to the bit' if same else 'DIFFERENT'}", flush=True)


if __name__ == "__main__":
    main()
