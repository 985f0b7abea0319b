"""regard trains, compares and opens up every kind of language model.

The verbs of the command line as functions: `train`, `train_recipe`, `compare`, `load`, `evaluate`, `score`, `generate`, `look`, `export`;
`lens`, `contributions` and `sweep`, which trace a Transformer's prediction; `translate`,
`what_if`, `evaluate_translations`, `against` and `align` for translators;
and `mix`, `cached` and `edited`, which make new models of trained ones.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.machine.threads import limit_spinning

if TYPE_CHECKING:
    from regard.errors import MachineError, UserError
    from regard.runs.aligning import align
    from regard.runs.comparing import compare
    from regard.runs.exporting import export
    from regard.runs.folder import Run, load
    from regard.runs.looking import contributions, edited, lens, look, save_edits, sweep
    from regard.runs.puzzling import puzzle
    from regard.runs.recipes import train_recipe
    from regard.runs.training import train
    from regard.runs.translations import against, evaluate_translations, translate, what_if
    from regard.runs.using import cached, evaluate, generate, mix, score

__version__ = "0.1.0"

_HOMES = {
    "MachineError": "regard.errors",
    "Run": "regard.runs.folder",
    "UserError": "regard.errors",
    "against": "regard.runs.translations",
    "align": "regard.runs.aligning",
    "cached": "regard.runs.using",
    "compare": "regard.runs.comparing",
    "contributions": "regard.runs.looking",
    "edited": "regard.runs.looking",
    "evaluate": "regard.runs.using",
    "evaluate_translations": "regard.runs.translations",
    "export": "regard.runs.exporting",
    "generate": "regard.runs.using",
    "lens": "regard.runs.looking",
    "load": "regard.runs.folder",
    "look": "regard.runs.looking",
    "mix": "regard.runs.using",
    "puzzle": "regard.runs.puzzling",
    "save_edits": "regard.runs.looking",
    "score": "regard.runs.using",
    "sweep": "regard.runs.looking",
    "train": "regard.runs.training",
    "train_recipe": "regard.runs.recipes",
    "translate": "regard.runs.translations",
    "what_if": "regard.runs.translations",
}

__all__ = [
    "MachineError",
    "Run",
    "UserError",
    "against",
    "align",
    "cached",
    "compare",
    "contributions",
    "edited",
    "evaluate",
    "evaluate_translations",
    "export",
    "generate",
    "lens",
    "load",
    "look",
    "mix",
    "puzzle",
    "save_edits",
    "score",
    "sweep",
    "train",
    "train_recipe",
    "translate",
    "what_if",
]


def __getattr__(name: str) -> Any:
    """Each verb's module, and torch with it, is imported when the verb is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    limit_spinning()
    return getattr(import_module(_HOMES[name]), name)
