"""A small character Transformer beside nanoGPT on a CPU: loss, training speed, generating speed (Hugging Face
beside it).

    python bench/nanogpt.py --nanogpt PATH --text ../shared/data/tinyshakespeare/input.txt [--parts loss speed
    generate]

nanoGPT's small recipe: 4 layers, 4 heads, width 128, context 64, batch 12, 2,000 steps, learning rate 1e-3.
Both are measured on the whole validation split in windows of one context without overlap, by our code.
nanoGPT is a peer and not a dependency: give a checkout of it.
"""

import argparse
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard.machine.memory import keep_freed_memory
from regard.machine.timing import Work, interleaved
from regard.models.contract import LanguageModel, Parts, Prediction, State
from regard.models.transformer import Transformer
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.measures import token_losses
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.schedule import Corpus, WindowSchedule
from regard.training.optimisers import make_optimisers
from regard.training.options import TrainingOptions
from regard.training.task import Step

PASSES, STEPS = 5, 60


class Table(Prediction):
    def __init__(self, log_probs_BTV: torch.Tensor):
        self._log_probs_BTV = log_probs_BTV

    def log_probs(self) -> torch.Tensor:
        return self._log_probs_BTV

    def at(self, positions_BK: torch.Tensor) -> "Table":
        raise AssertionError("not needed")

    def parts(self, targets_BT: torch.Tensor) -> Parts:
        raise AssertionError("not needed")


@dataclass(frozen=True)
class Nothing(State):
    """nanoGPT has no cache, so it remembers nothing between calls."""


class NanoGPT(LanguageModel):
    """nanoGPT's model behind our contract, for measuring only: our ids are its ids plus two."""

    family = "nanogpt"
    context = 64

    def __init__(self, size: int, peer: Any):
        super().__init__(size, None)
        self.peer = peer

    def begin(self, given, look=None) -> Nothing:
        return Nothing(torch.zeros(int(given), dtype=torch.long))

    def forward(self, tokens_BT, state, look=None, padded="anywhere"):
        ids_BT = torch.where(tokens_BT < self.vocabulary_size, tokens_BT - 2, 0).clamp(min=0)
        logits, _ = self.peer(ids_BT, ids_BT)
        return Table(torch.nn.functional.pad(logits.log_softmax(2), (2, 0), value=-1e9)), state


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} [{min(values):,.0f}-{max(values):,.0f}]"


def prepare(text: Path, nanogpt: Path, work: Path) -> None:
    whole = text.read_text()
    cut = int(0.9 * len(whole))
    letters = sorted(set(whole))
    number = {letter: place for place, letter in enumerate(letters)}
    folder = nanogpt / "data" / "regard_bench"
    folder.mkdir(exist_ok=True)
    for name, part in (("train", whole[:cut]), ("val", whole[cut:])):
        np.array([number[letter] for letter in part], dtype=np.uint16).tofile(folder / f"{name}.bin")
        (work / f"{name}.txt").write_text(part)
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": len(letters)}))


def losses(nanogpt: Path, work: Path) -> None:
    out = work / "nano"
    size = "--block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128"
    length = "--max_iters=2000 --lr_decay_iters=2000 --dropout=0.0"
    machine = "--dataset=regard_bench --device=cpu --compile=False --eval_iters=20"
    command = f"train.py config/train_shakespeare_char.py {machine} {size} {length}"
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *command.split(), f"--out_dir={out}"],
        cwd=nanogpt,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    print(f"nanoGPT, 2,000 steps: {time.perf_counter() - began:.0f} s", flush=True)
    from model import GPT, GPTConfig

    saved = torch.load(out / "ckpt.pt", map_location="cpu", weights_only=False)
    peer = GPT(GPTConfig(**saved["model_args"]))
    peer.load_state_dict(saved["model"])
    tokenizer, _ = train_tokenizer([(work / "train.txt").read_text()], TokenOptions(tokens="char"))
    valid = tokenizer.encode((work / "val.txt").read_text())
    theirs = token_losses(NanoGPT(tokenizer.size, peer.eval()), valid)[
        1:-1
    ]  # its vocabulary has no start and no end
    print(f"  validation loss {float(theirs.mean()):.4f}", flush=True)
    texts = {"text": str(work / "train.txt"), "valid": str(work / "val.txt"), "tokens": "char"}
    recipe = {
        "layers": 4,
        "batch": 12,
        "steps": 2000,
        "learning_rate": 1e-3,
        "positions": "learned",
        "activation": "gelu",
        "compile": "on",
        "evaluate_every": 500,
        "optimiser": "adamw",
        "floor": 0.1,
        "dropout": 0.0,
    }
    for name, options in {
        "ours, the same recipe": recipe,
        "ours, the same recipe, rotary positions": {**recipe, "positions": "rotary"},
        "ours, defaults, 104 s": {"layers": 4, "minutes": 104 / 60, "compile": "on", "dropout": 0.0},
    }.items():
        trained = regard.train("transformer", **texts, out=str(work / name), **options)
        ours = token_losses(trained.run.language_model, valid)[1:-1]
        print(
            f"{name}: {trained.steps} steps, {trained.seconds:.0f} s, "
            f"validation loss {float(ours.mean()):.4f}",
            flush=True,
        )


