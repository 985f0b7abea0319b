"""regard classify RUN: label texts, each with the probability of its label."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch

from regard.errors import UserError, notify
from regard.inside.edit_model import edited
from regard.machine.memory import keep_freed_memory
from regard.probabilities.labels import label_log_probs
from regard.runs.derived import to_best_device
from regard.runs.labelled import require_labeller
from regard.runs.run import Run
from regard.tables import Table, TableRows
from regard.text.files import decode
from regard.text.parallel import read_lines
from regard.tokens.rows import encode_rows
from regard.verbs.arguments import Edits, File, RunLike
from regard.verbs.options import Argument
from regard.verbs.parsing import Call, parse
from regard.verbs.printing import print_json, show_text

CHUNK = 1 << 16  # the most bytes of standard input that are labelled at a time
Texts = Annotated[str | Sequence[str], Argument(tuple[str, ...], positional=True, metavar="TEXT")]


@dataclass(frozen=True)
class Label:
    """The label of a text. A line without words has none."""

    label: str | None
    probabilities: dict[str, float]

    @property
    def probability(self) -> float | None:
        """The probability of the label."""
        return None if self.label is None else self.probabilities[self.label]


@dataclass(frozen=True)
class Classified(Table, Sequence[Label]):
    """The labels of texts, in their order."""

    texts: list[str]
    labels: list[Label]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: Any) -> Any:
        return self.labels[place]

    def to_json(self) -> dict[str, Any]:
        return {"labels": [asdict(label) for label in self.labels]}

    def rows(self) -> TableRows:
        """A row for each text: the text, its label, and the probability of every label."""
        return [
            {"text": text, "label": label.label, **label.probabilities}
            for text, label in zip(self.texts, self.labels, strict=True)
        ]


@keep_freed_memory()
def classify(run: RunLike, text: Texts = (), *, file: File = None, edit: Edits = None) -> Classified:
    """Label texts. Each has the label with the highest probability.

    >>> regard.classify("runs/classifier", "the ending was not bad")[0].label  # doctest: +SKIP
    'good'

    Args:
        run: A run folder of a classifier.
        text: The texts. Without them, the lines of `file` or of standard input.
        file: A file with a text in each line. An empty line has no label.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    opened = edited(run, edit)
    require_labeller(opened)
    if text and file is not None:
        raise UserError("give texts or `file`, not both")
    given = [text] if isinstance(text, str) else list(text)
    if not all(line.strip() for line in given):
        raise UserError("a text is empty: there is nothing to classify")
    texts = given or read_lines("-" if file is None else str(file))
    to_best_device(opened.model)
    counts = Counts()
    labels = _label(opened, texts, counts)
    counts.tell(opened)
    return Classified(texts, labels)


@dataclass
class Counts:
    """The parts of the texts so far that could not be read."""

    tokens: int = 0
    unknown: int = 0
    cut: int = 0

    def tell(self, run: Run) -> None:
        """Notify the user of words that were never seen in training, and of texts that were cut."""
        if self.unknown:
            never = "were never seen in training and are read as <unk>"
            notify(f"{self.unknown:,} of {self.tokens:,} tokens {never}")
        if self.cut:
            notify(f"{self.cut:,} texts have more than {run.model.context} tokens: only these are read")


def _label(run: Run, texts: list[str], counts: Counts) -> list[Label]:
    """Return the label of each text, and none for a text without words."""
    model, names = require_labeller(run), run.config.labels
    filled = [place for place, text in enumerate(texts) if text.strip()]
    labels = [Label(None, {})] * len(texts)
    if not filled:
        return labels
    rows = encode_rows(run.tokenizer, [texts[place].strip() for place in filled], model.context)
    counts.tokens += len(rows.text) - len(rows)
    counts.unknown += rows.text.unknown
    counts.cut += rows.cut
    for place, probs_L in zip(filled, label_log_probs(model, rows).exp(), strict=True):
        best = names[int(torch.argmax(probs_L))]
        labels[place] = Label(best, dict(zip(names, probs_L.tolist(), strict=True)))
    return labels


def main(arguments: list[str]) -> None:
    call = parse(classify, arguments)
    if not call.values["text"] and call.values["file"] is None and not call.json:
        _filter(call)
        return
    result = classify(**call.values)
    if call.json:
        print_json(result.to_json())
        return
    _print(result.labels)


def _print(labels: Sequence[Label]) -> None:
    for label in labels:
        name = show_text(label.label or "")
        print("" if label.probability is None else f"{name}\t{label.probability:.4f}")
    sys.stdout.flush()


def _filter(call: Call) -> None:
    """Label standard input as it comes: the labels of all whole lines are printed before more is read."""
    run = edited(call.values["run"], call.values["edit"])
    require_labeller(run)
    to_best_device(run.model)
    counts = Counts()
    for lines in _chunks():
        _print(_label(run, lines, counts))
    counts.tell(run)


def _chunks() -> Iterator[list[str]]:
    """Yield the whole lines of standard input that are there, and wait for more."""
    rest, number = b"", 0
    while data := sys.stdin.buffer.read1(CHUNK):  # type: ignore[union-attr]
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield [_decoded(line, number + place) for place, line in enumerate(lines, 1)]
            number += len(lines)
    if rest:
        yield [_decoded(rest, number + 1)]


def _decoded(line: bytes, number: int) -> str:
    return decode(line, f"standard input, line {number}").rstrip("\r") if line else ""
