"""An LSTM on wikitext-2 beside pytorch/examples' word_language_model: words a second, and what it learns.

    python bench/word_language_model.py --examples PATH --data ../shared/data/wikitext-2 [--only speed
    learning] [--epochs 20]

speed: its default sizes (2 layers, width 200, dropout 0.2, untied, batch 20, segments of 35 words, 33,278
    words), interleaved, both in fp32 and both in bf16 (autocast).
learning: a tenth of the text, so that a CPU can finish: valid.txt is learned, the first half of test.txt
    chooses the best weights, the
second half is measured; words seen fewer than three times are <unk> in all of them. 2 layers of 200, tied,
dropout 0.5, equal epochs. The peer is given as a checkout, not a dependency.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch

import regard
from regard.machine.memory import keep_freed_memory
from regard.machine.timing import Work, interleaved
from regard.models.recurrent import Lstm
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.schedule import Corpus, LaneSchedule
from regard.training.optimisers import make_optimisers
from regard.training.options import TrainingOptions
from regard.training.task import Step

PASSES, STEPS = 5, 12
BATCH, SEGMENT = 20, 35


def their_step(ids: torch.Tensor, size: int, bf16: bool) -> Callable[[], None]:
    from model import RNNModel

    peer = RNNModel("LSTM", size, 200, 200, 2, 0.2, False).train()
    data = ids[: len(ids) // BATCH * BATCH].view(BATCH, -1).t().contiguous()
    state = {"hidden": peer.init_hidden(BATCH), "place": 0}

    def one() -> None:  # as in its main.py: plain gradient descent at rate 20, norm 0.25
        place = state["place"]
        x, y = data[place : place + SEGMENT], data[place + 1 : place + 1 + SEGMENT].reshape(-1)
        peer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            output, hidden = peer(x, tuple(part.detach() for part in state["hidden"]))
            loss = torch.nn.functional.nll_loss(output, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 0.25)
        for parameter in peer.parameters():
            parameter.data.add_(parameter.grad, alpha=-20)
        loss.item()
        state.update(hidden=hidden, place=place + SEGMENT)

    return one


def our_step(tokenizer, text, bf16: bool) -> Callable[[], None]:
    model = Lstm(tokenizer.size, Lstm.Config(layers=2, width=200, dropout=0.2, tied=False)).train()
    optimiser = make_optimisers(model, TrainingOptions())[0]
    corpus, schedule = (
        Corpus.of(text, tokenizer.start, torch.device("cpu")),
        LaneSchedule(text, SEGMENT, BATCH, seed=1),
    )
    step, memory = Step(model), {"state": None, "place": 0}

    def one() -> None:
        place_BT, _ = schedule.places(0, memory["place"])
        tokens_BT, targets_BT = corpus.rows(place_BT, tokenizer.padding)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss, state = step(tokens_BT, targets_BT, memory["state"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        loss.item()
        memory.update(state=state, place=memory["place"] + 1)

    return one


def speed(options: argparse.Namespace) -> None:
    sys.path.insert(0, str(options.examples / "word_language_model"))
    tokenizer, text = train_tokenizer([(options.data / "train.txt").read_text()], TokenOptions(tokens="word"))
    ways = {
        f"{name}, {'bf16' if bf16 else 'fp32'}": training(step, name == "ours")
        for bf16 in (False, True)
        for name, step in (
            ("pytorch/examples", their_step(text.ids_N.long(), tokenizer.size, bf16)),
            ("ours", our_step(tokenizer, text, bf16)),
        )
    }
    speeds = interleaved(ways, PASSES)
    for name in ways:
        spread, ratio = speeds.spread(name), speeds.ratio(name, name.replace("ours", "pytorch/examples"))
        print(
            f"{name}: {spread.median:,.0f} [{spread.low:,.0f}-{spread.high:,.0f}] words/s, "
            f"{ratio.median:.2f} times the peer"
        )


def training(step: Callable[[], None], ours: bool) -> Work:
    """A pass of some steps. Ours keeps freed memory, as its trainer does."""

    def work() -> float:
        with keep_freed_memory() if ours else nullcontext():
            for _ in range(STEPS):
                step()
        return STEPS * BATCH * SEGMENT

    return work


def small_text(data: Path, folder: Path) -> int:
    """Write train.txt, valid.txt and test.txt there; how many words the first has."""
    lines = {name: (data / f"{name}.txt").read_text().splitlines() for name in ("valid", "test")}
    half = len(lines["test"]) // 2
    parts = {"train": lines["valid"], "valid": lines["test"][:half], "test": lines["test"][half:]}
    seen = Counter(word for line in parts["train"] for word in line.split())
    for name, part in parts.items():
        known = (" ".join(word if seen[word] > 2 else "<unk>" for word in line.split()) for line in part)
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in known))
    return sum(seen.values()) + len(parts["train"])


SGD = {"optimiser": "sgd", "learning_rate": 20.0, "clip": 0.25, "weight_decay": 0.0}
TRAININGS: dict[str, dict] = {
    "sgd": SGD,
    "sgd, weight dropout 0.5": {**SGD, "weight_dropout": 0.5},
    "sgd, weight dropout 0.5, the last eight validations averaged": {
        **SGD,
        "weight_dropout": 0.5,
        "average": 8,
    },
    "adamw 0.005": {"learning_rate": 0.005, "weight_decay": 0.02},
    "adamw 0.002": {"learning_rate": 0.002, "weight_decay": 0.02},
}


def learning(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        epoch = small_text(options.data, folder) // (BATCH * SEGMENT) + 1
        theirs = [
            sys.executable,
            "main.py",
            "--data",
            work,
            "--tied",
            "--dropout",
            "0.5",
            "--save",
            f"{work}/peer.pt",
        ]
        began = time.perf_counter()
        told = subprocess.run(
            [*theirs, "--epochs", str(options.epochs)],
            cwd=options.examples / "word_language_model",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        print(
            f"pytorch/examples: test perplexity {re.findall(r'test ppl +([0-9.]+)', told)[-1]}, "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )
        texts = {
            name: str(folder / f"{file}.txt")
            for name, file in {"text": "train", "valid": "valid", "test": "test"}.items()
        }
        for name, more in TRAININGS.items():
            trained = regard.train(
                "lstm",
                **texts,
                tokens="word",
                layers=2,
                width=200,
                dropout=0.5,
                batch=BATCH,
                segment=SEGMENT,
                steps=options.epochs * epoch,
                evaluate_every=epoch,
                out=f"{work}/{name}",
                **more,
            )
            plain, cached = regard.evaluate(trained.run), regard.evaluate(regard.cached(trained.run, 2000))
            figures = f"test perplexity {plain.perplexity:.2f}, with a cache of 2,000 {cached.perplexity:.2f}"
            print(f"ours, {name}: {figures}, {trained.seconds:.0f} s ({plain.tokens:,} tokens)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=["speed", "learning"], default=["speed", "learning"])
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    for part in options.only:
        {"speed": speed, "learning": learning}[part](options)


if __name__ == "__main__":
    main()
