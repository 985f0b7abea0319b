"""Make the small trained runs that lessons show (src/regard/lessons/runs), each from its seed.

python bench/lesson_runs.py [NAME ...] [--out FOLDER]

A run is made again with: python bench/lesson_runs.py NAME (a minute or less).
"""

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from regard.models import family_class
from regard.models.contract import LanguageModel
from regard.runs.formats.folder import write_run
from regard.runs.run import NO_TEXTS, Run, describe
from regard.text import stories
from regard.tokens.choose import TokenOptions, train_tokenizer

STORIES, BATCH = 4000, 64
Objective = Callable[[LanguageModel, Tensor], Tensor]
NEXT_WORD = 0.05  # share of the loss of all words beside that of the last word


def next_words(model: LanguageModel, ids_BT: Tensor) -> Tensor:
    """The loss of the last word, and a small share of the loss of all others.

    Most words of a story are drawn at random. Their loss would drown that of the only word that can be known.
    """
    prediction, _ = model.read_from_start(ids_BT[:, :-1])
    nll_BT = prediction.nll(ids_BT[:, 1:])
    return nll_BT[:, -1].mean() + NEXT_WORD * nll_BT[:, :-1].mean()


def all_words(model: LanguageModel, ids_BT: Tensor) -> Tensor:
    prediction, _ = model.read_from_start(ids_BT[:, :-1])
    return prediction.nll(ids_BT[:, 1:]).mean()


def repeated_tokens(model: LanguageModel, ids_BT: Tensor) -> Tensor:
    """The loss of the tokens that stand earlier in their row, and a small share of the loss of all others."""
    targets_BT = torch.where(ids_BT[:, 1:] == model.padding, -1, ids_BT[:, 1:])
    prediction, _ = model.read_from_start(ids_BT[:, :-1])
    before_TT = torch.ones(targets_BT.shape[1], ids_BT.shape[1], dtype=torch.bool).tril()
    again_BT = ((targets_BT.unsqueeze(2) == ids_BT.unsqueeze(1)) & before_TT).any(2)
    weight_BT = torch.where(again_BT, 1.0, NEXT_WORD) * (targets_BT >= 0)
    return (prediction.nll(targets_BT) * weight_BT).sum() / weight_BT.sum()


def hidden_words(model: LanguageModel, ids_BT: Tensor) -> Tensor:
    """The loss of one word of each story, which is hidden behind the start mark."""
    words_BT = ids_BT[:, 1:]
    place_B1 = torch.randint(0, words_BT.shape[1], (len(words_BT), 1))
    place_B1[: len(place_B1) // 2] = 0  # the first word is the only one that the others decide
    targets_BT = torch.full_like(words_BT, -1).scatter(1, place_B1, words_BT.gather(1, place_B1))
    prediction, _ = model.read_from_start(words_BT.scatter(1, place_B1, model.start))
    return prediction.nll(targets_BT).sum() / len(words_BT)


@dataclasses.dataclass(frozen=True)
class Small:
    """A model that is trained on stories for a few seconds."""

    family: str
    story: str
    config: dict[str, Any]
    objective: Objective = next_words
    causal: bool = True
    seed: int = 1
    steps: int = 500
    learning_rate: float = 0.01
    tokens: dict[str, Any] = dataclasses.field(default_factory=lambda: {"tokens": "word"})

    def make(self) -> Run:
        lines = stories.lines(getattr(stories, self.story), STORIES, seed=1)
        tokenizer, _ = train_tokenizer(["\n".join(lines)], TokenOptions(**self.tokens, document="line"))
        torch.manual_seed(self.seed)
        kind = family_class(self.family)
        model = kind(tokenizer.size, kind.Config(**self.config))
        if not self.causal:
            model.trunk.causal = False
        rows = [[tokenizer.start, *tokenizer.prompt(line)] for line in lines]
        longest = max(map(len, rows))
        rows_NT = torch.tensor([row + [tokenizer.padding] * (longest - len(row)) for row in rows])
        optimiser = torch.optim.AdamW(model.parameters(), lr=self.learning_rate, weight_decay=0.01)
        rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, self.learning_rate, self.steps, pct_start=0.1)
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.steps):
            loss = self.objective(
                model, rows_NT[torch.randint(0, len(rows_NT), (BATCH,), generator=generator)]
            )
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            rate.step()
        print(f"last loss {float(loss):.4f}")
        notes = (f"stories of {self.story}; seed {self.seed}, {self.steps} steps; bench/lesson_runs.py",)
        notes += () if self.causal else ("trained without the causal mask",)
        return Run(model.eval(), tokenizer, describe(model, notes=notes, seed=self.seed, steps=self.steps))


