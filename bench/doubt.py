"""Compute the figures of docs/doubt.md: sheets, head labels, senses of a Backpack, forgetting of each family.

    python bench/doubt.py --out docs [--minutes 2] [--wikitext ../shared/data/wikitext-2]
        [--only sheet heads senses forget controls]

Run it on a quiet machine. Every model is trained for --minutes on the built-in text (the Backpack on
wikitext-2, if it is given), in a folder under --work; models that are already trained there are used again.
The pictures doubt-*.svg go to --out, and the page's tables are printed.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import regard

FAMILIES = ["ngram", "dan", "window", "rnn", "lstm", "gru", "attentive", "transformer", "backpack"]
TEXT = "The value of the object is the name of the class that defines the method"
PARTS = ("sheet", "heads", "senses", "forget", "controls")


def train(work: Path, name: str, family: str, minutes: float, **options) -> str:
    """The folder of a trained run; a finished one is used again."""
    out = work / name
    if not (out / "config.json").exists():
        budget = {} if family == "ngram" else {"minutes": minutes}
        regard.train(family, out=str(out), **budget, **options)
    return str(out)


def shown(*arguments: object) -> float:
    """Run a verb, print what it prints, and return its seconds."""
    command = [str(argument) for argument in arguments]
    print(f"\n$ regard {' '.join(command)}", flush=True)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "regard", *command], check=True)
    return time.perf_counter() - began


def sheet(work: Path, out: Path, minutes: float, wikitext: Path | None) -> None:
    """A language model of one attention, and a Transformer of four layers on 64 tokens, which is timed."""
    attentive = train(work, "attentive", "attentive", minutes, tokens="word")
    shown("doubt", attentive, "--text", TEXT, "--out", out / "doubt-attentive.svg")
    deep = train(work, "transformer-4", "transformer", minutes, tokens="word", layers=4, context=128)
    shown("doubt", deep, "--text", TEXT, "--out", out / "doubt-transformer.svg")
    seconds = shown("doubt", deep, "--text", " ".join([TEXT] * 5).split(" ", 6)[-1])
    print(f"a sheet of 4 layers and about 64 words: {seconds:.1f} s, start of the program included")


def heads(work: Path, out: Path, minutes: float, wikitext: Path | None) -> None:
    deep = train(work, "transformer-4", "transformer", minutes, tokens="word", layers=4, context=128)
    shown("heads", deep, "--out", out / "doubt-heads.svg")
    translator = train(work, "transformer-translator", "transformer-translator", minutes)
    shown("heads", translator, "--out", out / "doubt-heads-translator.svg")


def senses(work: Path, out: Path, minutes: float, wikitext: Path | None) -> None:
    if wikitext is None:
        options, words, name = {}, ("function", "class"), "backpack"
    else:
        texts = {"text": str(wikitext / "train.txt"), "valid": str(wikitext / "valid.txt")}
        options, words, name = texts, ("apple", "rock", "king"), "backpack-wikitext-2"
    folder = train(work, name, "backpack", 5 * minutes, tokens="word", senses=8, width=128, **options)
    shown("senses", folder, *words, "--out", out / "doubt-senses.svg")


def forget(work: Path, out: Path, minutes: float, wikitext: Path | None) -> None:
    """All families, the windowed ones with a context of 512."""
    folders = []
    for family in FAMILIES:
        wide = {"context": 512, "batch": 4} if family in ("transformer", "backpack") else {}
        wide = {"lookback": 512} if family == "attentive" else wide
        folders.append(train(work, f"far-{family}", family, minutes, tokens="word", **wide))
    shown("forget", *folders, "--out", out / "doubt-forgetting.svg")


def controls(work: Path, out: Path, minutes: float, wikitext: Path | None) -> None:
    attentive = train(work, "attentive", "attentive", minutes, tokens="word")
    shown("doubt", attentive, "--text", TEXT, "--controls", "--minutes", 7 * minutes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--work", type=Path, default=Path("/tmp/bench-doubt"))
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--wikitext", type=Path)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    every = {"sheet": sheet, "heads": heads, "senses": senses, "forget": forget, "controls": controls}
    for part in options.only:
        every[part](options.work, options.out, options.minutes, options.wikitext)


if __name__ == "__main__":
    main()
