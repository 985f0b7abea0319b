"""Word embeddings beside gensim, interleaved on one core: speed, and agreement with people's judgements.

    python bench/embeddings.py --data ../shared/data                     (20 epochs, twice: about 8 minutes)
    python bench/embeddings.py --data ../shared/data --epochs 2 --repeats 1 --cbow

Both read wikitext-2 in lower case, words seen 5 times or more, 100 wide, window 5, 5 negative samples. Words
are those of the text, left-out words included, and seconds those of the training loop: tokenising and
counting words stand before it. Both are asked by the same code: gensim's vectors go through a word2vec file.
One-hot reconstruction stands beside them, with the 10,000 words of the lectures.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from gensim.models import Word2Vec

import regard

WIDTH, WINDOW, NEGATIVES, CUTOFF = 100, 5, 5, 5


class Clock:
    """Wall-clock seconds, and processor seconds of all threads."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"wall": time.perf_counter() - self.wall, "cpu": time.process_time() - self.processor}


def ours(text: Path, out: Path, kind: str, epochs: float, seed: int, **more) -> dict[str, float]:
    began: list[Clock] = []

    def first_report(report) -> None:
        began.append(Clock()) if not began else None

    trained = regard.train(
        "embedding",
        text=str(text),
        hold=0.0,
        kind=kind,
        **{"cutoff": CUTOFF, **more},
        width=WIDTH,
        window=WINDOW,
        negatives=NEGATIVES,
        document="line",
        epochs=epochs,
        seed=seed,
        out=str(out),
        listener=first_report,
    )
    return {"words": trained.tokens, **began[0].read()}  # the run folder is written in this time as well


def theirs(text: Path, out: Path, kind: str, epochs: int, seed: int) -> dict[str, float]:
    sentences = [line.split() for line in text.read_text().splitlines()]
    model = Word2Vec(
        vector_size=WIDTH,
        window=WINDOW,
        negative=NEGATIVES,
        sg=int(kind == "skip-gram"),
        min_count=CUTOFF,
        workers=1,
        seed=seed,
    )
    model.build_vocab(sentences)
    words = sum(model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key)
    clock = Clock()
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    seconds = clock.read()
    model.wv.save_word2vec_format(str(out), binary=True)
    return {"words": words * epochs, **seconds}


def figures(run: Path, lists: list[Path]) -> dict[str, str]:
    found = {}
    for path in lists:
        one = regard.words(run, similarity=path).similarities[0]
        found[path.stem] = f"{one.spearman:.3f} ({one.low:.3f} to {one.high:.3f}; {one.pairs} pairs)"
    return found


def show(name: str, seconds: dict[str, float], found: dict[str, str]) -> None:
    speeds = {kind: round(seconds["words"] / seconds[kind]) for kind in ("wall", "cpu")}
    print(json.dumps({"run": name, "words a second": speeds, **found}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one-hot", type=int, default=20, help="epochs of one-hot reconstruction")
    parser.add_argument("--cbow", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lists = sorted((options.data / "wordsim").glob("*.txt"))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        text = work / "text.txt"
        text.write_text((options.data / "wikitext-2" / "train.txt").read_text().lower())
        for kind in ("skip-gram", *(["cbow"] if options.cbow else [])):
            for seed in range(1, options.repeats + 1):
                out = work / f"{kind}-{seed}"
                show(f"regard {kind}", ours(text, out, kind, options.epochs, seed), figures(out, lists))
                out = work / f"{kind}-{seed}.bin"
                show(f"gensim {kind}", theirs(text, out, kind, options.epochs, seed), figures(out, lists))
        for loss in ("cross-entropy", "l2"):
            out = work / f"one-hot-{loss}"
            show(
                f"one-hot {loss}",
                ours(text, out, "one-hot", options.one_hot, 1, loss=loss, cutoff=14),
                figures(out, lists),
            )


if __name__ == "__main__":
    main()