@dataclasses.dataclass(frozen=True)
class Trained:
    """A model that `regard train` trains on a built-in text."""

    family: str
    options: dict[str, Any]

    def make(self) -> Run:
        with tempfile.TemporaryDirectory() as folder:
            trained = regard.train(self.family, out=f"{folder}/run", **self.options)
        print(f"loss {trained.loss}, {trained.figures}")
        notes = (f"built-in text; {self.options}; bench/lesson_runs.py",)
        config = dataclasses.replace(trained.run.config, texts=NO_TEXTS, training=None, notes=notes)
        return dataclasses.replace(trained.run, config=config)


WIDTH = {"width": 16, "dropout": 0.0}
STACK = {**WIDTH, "layers": 2, "heads": 1, "context": 16}
CHARACTERS = {"tokens": "char", "width": 32, "dropout": 0.0, "steps": 600, "precision": "fp32"}
TRANSLATION = {"width": 40, "dropout": 0.1, "steps": 1200, "precision": "fp32"}
RUNS: dict[str, Small | Trained] = {
    "walk-transformer": Small("transformer", "pronouns", STACK, seed=3),
    "walk-lstm": Small("lstm", "pronouns", {**WIDTH, "layers": 1}, steps=1500),
    "walk-attentive": Small("attentive", "pronouns", {**WIDTH, "layers": 1, "lookback": 16}, steps=1500),
    "walk-backpack": Small("backpack", "pronouns", {**STACK, "senses": 2}, steps=1000),
    "unmasked": Small("transformer", "pronouns", STACK, all_words, causal=False),
    "heads": Small(
        "transformer",
        "names_and_repeats",
        {**STACK, "width": 32, "heads": 2, "context": 24},
        repeated_tokens,
        seed=2,
        steps=2000,
        learning_rate=0.005,
    ),
    "reader": Small("transformer", "prizes", {**STACK, "layers": 1}, hidden_words, causal=False, steps=600),
    "causal-reader": Small("transformer", "prizes", {**STACK, "layers": 1}, all_words, steps=600),
    "copying": Small("attentive", "names", {**WIDTH, "lookback": 16, "copy": "gate"}, steps=600),
    "copying-subwords": Small(
        "attentive",
        "strangers",
        {**WIDTH, "width": 24, "layers": 1, "lookback": 32, "copy": "gate"},
        repeated_tokens,
        steps=1500,
        tokens={"tokens": "bpe", "bpe_size": 360},
    ),
    "walk-key-is-value": Small("transformer", "pronouns", {**STACK, "projections": "key-is-value"}, seed=3),
    "walk-none": Small("transformer", "pronouns", {**STACK, "projections": "none"}, seed=3),
    "long-rnn": Trained("rnn", {**CHARACTERS}),
    "long-lstm": Trained("lstm", {**CHARACTERS}),
    "long-attentive": Trained("attentive", {**CHARACTERS, "lookback": 512}),
    "long-transformer": Trained("transformer", {**CHARACTERS, "context": 512, "batch": 8}),
    "translator-one-vector": Trained("recurrent-translator", {**TRANSLATION, "score": "none"}),
    "translator-attention": Trained("recurrent-translator", TRANSLATION),
    "translator-transformer": Trained(
        "transformer-translator", {**TRANSLATION, "width": 32, "layers": 2, "heads": 4}
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *RUNS])
    parser.add_argument("--out", type=Path, default=Path("src/regard/lessons/runs"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names or RUNS:
        began = time.perf_counter()
        run = RUNS[name].make()
        folder = options.out / name
        folder.mkdir(parents=True, exist_ok=True)
        write_run(run, folder)
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{name}: {time.perf_counter() - began:.0f} s, {size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
