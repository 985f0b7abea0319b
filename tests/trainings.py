"""Small trainings, shared by tests."""

from pathlib import Path

import regard
from regard.verbs.train import Trained

TEXT = "".join(f"line {number % 13} says {'abc' * (number % 5)} and ends\n" for number in range(200))


SMALL = ["--tokens", "char", "--steps", "24", "--evaluate-every", "6", "--batch", "4", "--width", "16"]


MORE = {
    "dan": ["--layers", "1", "--segment", "11", "--lookback", "0"],
    "window": ["--layers", "1", "--segment", "11", "--window", "5"],
    "rnn": [
        "--layers",
        "1",
        "--segment",
        "11",
        "--optimiser",
        "sgd",
        "--learning-rate",
        "5",
        "--weight-decay",
        "0",
    ],
    "lstm": ["--layers", "2", "--segment", "11"],
    "attentive": ["--layers", "1", "--segment", "11", "--lookback", "7"],
    "transformer": ["--layers", "2", "--heads", "2", "--context", "17", "--dropout", "0.1"],
    "backpack": ["--layers", "1", "--heads", "2", "--context", "17", "--senses", "2", "--dropout", "0.1"],
}


PAIRS = [
    "--pairs",
    "pairs.tsv",
    "--steps",
    "24",
    "--evaluate-every",
    "6",
    "--width",
    "16",
    "--batch-tokens",
    "128",
    "--average",
    "2",
]


def files(run: Path) -> tuple[bytes, str]:
    return (run / "model.safetensors").read_bytes(), (run / "metrics.jsonl").read_text()


def small(out: Path, text: Path, **more) -> Trained:
    options = {
        "tokens": "char",
        "steps": 12,
        "evaluate_every": 4,
        "batch": 4,
        "width": 8,
        "layers": 1,
        "segment": 11,
        **more,
    }
    return regard.train("lstm", text=str(text), out=str(out), **options)
