"""A character Transformer of nanoGPT's size on one GPU: tinyshakespeare, 6 layers, 6 heads, width 384,
context 256.

    PYTHONPATH=src python3 bench/gpu_transformer.py --text carry/input.txt [--minutes 3]

Published: 1.4697 nats on the last tenth (nanoGPT). Measured on all of it, in windows of one context without
    overlap.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

import regard
from regard.probabilities.decoder import Writing, generate


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--learning-rate", type=float, default=0.003)
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__)
    whole = options.text.read_text()
    cut = int(0.9 * len(whole))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "train.txt").write_text(whole[:cut])
        (work / "valid.txt").write_text(whole[cut:])
        shown = [0.0]

        def listener(report) -> None:
            if time.monotonic() - shown[0] > 15:
                shown[0] = time.monotonic()
                print(
                    f"  {report.step} loss {report.loss:.4f} best {report.valid_loss} "
                    f"{report.tokens_per_second:,.0f} tokens/s",
                    flush=True,
                )

        trained = regard.train(
            "transformer",
            text=str(work / "train.txt"),
            valid=str(work / "valid.txt"),
            tokens="char",
            out=str(work / "run"),
            layers=6,
            heads=6,
            width=384,
            context=256,
            batch=64,
            dropout=options.dropout,
            learning_rate=options.learning_rate,
            minutes=options.minutes,
            evaluate_every=250,
            listener=listener,
        )
        speed = trained.tokens / trained.seconds
        print(f"validation loss {trained.loss:.4f} after {trained.steps} steps, {speed:,.0f} tokens/s")
        for line in (work / "run" / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            print(f"  step {row['step']} train {row['train_loss']:.4f} valid {row['valid_loss']:.4f}")
        model = trained.run.language_model.cuda()
        writing = Writing(length=200, end=None)
        for batch in (1, 32):
            prompts = [[trained.run.tokenizer.start]] * batch
            for _ in range(2):
                began = time.perf_counter()
                written = sum(1 for _ in generate(model, model.begin(batch), prompts, writing))
                rate = batch * written / (time.perf_counter() - began)
            print(f"generating at batch {batch}: {rate:,.0f} tokens/s")
        print(regard.generate(trained.run, prompt="ROMEO:", length=300)[0])


if __name__ == "__main__":
    main()
