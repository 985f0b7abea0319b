"""The same ten trials for every neural family, so that a rank in a comparison is not a rank of who was tuned
more.

python bench/tune.py --out trials.jsonl [--families lstm transformer] [--minutes 0.3]

A trial is a training of so many minutes on the built-in text (BPE of 1,024 tokens); its figure is the loss on
all of the validation text. Six trials choose the optimiser and its learning rate, two the batch, two the
shape of the model. Run nothing beside it.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from regard.runs.comparing import _split

import regard

RATES = [
    *({"optimiser": "adamw", "learning_rate": rate} for rate in (0.002, 0.006, 0.015)),
    *({"optimiser": "muon", "learning_rate": rate} for rate in (0.005, 0.012, 0.03)),
]
BASE: dict[str, dict[str, Any]] = {  # what the trials start from, whatever the defaults are by now
    "dan": {"lookback": 8, "batch": 16},
    "window": {"layers": 4, "batch": 16},
    "transformer": {"layers": 4, "batch": 16},
    "backpack": {"layers": 4, "batch": 16},
}
BATCHES = [{"batch": 8}, {"batch": 32}]
RECURRENT = [{"layers": 2}, {"width": 384}]
TRUNK = [{"layers": 2}, {"width": 192}]
SHAPES: dict[str, list[dict[str, Any]]] = {
    "dan": [{"lookback": 4}, {"lookback": 16}],
    "window": TRUNK,
    "rnn": RECURRENT,
    "lstm": RECURRENT,
    "gru": RECURRENT,
    "attentive": RECURRENT,
    "transformer": TRUNK,
    "backpack": TRUNK,
}


def tune(family: str, minutes: float, parts: dict[str, str], record: Path, work: Path) -> None:
    best: tuple[float, dict[str, Any]] = (float("inf"), BASE.get(family, {"batch": 16}))
    number = 0
    for stage in (RATES, BATCHES, SHAPES[family]):
        start = best[1]
        for change in stage:
            options = {**start, **change}
            number += 1
            out = work / f"{family}-{number}"
            began = time.time()
            trained = regard.train(
                family,
                text=[parts["text"]],
                valid=[parts["valid"]],
                tokens="bpe",
                minutes=minutes,
                evaluate_every=10_000,
                out=str(out),
                **options,
            )
            loss = trained.loss if trained.loss is not None else float("inf")
            line = {
                "family": family,
                "options": options,
                "loss": loss,
                "steps": trained.steps,
                "tokens_per_second": trained.tokens / trained.seconds,
                "wall": time.time() - began,
            }
            with record.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{family:12} {loss:.4f} {trained.steps:6} steps  {options}", flush=True)
            best = min(best, (loss, options), key=lambda item: item[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--minutes", type=float, default=0.3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts = _split(Path(folder) / "text", ())
        for family in options.families:
            tune(family, options.minutes, parts, options.out, Path(folder))


if __name__ == "__main__":
    main()