def speed(nanogpt: Path, work: Path) -> None:
    """Tokens a second in the training loop, interleaved. A peer stands beside ours at the same precision."""
    ways = {
        f"{name}, {'bf16' if bf16 else 'fp32'}": training(make(bf16), name == "ours")
        for bf16 in (False, True)
        for name, make in (
            ("nanoGPT", lambda bf16: their_step(nanogpt, bf16)),
            ("ours", lambda bf16: our_step(work, bf16)),
        )
    }
    speeds = interleaved(ways, PASSES)
    for name in ways:
        ratio = speeds.ratio(name, name.replace("ours", "nanoGPT"))
        print(f"training, {name}: {shown(speeds.passes[name])} tokens/s, {ratio.median:.2f} times nanoGPT")


def training(step: Callable[[], None], ours: bool) -> Work:
    """A pass of some steps. Ours keeps freed memory, as its trainer does."""

    def work() -> float:
        with keep_freed_memory() if ours else nullcontext():
            for _ in range(STEPS):
                step()
        return STEPS * 12 * 64

    return work


def their_step(nanogpt: Path, bf16: bool):
    """A step of nanoGPT's train.py."""
    from model import GPT, GPTConfig

    data = np.memmap(nanogpt / "data" / "regard_bench" / "train.bin", dtype=np.uint16, mode="r")
    peer = GPT(
        GPTConfig(block_size=64, vocab_size=65, n_layer=4, n_head=4, n_embd=128, dropout=0.0, bias=False)
    )
    optimiser = peer.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu")

    def step() -> None:
        places = torch.randint(len(data) - 64, (12,))
        x, y = (
            torch.stack([torch.from_numpy(data[i + s : i + s + 64].astype(np.int64)) for i in places])
            for s in (0, 1)
        )
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            _, loss = peer(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        loss.item()

    return step


def our_step(work: Path, bf16: bool):
    tokenizer, text = train_tokenizer([(work / "train.txt").read_text()], TokenOptions(tokens="char"))
    model = Transformer(
        tokenizer.size, Transformer.Config(layers=4, positions="learned", activation="gelu")
    ).train()
    options = TrainingOptions(optimiser="adamw")
    (optimiser,) = make_optimisers(model, options)
    corpus, schedule = (
        Corpus.of(text, tokenizer.start, torch.device("cpu")),
        WindowSchedule(text, 64, 12, seed=1),
    )
    step, place = Step(model), [0]

    def one() -> None:
        tokens_BT, targets_BT = corpus.rows(schedule.places(0, place[0])[0], tokenizer.padding)
        place[0] += 1
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss, _ = step(tokens_BT, targets_BT, None)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        loss.item()

    return one


def generating(nanogpt: Path) -> None:
    from model import GPT, GPTConfig
    from transformers import GPT2Config, GPT2LMHeadModel

    peer = GPT(
        GPTConfig(block_size=64, vocab_size=65, n_layer=4, n_head=4, n_embd=128, dropout=0.0, bias=False)
    ).eval()
    face = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=65, n_positions=512, n_embd=128, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=None
        )
    ).eval()
    ours = Transformer(67, Transformer.Config(layers=4)).eval()
    rates: dict[tuple[str, int], list[float]] = {}
    for number in range(PASSES + 1):
        for batch in (1, 16):
            prompt = torch.zeros(batch, 1, dtype=torch.long)
            runs = {
                "nanoGPT": lambda prompt=prompt: peer.generate(prompt, 500),
                "Hugging Face": lambda prompt=prompt: face.generate(
                    prompt,
                    max_new_tokens=500,
                    do_sample=True,
                    top_k=0,
                    pad_token_id=0,
                    attention_mask=torch.ones_like(prompt),
                ),
                "ours": lambda batch=batch: list(
                    generate(ours, ours.begin(batch), [[67]] * batch, Writing(length=500, end=None))
                ),
            }
            for name, run in runs.items():
                began = time.perf_counter()
                with torch.no_grad():
                    run()
                if number:  # the first pass warms up
                    rates.setdefault((name, batch), []).append(500 * batch / (time.perf_counter() - began))
    for (name, batch), values in rates.items():
        print(f"generating 500 characters, batch {batch}, {name}: {shown(values)} tokens/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nanogpt", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", default=["speed", "generate", "loss"])
    options = parser.parse_args()
    sys.path.insert(0, str(options.nanogpt))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        prepare(options.text, options.nanogpt, work)
        if "speed" in options.parts:
            speed(options.nanogpt, work)
        if "generate" in options.parts:
            generating(options.nanogpt)
        if "loss" in options.parts:
            losses(options.nanogpt, work)


if __name__ == "__main__":
    main()
