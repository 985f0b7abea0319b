"""The tasks, by what a family reads. The class of a task is imported when it is first wanted."""

from importlib import import_module

from regard.models.contract import LanguageModel
from regard.training.options import Options
from regard.training.task import TextTask

TASKS = {
    "text": "regard.training.tasks.plain_text:PlainText",
    "pairs": "regard.training.tasks.sentence_pairs:SentencePairs",
}


def make_task(family: type[LanguageModel], options: Options) -> TextTask:
    """The task that feeds a family, with its texts read and its vocabulary made."""
    module, _, name = TASKS[family.reads].partition(":")
    return getattr(import_module(module), name)(options)
