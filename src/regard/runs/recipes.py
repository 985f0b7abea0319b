"""Recipes: trainings that reach a figure worth knowing, each a function. `regard train --recipe NAME` runs one.

The text is looked for below --data: tinyshakespeare/input.txt; wikitext-2/train.txt, valid.txt and test.txt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    family: str
    options: dict[str, Any]  # of `regard train FAMILY`; text, valid and test are paths below the data folder
    figure: str  # what it reached where it was measured, with the published figure beside it

    def with_data(self, data: str | Path) -> dict[str, Any]:
        """The options with the text's paths, which must be there."""
        options = dict(self.options)
        for name in ("text", "valid", "test"):
            if name in options:
                path = Path(data) / options[name]
                if not path.is_file():
                    raise UserError(f"{path}: this recipe's text is not there; put it there, or say where it is with --data FOLDER")
                options[name] = (str(path),)
        return options


def find_recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UserError(f"unknown recipe {name!r}; there are: {', '.join(RECIPES)}")
    return RECIPES[name]()


def _wikitext2(family: str, figure: str, **options: Any) -> Recipe:
    """Words of wikitext-2, context across lines, line ends predicted."""
    text = {part: f"wikitext-2/{file}.txt" for part, file in {"text": "train", "valid": "valid", "test": "test"}.items()}
    return Recipe(family=family, figure=figure, options={**text, "tokens": "word", "evaluate_every": 1000, **options})


def shakespeare_transformer() -> Recipe:
    """Characters, at nanoGPT's size; its split is ours but for two characters."""
    return Recipe(
        family="transformer",
        figure="",
        options={
            "text": "tinyshakespeare/input.txt", "tokens": "char", "layers": 6, "heads": 6, "width": 384, "context": 256,
            "dropout": 0.3, "batch": 64, "learning_rate": 0.003, "steps": 1500, "evaluate_every": 250,
        },
    )  # fmt: skip


LARGE = {"layers": 2, "width": 650, "dropout": 0.5, "batch": 64, "segment": 35, "learning_rate": 0.002, "weight_decay": 0.01}


def wikitext2_lstm_650() -> Recipe:
    """Two layers of 650, tied."""
    return _wikitext2("lstm", "", steps=30000, **LARGE)


def wikitext2_attentive_650() -> Recipe:
    """The same, looking back over its last 100 states by a scaled dot product."""
    return _wikitext2("attentive", "", steps=30000, lookback=100, **LARGE)


def wikitext2_attentive_gate_650() -> Recipe:
    """The same, and copying: the pointer sentinel."""
    return _wikitext2("attentive", "", steps=30000, lookback=100, copy="gate", **LARGE)


RECIPES: dict[str, Callable[[], Recipe]] = {
    "shakespeare-transformer": shakespeare_transformer,
    "wikitext2-lstm-650": wikitext2_lstm_650,
    "wikitext2-attentive-650": wikitext2_attentive_650,
    "wikitext2-attentive-gate-650": wikitext2_attentive_gate_650,
}
