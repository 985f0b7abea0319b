"""regard trains, compares and opens up every kind of language model.

Every verb of the command line is a function here: `regard train` is `regard.train`. `load` opens a run;
`mix`, `cached` and `edited` make new runs from runs.

>>> "train" in dir(regard)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.machine.threads import limit_spinning

if TYPE_CHECKING:
    from regard.errors import MachineError, Notice, UserError
    from regard.inside.edit_model import edited, save_edits
    from regard.runs.derived import cached, mix
    from regard.runs.formats import load
    from regard.runs.run import Run
    from regard.verbs.align import align
    from regard.verbs.bench import bench
    from regard.verbs.caption import caption
    from regard.verbs.classify import classify
    from regard.verbs.compare import compare
    from regard.verbs.doubt import doubt
    from regard.verbs.draw import draw
    from regard.verbs.evaluate import evaluate
    from regard.verbs.export import export
    from regard.verbs.fill import fill
    from regard.verbs.film import film
    from regard.verbs.forget import forget
    from regard.verbs.generate import generate
    from regard.verbs.heads import heads
    from regard.verbs.lab import lab
    from regard.verbs.lesson import lesson
    from regard.verbs.list import list
    from regard.verbs.look import look
    from regard.verbs.puzzle import puzzle
    from regard.verbs.scenes import scenes
    from regard.verbs.score import score
    from regard.verbs.senses import senses
    from regard.verbs.shards import shards
    from regard.verbs.trace import trace
    from regard.verbs.train import train
    from regard.verbs.translate import translate
    from regard.verbs.words import words

__version__ = "0.2.0"

_VERBS = (
    "align",
    "bench",
    "caption",
    "classify",
    "compare",
    "doubt",
    "draw",
    "evaluate",
    "export",
    "film",
    "fill",
    "forget",
    "generate",
    "heads",
    "lab",
    "lesson",
    "list",
    "look",
    "puzzle",
    "scenes",
    "score",
    "senses",
    "shards",
    "trace",
    "train",
    "translate",
    "words",
)
_OTHERS = {
    "MachineError": "regard.errors",
    "Notice": "regard.errors",
    "Run": "regard.runs.run",
    "UserError": "regard.errors",
    "cached": "regard.runs.derived",
    "edited": "regard.inside.edit_model",
    "load": "regard.runs.formats",
    "mix": "regard.runs.derived",
    "save_edits": "regard.inside.edit_model",
}
_HOMES = _OTHERS | {verb: f"regard.verbs.{verb}" for verb in _VERBS}

__all__ = [
    "MachineError",
    "Notice",
    "Run",
    "UserError",
    "align",
    "bench",
    "cached",
    "caption",
    "classify",
    "compare",
    "doubt",
    "draw",
    "edited",
    "evaluate",
    "export",
    "fill",
    "film",
    "forget",
    "generate",
    "heads",
    "lab",
    "lesson",
    "list",
    "load",
    "look",
    "mix",
    "puzzle",
    "save_edits",
    "scenes",
    "score",
    "senses",
    "shards",
    "trace",
    "train",
    "translate",
    "words",
]


def __dir__() -> Any:
    return sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """A verb's module, and torch with it, is imported when the verb is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    limit_spinning()
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
