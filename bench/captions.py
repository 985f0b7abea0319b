"""Captions: exact match and pointing on unseen combinations of shapes, and rows of handwritten digits.

    python bench/captions.py                              every part, with the defaults
    python bench/captions.py --only scenes --seeds 3      the built-in scenes, three seeds
    python bench/captions.py --only digits                rows of 3 to 5 digits of scikit-learn, read as words
    python bench/captions.py --only before transformer    the state before the word; a Transformer

Every part trains with one thread and prints CPU seconds of the whole command: drawing, training, measuring.
The figures are those of `regard evaluate`. The digits go through files, as a user's images would.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import numpy as np
from PIL import Image

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
HEIGHT, WIDTH, WIDE = 12, 52, 10  # pixels of a row of digits, and of the place of a digit
TRAINED, TESTED = 12000, 500
TEST_SHARE = 6  # each sixth digit image is kept for the test rows


def regard(*arguments: str) -> tuple[dict[str, Any], float]:
    """Run a command with --json. Return its result and its CPU seconds."""
    before, began = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "regard", *arguments, "--json"], stdout=subprocess.PIPE, check=True
    )
    after = getrusage(RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  {seconds:.0f} s of CPU, {time.perf_counter() - began:.0f} s", flush=True)
    return json.loads(done.stdout), seconds


def show(name: str, seconds: float, measured: dict[str, Any]) -> None:
    wanted = (
        "exact",
        "bleu",
        "pointing",
        "pointing_colour",
        "pointing_shape",
        "pointing_mass",
        "pointing_chance",
    )
    figures = ", ".join(f"{key} {measured[key]:.4g}" for key in wanted if key in measured)
    print(f"{name}: training {seconds:.1f} s of CPU; {figures}", flush=True)


def scenes(work: Path, name: str, family: str, seed: int, *more: str) -> None:
    run = str(work / f"{name}-{seed}")
    _, seconds = regard("train", family, "--out", run, "--seed", str(seed), *more)
    measured, _ = regard("evaluate", run)
    show(f"{name}, seed {seed}", seconds, measured)


def digits(work: Path, seed: int) -> None:
    """Whole rows, left to right, and pointing, on rows of digits that training never saw."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    pictures, labels = (loaded.images / 16 * 255).round().astype(np.uint8), loaded.target
    test_N = np.arange(len(labels)) % TEST_SHARE == 0
    folder = work / f"digits-{seed}"
    for part, chosen_N, count in (("train", ~test_N, TRAINED), ("test", test_N, TESTED)):
        _write_rows(folder / part, pictures[chosen_N], labels[chosen_N], count, seed)
    run = str(work / f"digits-run-{seed}")
    train, test = folder / "train", folder / "test"
    _, seconds = regard(
        "train", "captioner", "--images", str(train), "--captions", str(train / "captions.tsv"), "--out", run,
        "--seed", str(seed),
    )  # fmt: skip
    files = ("--images", str(test), "--captions", str(test / "captions.tsv"))
    measured, _ = regard("evaluate", run, *files, "--boxes", str(test / "boxes.tsv"))
    show(f"rows of digits, seed {seed}", seconds, measured)
    print(f"  left to right {_left_to_right(run, test):.4f}", flush=True)


def _write_rows(folder: Path, pictures: np.ndarray, labels: np.ndarray, count: int, seed: int) -> None:
    """Write rows of 3 to 5 digits at free places, with captions and boxes."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    captions, boxes = [], []
    for number in range(count):
        row_YX, words, left = np.zeros((HEIGHT, WIDTH), np.uint8), list[str](), 0
        for _ in range(generator.integers(3, 6)):
            chosen = int(generator.integers(len(labels)))
            x, y = left + int(generator.integers(0, 3)), int(generator.integers(0, HEIGHT - 7))
            row_YX[y : y + 8, x : x + 8] = pictures[chosen]
            boxes.append(f"{number + 1}\t{len(words)}\t{x}\t{y}\t{x + 8}\t{y + 8}\n")
            words.append(WORDS[labels[chosen]])
            left += WIDE
        Image.fromarray(row_YX).save(folder / f"{number}.png")
        captions.append(f"{number}.png\t{' '.join(words)}\n")
    (folder / "captions.tsv").write_text("".join(captions))
    (folder / "boxes.tsv").write_text("".join(boxes))


def _left_to_right(run: str, folder: Path) -> float:
    """The share of steps whose highest weight lies further right than that of the word before."""
    import torch

    import regard as package
    from regard.probabilities.translation import forced_attention
    from regard.text.captions import read
    from regard.tokens.captions import encode_captions, load_images

    opened = package.load(run)
    model = opened.language_model
    captioned = read(folder, folder / "captions.tsv")
    assert captioned is not None
    assert model.given is not None
    encoded = encode_captions(captioned, load_images(captioned, model.given.size), opened.tokenizer)
    columns, right, steps = -(-model.given.size[2] // 4), 0, 0
    for places_B in torch.arange(len(encoded)).split(64):
        (weights_BHTR,) = forced_attention(model, encoded, places_B).values()
        for place, row_HTR in zip(places_B.tolist(), weights_BHTR, strict=True):
            words = len(captioned.captions[place].split())
            column_T = row_HTR.mean(0)[:words].unflatten(1, (-1, columns)).sum(1).argmax(1)
            right, steps = right + int((column_T.diff() > 0).sum()), steps + words - 1
    return right / steps


PARTS = {
    "scenes": lambda work, seed: scenes(work, "scenes", "captioner", seed),
    "digits": digits,
    "before": lambda work, seed: scenes(
        work, "state before", "captioner", seed, "--state", "before", "--score", "additive"
    ),
    "patches": lambda work, seed: scenes(work, "patches", "captioner", seed, "--regions", "patches"),
    "transformer": lambda work, seed: scenes(work, "transformer", "transformer-captioner", seed),
    "none": lambda work, seed: scenes(work, "no attention", "captioner", seed, "--score", "none"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    for name in options.only:
        for seed in range(1, options.seeds + 1):
            with tempfile.TemporaryDirectory() as work:
                PARTS[name](Path(work), seed)


if __name__ == "__main__":
    main()
