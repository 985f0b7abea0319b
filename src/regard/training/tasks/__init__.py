"""The tasks, by the kind of data that a family reads. The class of a task is imported on first use."""

from importlib import import_module
from typing import Any

from regard.models.model import Model
from regard.training.options import Options
from regard.training.task import TextTask

TASKS = {
    "text": "regard.training.tasks.plain_text:PlainText",
    "words": "regard.training.tasks.neighbours:Neighbours",
    "pairs": "regard.training.tasks.sentence_pairs:SentencePairs",
    "blanks": "regard.training.tasks.blanks:Blanks",
    "labels": "regard.training.tasks.labels:Labels",
    "captions": "regard.training.tasks.captioned_images:CaptionedImages",
}


def make_task(family: type[Model], options: Options) -> TextTask[Any]:
    """Make the task of a family: read its texts and make its tokenizers."""
    module, _, name = TASKS[family.reads].partition(":")
    return getattr(import_module(module), name)(options)
