"""Families at published strength on one GPU: each named training in a process of its own, several at a time.

    PYTHONPATH=src python3 bench/gpu_families.py --data carry --runs runs.json --out $OUT [--at-once 8]

runs.json holds {name: {"recipe": NAME or "family": FAMILY, options of `regard train`, "cache": size of a neural cache}}.
Prints one JSON line a training: validation loss, test loss and perplexity, the same with a neural cache, steps, seconds, tokens/s.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from regard.runs.recipes import find_recipe

import regard
from regard.models import TRANSLATORS


def one(name: str, wanted: dict, data: Path) -> None:
    cache = wanted.pop("cache", None)
    recipe = wanted.pop("recipe", None)
    family = find_recipe(recipe).family if recipe else wanted.pop("family")
    began, shown = time.time(), [0.0]

    def listener(report) -> None:
        if time.time() - shown[0] > 15:
            shown[0] = time.time()
            speed = f"{report.tokens_per_second:,.0f} tokens/s, valid {report.valid_loss}"
            print(
                f"{name} {report.step} {time.time() - began:.0f} s loss {report.loss:.4f} {speed}", flush=True
            )

    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/run"
        texts = {
            part: str(data / wanted.pop(part))
            for part in ("text", "valid", "test", "pairs")
            if part in wanted
        }
        if recipe:
            trained = regard.train_recipe(recipe, data, out=out, listener=listener, **texts, **wanted)
        else:
            trained = regard.train(family, out=out, listener=listener, **texts, **wanted)
        result = {
            "name": name,
            "family": family,
            "recipe": recipe,
            **wanted,
            "parameters": trained.run.model.parameter_count(),
            "valid": trained.loss,
        }
        result |= {
            "steps": trained.steps,
            "seconds": trained.seconds,
            "tokens_per_second": trained.tokens / trained.seconds,
        }
        if trained.run.config["texts"]["test"]:
            measured = regard.evaluate(trained.run)
            result |= {"loss": measured.loss, "perplexity": measured.perplexity, "tokens": measured.tokens}
        if cache:
            measured = regard.evaluate(regard.cached(trained.run, cache))
            result |= {"cached_perplexity": measured.perplexity, "cache": measured.protocol.cache}
        curve = [json.loads(line) for line in Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
        result["curve"] = [
            (row["step"], round(row["train_loss"], 3), round(row["valid_loss"], 3)) for row in curve
        ][:: max(1, len(curve) // 12)]
        result |= trained.more
        if family in TRANSLATORS:
            measured = regard.evaluate_translations(trained.run)
            result |= {
                "bleu": measured.bleu,
                "chrf": measured.chrf,
                "sentences": measured.sentences,
                "decoding_seconds": measured.seconds,
            }
        else:
            result["sample"] = regard.generate(trained.run, length=60)[0]
        print("RESULT " + json.dumps(result), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--only")
    options = parser.parse_args()
    wanted = json.loads(options.runs.read_text())
    if options.only:
        one(options.only, wanted[options.only], options.data)
        return
    left, running = list(wanted), dict[str, subprocess.Popen]()
    while left or running:
        while left and len(running) < options.at_once:
            name = left.pop(0)
            with (options.out / f"{name}.log").open("w") as log:
                command = [sys.executable, __file__, *sys.argv[1:], "--only", name]
                running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                lines = (options.out / f"{name}.log").read_text().splitlines()
                print(
                    next(
                        (line for line in lines if line.startswith("RESULT")), f"{name} failed: {lines[-1:]}"
                    ),
                    flush=True,
                )
        time.sleep(0.2)


if __name__ == "__main__":
    main()
