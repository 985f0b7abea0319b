"""Which options of a Transformer earn their place: the same training with one of them changed, several seeds
each.

    python bench/options.py --text ../shared/data/tinyshakespeare/input.txt [--steps 1000] [--seeds 2] [--only
    base key-value-heads-1]

Characters, at nanoGPT's small size (4 layers of 128, context 64), everything else by default. Prints one JSON
line a training: validation loss, parameters, tokens/s, and of the trained model the tokens/s of generating
and the bytes its state holds a token.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

import regard
from regard.probabilities.decoder import Writing, generate

VARIANTS: dict[str, dict] = {
    "base": {},
    "query-key-norm": {"query_key_norm": True},
    "query-key-norm-fast": {"query_key_norm": True, "learning_rate": 0.04},
    "base-fast": {"learning_rate": 0.04},
    "key-value-heads-2": {"key_value_heads": 2},
    "key-value-heads-1": {"key_value_heads": 1},
}


def generating(run: regard.Run, rows: int = 16, length: int = 60) -> tuple[float, int]:
    """(tokens/s, bytes of state a token)."""
    times, model = [], run.language_model
    for _ in range(5):
        began = time.perf_counter()
        for _ in generate(model, model.begin(rows), [[model.start]] * rows, Writing(length=length, end=None)):
            pass
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times[1:])
    with torch.inference_mode():
        _, state = model.read_from_start(torch.full((1, model.context), model.start))
    held = sum(tensor.nbytes for tensor in state.tensors())
    return rows * length / seconds, held // model.context


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    options = parser.parse_args()
    for seed in range(1, options.seeds + 1):
        for name in options.only:
            with tempfile.TemporaryDirectory() as work:
                trained = regard.train(
                    "transformer",
                    text=str(options.text),
                    tokens="char",
                    layers=4,
                    width=128,
                    heads=4,
                    context=64,
                    dropout=0.0,
                    steps=options.steps,
                    evaluate_every=options.steps,
                    seed=seed,
                    out=f"{work}/run",
                    **VARIANTS[name],
                )
                speed, held = generating(trained.run)
                row = {
                    "option": name,
                    "seed": seed,
                    "loss": round(trained.loss, 4),
                    "parameters": trained.run.model.parameter_count(),
                }
                row |= {
                    "trained": round(trained.tokens / trained.seconds),
                    "generated": round(speed),
                    "state_bytes": held,
                }
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
