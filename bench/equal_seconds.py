"""The losses after equal seconds of two recipes of a Transformer: our defaults, and nanoGPT's choices.

    OMP_NUM_THREADS=1 python bench/equal_seconds.py --text ../shared/data/tinyshakespeare/input.txt

Our defaults train with Muon, rotary positions and dropout. nanoGPT's choices are AdamW, learned positions and
no dropout, in batches of 12. The runs of one seed follow each other. Measure on an idle machine.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import regard

RECIPES: dict[str, dict[str, Any]] = {
    "our defaults": {},
    "AdamW, learned positions": {
        "optimiser": "adamw",
        "learning_rate": 1e-3,
        "floor": 0.1,
        "positions": "learned",
        "activation": "gelu",
        "dropout": 0.0,
        "batch": 12,
    },
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", required=True)
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    losses = {name: list[float]() for name in RECIPES}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, options.seeds + 1):
            for name, recipe in RECIPES.items():
                out = str(Path(folder) / f"{name} {seed}")
                common = {"tokens": "char", "layers": 4, "context": 64, "minutes": options.minutes}
                trained = regard.train(
                    "transformer", text=options.text, out=out, seed=seed, precision="fp32", **common, **recipe
                )
                assert trained.loss is not None
                losses[name].append(trained.loss)
                print(f"seed {seed}, {name}: {trained.loss:.4f} nats", flush=True)
    for name, reached in losses.items():
        print(f"{name}: mean {statistics.mean(reached):.4f}, {min(reached):.4f} to {max(reached):.4f}")


if __name__ == "__main__":
    main()
