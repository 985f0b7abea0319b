"""Recipes: the options of trainings whose figures are known. `regard train --recipe NAME` runs a recipe.

The texts are files in the folder `data`: tinyshakespeare/input.txt; wikitext-2/train.txt, valid.txt and
test.txt; tatoeba/eng-fra.tsv.gz.

The figures are the test perplexity of words for wikitext-2, the loss in nats for each character of the last
tenth for tinyshakespeare, and BLEU on the held-out tenth for tatoeba. They were measured on an H200 unless a
CPU is named (docs/benchmarks.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A family, the options of its training, and the result."""

    family: str
    options: dict[str, Any]  # the options of `regard train FAMILY`; texts are paths in the data folder
    figure: str  # the measured figure, and the published figure if there is one

    def with_options(self, data: str | Path, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the recipe, replaced by those that the user gave."""
        budget = {"steps", "minutes"} if {"steps", "minutes"} & set(given) else set()
        chosen = {name: value for name, value in self.options.items() if name not in budget}
        for part in ("text", "valid", "test", "pairs"):
            if part in chosen and part not in given:
                path = Path(data) / chosen[part]
                if not path.is_file():
                    advice = "put it there, or name its folder with `data`"
                    raise UserError(f"{path}: this recipe's text is not there; {advice}")
                chosen[part] = str(path)
        return {**chosen, **given}


def find_recipe(name: str) -> Recipe:
    """Return the recipe with this name."""
    if name not in RECIPES:
        raise UserError(f"unknown recipe {name!r}; there are: {', '.join(RECIPES)}")
    return RECIPES[name]()


def _wikitext2(family: str, figure: str, **options: Any) -> Recipe:
    """Make a recipe for the words of wikitext-2. Contexts cross lines, and line ends are predicted."""
    text = {
        part: f"wikitext-2/{file}.txt"
        for part, file in {"text": "train", "valid": "valid", "test": "test"}.items()
    }
    return Recipe(family=family, figure=figure, options={**text, "tokens": "word", **options})


def shakespeare_transformer() -> Recipe:
    """A Transformer over characters with the size of nanoGPT's.

    The held-out tenth differs from nanoGPT's by two characters.
    """
    return Recipe(
        family="transformer",
        figure="loss 1.454 (nanoGPT 1.4697)",
        options={
            "text": "tinyshakespeare/input.txt",
            "tokens": "char",
            "layers": 6,
            "heads": 6,
            "width": 384,
            "context": 256,
            "dropout": 0.35,
            "batch": 64,
            "learning_rate": 0.003,
            "steps": 2500,
            "evaluate_every": 250,
        },
    )


def wikitext2_ngram() -> Recipe:
    """An n-gram model of order 5."""
    return _wikitext2("ngram", "perplexity 217.8", order=5)


RECURRENT = {
    "layers": 2,
    "width": 650,
    "batch": 64,
    "segment": 35,
    "weight_decay": 0.02,
    "evaluate_every": 2000,
}
WINDOWED = {
    "layers": 4,
    "width": 512,
    "dropout": 0.5,
    "learning_rate": 0.003,
    "optimiser": "muon",
    "evaluate_every": 500,
}


def wikitext2_lstm_650() -> Recipe:
    """A tied LSTM with two layers of width 650."""
    figure = "perplexity 94.0, with --cache 66.7 (published 86.7)"
    return _wikitext2(
        "lstm", figure, dropout=0.45, weight_dropout=0.5, learning_rate=0.005, steps=40000, **RECURRENT
    )


def wikitext2_attentive_650() -> Recipe:
    """An LSTM of the same size with attention to its last 100 hidden states."""
    figure = "perplexity 88.7, with --cache 64.9"
    return _wikitext2(
        "attentive",
        figure,
        score="scaled-dot",
        lookback=100,
        dropout=0.5,
        learning_rate=0.003,
        steps=13000,
        **RECURRENT,
    )


def wikitext2_attentive_gate_650() -> Recipe:
    """The attentive LSTM that also copies words (pointer sentinel)."""
    figure = "perplexity 81.7, with --cache 64.6 (published 80.8)"
    return _wikitext2(
        "attentive",
        figure,
        score="scaled-dot",
        lookback=100,
        copy="gate",
        dropout=0.5,
        learning_rate=0.003,
        steps=12000,
        **RECURRENT,
    )


def wikitext2_transformer_512() -> Recipe:
    """A Transformer with four layers of width 512, which has as many parameters as the LSTM."""
    return _wikitext2(
        "transformer", "perplexity 108.6", heads=8, context=256, batch=16, steps=2800, **WINDOWED
    )


def wikitext2_window_512() -> Recipe:
    """A modern fixed-window model: 16 words in order, and four averages of the 240 words before them."""
    return _wikitext2(
        "window", "perplexity 119.8", window=16, distant=4, batch=64, segment=64, steps=4300, **WINDOWED
    )


def wikitext2_window_original() -> Recipe:
    """The original fixed-window model with a window of five words."""
    options = {
        "window": 5,
        "width": 100,
        "dropout": 0.3,
        "batch": 64,
        "segment": 64,
        "learning_rate": 0.003,
        "optimiser": "muon",
    }
    return _wikitext2(
        "window", "perplexity 165.1", style="original", steps=4700, evaluate_every=500, **options
    )


def wikitext2_backpack_128() -> Recipe:
    """A small Backpack over subwords, for a CPU.

    1 and 4 senses are worse. A Transformer of the same size is better (loss 3.482).
    """
    options = {
        "layers": 4,
        "width": 128,
        "heads": 4,
        "context": 64,
        "batch": 32,
        "steps": 1200,
        "evaluate_every": 400,
        "dropout": 0.0,
    }
    return _wikitext2(
        "backpack",
        "loss 3.551 on valid.txt, 10 minutes of a CPU",
        tokens="bpe",
        bpe_size=2048,
        senses=16,
        **options,
    )


def wikitext2_dan() -> Recipe:
    """A deep averaging network over the last four words."""
    options = {
        "layers": 2,
        "width": 512,
        "lookback": 4,
        "dropout": 0.5,
        "batch": 64,
        "segment": 64,
        "learning_rate": 0.002,
    }
    return _wikitext2("dan", "perplexity 288.5", steps=5000, evaluate_every=500, **options)


TATOEBA = {
    "pairs": "tatoeba/eng-fra.tsv.gz",
    "size": "medium",
    "tokens": "bpe",
    "shared": True,
    "bpe_size": 8000,
    "evaluate_every": 500,
}


def tatoeba_eng_fra_recurrent() -> Recipe:
    """A recurrent translator from English to French. Without attention (`score` none), BLEU is 23.2."""
    figure = "BLEU 40.9, 12 minutes of one core"
    return Recipe(
        family="recurrent-translator", figure=figure, options={**TATOEBA, "dropout": 0.2, "steps": 2500}
    )


def tatoeba_eng_fra_transformer() -> Recipe:
    """A Transformer translator from English to French with three layers in the encoder and in the decoder."""
    figure = "BLEU 39.4, 12 minutes of one core"
    return Recipe(
        family="transformer-translator", figure=figure, options={**TATOEBA, "dropout": 0.1, "steps": 1230}
    )


RECIPES: dict[str, Callable[[], Recipe]] = {
    "shakespeare-transformer": shakespeare_transformer,
    "wikitext2-ngram": wikitext2_ngram,
    "wikitext2-dan": wikitext2_dan,
    "wikitext2-window-original": wikitext2_window_original,
    "wikitext2-window-512": wikitext2_window_512,
    "wikitext2-lstm-650": wikitext2_lstm_650,
    "wikitext2-attentive-650": wikitext2_attentive_650,
    "wikitext2-attentive-gate-650": wikitext2_attentive_gate_650,
    "wikitext2-transformer-512": wikitext2_transformer_512,
    "wikitext2-backpack-128": wikitext2_backpack_128,
    "tatoeba-eng-fra-recurrent": tatoeba_eng_fra_recurrent,
    "tatoeba-eng-fra-transformer": tatoeba_eng_fra_transformer,
}
