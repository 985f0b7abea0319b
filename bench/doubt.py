"""Make the pictures and figures of docs/doubt.md: sheets, head labels, a film, senses, forgetting, controls.

    python bench/doubt.py --wikitext ../shared/data/wikitext-2 [--out docs] [--work /tmp/bench-doubt]
        [--only train sheet say heads film senses forget controls time regions]

The part `train` trains every model with a seed and a number of steps, so that the figures can be made again,
and skips models that are trained. The other parts print the commands, what they print, and write the pictures
doubt-*. Without wikitext, the models learn from the built-in text. The part `time` measures the seconds
of one sheet; run it on a quiet machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import regard
from regard.inside.moved_attention import attention_rows, moved_attention
from regard.inside.subject import label_subject
from regard.runs.labelled import own_labelled, require_labeller

FORGETTING = ("rnn", "lstm", "gru", "attentive", "transformer", "backpack", "dan", "window", "ngram")
TEXT = "The game was released in the United States by the"
LONG = (
    "The game was released in the United States by the company in the early 1990s . It was the first of the "
    "series to be released in Japan . The album was released on the same day in the United Kingdom , and it "
    "was the most successful of the three . In the first week of its release , it was the second song"
)
REVIEW = "the acting was good but the plot was terribly boring"
HELD = 120_000  # characters of the validation text, which is enough to choose the best step
PARTS = ("train", "sheet", "say", "heads", "film", "senses", "forget", "controls", "time", "regions")


def models(wikitext: Path | None, work: Path) -> dict[str, tuple[str, dict[str, object]]]:
    """Return the family and the options of each model, by the name of its run."""
    text = _texts(wikitext, work)
    frequent = {**text, "tokens": "word", "cutoff": 30}
    wide = {"context": 512, "batch": 4}
    forgetting = {
        f"far-{family}": (
            family,
            {**frequent, "steps": 250}
            | (wide if family in ("transformer", "backpack") else {})
            | ({"lookback": 512} if family == "attentive" else {}),
        )
        for family in FORGETTING
    }
    forgetting["far-ngram"] = ("ngram", frequent)
    filmed = {"film": True, "steps": 600, "evaluate_every": 60}
    return {
        "attentive": ("attentive", {**frequent, "steps": 500, "lookback": 512}),
        "transformer-4": ("transformer", {**frequent, **filmed, "layers": 4, "context": 128}),
        "transformer-translator": (
            "transformer-translator",
            {"film": True, "steps": 400, "evaluate_every": 40},
        ),
        "backpack-senses": ("backpack", {**text, "tokens": "word", "cutoff": 10, "senses": 8, "steps": 500}),
        "classifier": (
            "classifier",
            {"encoder": "bilstm", "pool": "attention", "steps": 300, "evaluate_every": 50},
        ),
        "captioner": ("captioner", {}),
        **forgetting,
    }


def _texts(wikitext: Path | None, work: Path) -> dict[str, object]:
    if wikitext is None:
        return {}
    held = work / "valid.txt"
    held.write_text((wikitext / "valid.txt").read_text("utf-8")[:HELD], "utf-8")
    return {"text": str(wikitext / "train.txt"), "valid": str(held)}


def train(work: Path, wikitext: Path | None) -> None:
    for name, (family, options) in models(wikitext, work).items():
        if not (work / name / "config.json").exists():
            trained = regard.train(family, out=str(work / name), **options)
            print(
                f"{name}: {trained.steps} steps, {trained.seconds:.0f} s, loss {trained.loss:.3f}", flush=True
            )


def shown(work: Path, *arguments: object) -> float:
    """Run a verb in the folder of the runs, print what it prints, and return its seconds."""
    command = [str(argument) for argument in arguments]
    print(f"\n$ regard {' '.join(command)}", flush=True)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "regard", *command], cwd=work, env=os.environ, check=True)
    return time.perf_counter() - began


def sheet(work: Path, out: Path) -> None:
    """A classifier with attention pooling, a language model with one attention, and one with four layers."""
    shown(work, "doubt", "classifier", "--text", REVIEW, "--out", out / "doubt-classifier.svg")
    reviews(work)
    for run in ("attentive", "transformer-4"):
        shown(work, "doubt", run, "--text", TEXT, "--out", out / f"doubt-{run}.svg")


def regions(work: Path, out: Path) -> None:
    """A captioner: the regions of a scene that training never saw, for one word of its caption."""
    if not (work / "scenes").exists():
        shown(work, "scenes", "scenes", "--unseen")
    image = ("--image", "scenes/03.png")
    shown(work, "caption", "captioner", image[1])
    shown(work, "doubt", "captioner", *image, "--text", "a blue", "--out", out / "doubt-captioner.png")


def reviews(work: Path) -> None:
    """Move the attention of the classifier on held-out reviews; print the medians."""
    run = regard.load(work / "classifier")
    model, texts = require_labeller(run).eval(), own_labelled(run).texts[:20]
    subjects = [label_subject(model, run.tokenizer, run.config.labels, text) for text in texts]
    began = time.perf_counter()
    moved = [moved_attention(one, attention_rows(one), 0.01)[0] for one in subjects]
    seconds = time.perf_counter() - began
    for name in ("divergence", "most", "variation", "entropy"):
        print(f"median {name}: {statistics.median(getattr(one, name) for one in moved):.3f}")
    print(f"{len(moved)} reviews in {seconds:.1f} s")


def say(work: Path, out: Path) -> None:
    """The least change that makes the model say another word, replayed."""
    for word in ("first", "album"):
        shown(work, "doubt", "transformer-4", "--text", TEXT, "--say", word, "--save-edit", f"{word}.json")
        if (work / f"{word}.json").exists():
            shown(work, "look", "transformer-4", "--text", TEXT, "--edit", f"{word}.json", "--rows", "-1")


def heads(work: Path, out: Path) -> None:
    shown(work, "heads", "transformer-4", "--out", out / "doubt-heads.svg")
    shown(work, "heads", "transformer-translator", "--out", out / "doubt-heads-translator.svg")


def film(work: Path, out: Path) -> None:
    shown(work, "film", "transformer-4", "--out", out / "doubt-film.png")
    shown(work, "film", "transformer-translator", "--out", out / "doubt-film-translator.png")


def senses(work: Path, out: Path) -> None:
    shown(work, "senses", "backpack-senses", "king", "rock", "born", "--out", out / "doubt-senses.svg")


def forget(work: Path, out: Path) -> None:
    runs = [f"far-{family}" for family in FORGETTING]
    shown(work, "forget", *runs, "--out", out / "doubt-forgetting.svg")


def controls(work: Path, out: Path) -> None:
    shown(work, "doubt", "attentive", "--text", TEXT, "--controls", "--minutes", "2")
    shown(work, "doubt", "classifier", "--text", REVIEW, "--controls", "--minutes", "2")


def timed(work: Path, out: Path) -> None:
    words = " ".join(LONG.split()[:64])
    seconds = shown(work, "doubt", "transformer-4", "--text", words)
    print(f"a sheet of 64 words and 4 layers: {seconds:.1f} s, start of the program included")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--work", type=Path, default=Path("/tmp/bench-doubt"))
    parser.add_argument("--wikitext", type=Path)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    every = {"sheet": sheet, "say": say, "heads": heads, "film": film, "senses": senses, "forget": forget}
    every |= {"controls": controls, "time": timed, "regions": regions}
    if "train" in options.only:
        train(options.work, options.wikitext)
    for part in options.only:
        if part in every:
            every[part](options.work, options.out.resolve())


if __name__ == "__main__":
    main()
