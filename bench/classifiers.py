"""Classifiers beside fastText (the package fasttext-wheel), interleaved on one core.

    python bench/classifiers.py                                 labelled text from a seeded grammar
    python bench/classifiers.py --data train.tsv --test test.tsv [--valid FILE] [--repeats 3] [--only dan]
    (bench/labelled_tasks.py makes such files from shared text)

Files are lines label TAB text. Without --test, a fifth of the texts of each label is held out. Each repeat
trains every model once with another seed. Seconds are those of the processor, for one thread, reading and
tokenising included. fastText has its defaults for words and, in a second row, the pairs of words that its
tutorial recommends; it does not stop early, so validation texts are added to its training texts.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import regard
from regard.probabilities.labels import measure_labels
from regard.runs.labelled import require_labeller
from regard.text.labelled import Labelled, hold_out, read_labelled
from regard.tokens.rows import encode_rows

OURS: dict[str, dict[str, Any]] = {
    "regard, default": {},
    "regard, bigru max": {"encoder": "bigru", "pool": "max"},
    "regard, dan": {"encoder": "dan", "pool": "mean"},
    "regard, dan with pairs": {"encoder": "dan", "pool": "mean", "bigrams": 20000},
    "regard, dan with a layer": {"encoder": "dan", "pool": "mean", "layers": 1},
    "regard, dan with pairs and a layer": {"encoder": "dan", "pool": "mean", "bigrams": 20000, "layers": 1},
}
THEIRS: dict[str, dict[str, Any]] = {
    "fastText": {},
    "fastText, tuned as its tutorial": {"wordNgrams": 2, "lr": 1.0, "epoch": 25},
}


def ours(train: Path, valid: Path | None, test: Labelled, seed: int, **options) -> float:
    with tempfile.TemporaryDirectory() as folder:
        files = {"labelled": str(train)} | ({} if valid is None else {"valid": str(valid)})
        run = regard.train("classifier", **files, **options, seed=seed, out=f"{folder}/run").run
        model, names = require_labeller(run), run.config.labels
        rows = encode_rows(run.tokenizer, test.texts, model.context)
        return measure_labels(model, rows, torch.tensor(test.numbers(names)), names).accuracy


def theirs(train: Path, valid: Path | None, test: Labelled, seed: int, **options) -> float:
    import fasttext

    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        for path in (train, *([] if valid is None else [valid])):
            texts = read_labelled([str(path)])
            for label, text in zip(texts.labels, texts.texts, strict=True):
                print(f"__label__{label.replace(' ', '_')} {text}", file=file)
        file.flush()
        model = fasttext.train_supervised(file.name, thread=1, seed=seed, verbose=0, **options)
    # the Python method predict() of fasttext-wheel does not work with NumPy 2; the inner one does
    found = [model.f.predict(f"{text}\n", 1, 0.0, "strict")[0][1] for text in test.texts]
    right = [f"__label__{label.replace(' ', '_')}" for label in test.labels]
    return sum(one == other for one, other in zip(found, right, strict=True)) / len(right)


def write(part: Labelled, path: Path) -> Path:
    lines = (f"{label}\t{text}\n" for label, text in zip(part.labels, part.texts, strict=True))
    path.write_text("".join(lines), encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--valid")
    parser.add_argument("--test")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names of the models to train")
    given = parser.parse_args()
    torch.set_num_threads(1)
    models: dict[str, tuple[Callable[..., float], dict]] = {
        **{name: (ours, options) for name, options in OURS.items()},
        **{name: (theirs, options) for name, options in THEIRS.items()},
    }
    models = {name: model for name, model in models.items() if any(part in name for part in given.only)}
    figures = {name: list[tuple[float, float]]() for name in models}
    with tempfile.TemporaryDirectory() as folder:
        whole = read_labelled([given.data] if given.data else [])
        train, test = (whole, read_labelled([given.test])) if given.test else hold_out(whole, 0.2)
        path, valid = write(train, Path(folder) / "train.tsv"), Path(given.valid) if given.valid else None
        print(f"{len(train):,} training texts, {len(test):,} test texts, {len(train.names())} labels")
        for seed in range(1, given.repeats + 1):
            for name, (run, options) in models.items():
                began = time.process_time()
                accuracy = run(path, valid, test, seed, **options)
                seconds = time.process_time() - began
                figures[name].append((accuracy, seconds))
                print(f"  seed {seed}: {name}: {accuracy:.4f}, {seconds:.1f} s", flush=True)
    for name, pairs in figures.items():
        accuracies, seconds = zip(*pairs, strict=True)
        low, high = min(accuracies), max(accuracies)
        mean = statistics.fmean(accuracies)
        spread = f"{mean:.4f} ({low:.4f} to {high:.4f})"
        print(f"{name:<34} accuracy {spread:<26} {statistics.median(seconds):6.1f} s")


if __name__ == "__main__":
    main()
