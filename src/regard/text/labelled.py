"""Labelled texts: lines with a label and a text, from tables, JSON lines, or the built-in reviews."""

import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from regard.errors import UserError
from regard.text.files import read_file
from regard.text.reviews import reviews

BUILT_IN = "built-in"
JSON_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
COLUMNS = ("label", "text")  # the fields of JSON lines, unless others are named
FEWEST = 2  # the fewest texts of a label that are held out, if the label has enough


@dataclass(frozen=True)
class Labelled:
    """Texts with a label each."""

    files: tuple[str, ...]  # none for the built-in texts
    labels: list[str]
    texts: list[str]
    columns: tuple[str, ...] = ()  # the names of the columns of label and text, if they were given

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def name(self) -> str:
        return " ".join(self.files) or BUILT_IN

    def names(self) -> list[str]:
        """Return the distinct labels: numbers in their order, other labels by the alphabet."""
        words = sorted({label for label in self.labels if not label.isdecimal()})
        return [*sorted(set(self.labels) - set(words), key=lambda label: (int(label), label)), *words]

    def numbers(self, names: Sequence[str]) -> list[int]:
        """Return the number of each text's label."""
        place = {name: number for number, name in enumerate(names)}
        return [place[label] for label in self.labels]

    def record(self) -> dict[str, Any]:
        """The name, size and hash of the texts, for the config of a run."""
        lines = (f"{label}\t{text}" for label, text in zip(self.labels, self.texts, strict=True))
        data = "\n".join(lines).encode()
        return {
            "name": self.name,
            "files": list(self.files),
            "columns": list(self.columns),
            "texts": len(self),
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }

    def part(self, places: Sequence[int]) -> "Labelled":
        """The texts at these places."""
        labels, texts = ([items[place] for place in places] for items in (self.labels, self.texts))
        return replace(self, labels=labels, texts=texts)


def read_labelled(files: Sequence[str], columns: Sequence[str] = ()) -> Labelled:
    """Read labelled texts from one file or several; without files, the built-in reviews.

    A line is `label TAB text`. With `columns`, a file is a table whose first line names its columns, and
    `columns` names those of the label and the text. A file of JSON lines (.jsonl) has an object in each line,
    with the fields `label` and `text` or those in `columns`.
    """
    if columns and len(columns) != 2:
        raise UserError("`columns` names two columns: that of the label, then that of the text")
    if columns and columns[0] == columns[1]:
        raise UserError(f"`columns` names {columns[0]!r} twice: name the label's column, then the text's")
    labels, texts = list[str](), list[str]()
    if not files:
        if columns:
            raise UserError("`columns` goes with `labelled`: name the file that has these columns")
        labels, texts = (list(items) for items in zip(*reviews(), strict=True))
    for name in files:
        lines = read_file(name).text.split("\n")
        while lines and not lines[-1].strip():
            lines.pop()
        read = _json_lines if name.endswith(JSON_ENDINGS) else _table if columns else _plain
        for number, label, text in read(name, [line.rstrip("\r") for line in lines], tuple(columns)):
            where = f"{name}: line {number}"
            if not label.strip():
                raise UserError(f"{where} has an empty label; give each text a label")
            if not text.strip():
                raise UserError(f"{where} has an empty text; write a text, or leave the line out")
            labels.append(label.strip())
            texts.append(text.strip())
    return Labelled(tuple(files), labels, texts, tuple(columns))


def _plain(name: str, lines: list[str], _: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """Yield (line, label, text) of lines `label TAB text` without a header."""
    for number, line in enumerate(lines, 1):
        label, tab, text = line.partition("\t")
        if not tab:
            form = "write: label TAB text, or name the columns of a table with `columns`"
            raise UserError(f"{name}: line {number} has no tabulator; {form}")
        yield number, label, text


def _table(name: str, lines: list[str], columns: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """Yield (line, label, text) of a table whose first line names its columns."""
    head = lines[0].split("\t") if lines else []
    for column in columns:
        if column not in head:
            there = ", ".join(head) or "none"
            raise UserError(f"{name}: line 1 names no column {column!r}; there are: {there}")
        if head.count(column) > 1:
            raise UserError(
                f"{name}: line 1 names two columns {column!r}; give each column a name of its own"
            )
    places = [head.index(column) for column in columns]
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(head):
            wrong = f"has {len(cells)} columns, and line 1 names {len(head)}"
            raise UserError(f"{name}: line {number} {wrong}; write a tabulator between columns only")
        yield number, cells[places[0]], cells[places[1]]


def _json_lines(name: str, lines: list[str], columns: tuple[str, ...]) -> Iterator[tuple[int, str, str]]:
    """Yield (line, label, text) of JSON objects, one in each line."""
    for number, line in enumerate(lines, 1):
        where = f"{name}: line {number}"
        try:
            data = json.loads(line, object_pairs_hook=partial(_unrepeated, where))
        except (ValueError, RecursionError):
            raise UserError(f"{where} is not JSON; write one object in each line") from None
        if not isinstance(data, dict):
            raise UserError(f"{where} is no JSON object; write one object in each line")
        values = []
        for column in columns or COLUMNS:
            if column not in data:
                there = ", ".join(data) or "none"
                raise UserError(
                    f"{where} has no field {column!r}; there are: {there}; name them with `columns`"
                )
            value = data[column]
            if isinstance(value, dict | list | None):
                raise UserError(f"{where}: the field {column!r} is neither a text nor a number")
            values.append(json.dumps(value) if isinstance(value, bool) else str(value))
        yield number, values[0], values[1]


def _unrepeated(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of a JSON line. A name that stands twice in it is an error."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise UserError(f"{where} has two fields {name!r}; give each field a name of its own")
    return dict(pairs)


def check_labels(train: Labelled) -> None:
    """Refuse training texts that all have one label."""
    names = train.names()
    if len(names) < 2:
        has = f"every text has the label {names[0]!r}" if names else "there is no text"
        raise UserError(f"{train.name}: {has}; a classifier needs two labels or more")


def check_known(other: Labelled, names: Sequence[str]) -> None:
    """Refuse a label that training has not seen."""
    known = set(names)
    for place, label in enumerate(other.labels, 1):
        if label not in known:
            where = f"text {place} of {other.name}"
            raise UserError(
                f"{where} has the label {label!r}, which no training text has; there are: {', '.join(names)}"
            )


def hold_out(whole: Labelled, share: float = 0.1, seed: int = 7) -> tuple[Labelled, Labelled]:
    """(training, validation) texts with the same share of each label in both.

    Equal texts stay on one side. Of a label with few texts, at least two are held out, but never more than a
    third: a label with one or two texts is only learned from.
    """
    by_label = defaultdict[str, dict[str, None]](dict)
    for label, text in zip(whole.labels, whole.texts, strict=True):
        by_label[label].setdefault(text)
    order, held = random.Random(seed), set[str]()
    for label in sorted(by_label):
        texts = sorted(by_label[label])
        order.shuffle(texts)
        held |= set(texts[: min(max(round(share * len(texts)), FEWEST), len(texts) // 3)])
    sides = ([], [])  # type: tuple[list[int], list[int]]
    for place, text in enumerate(whole.texts):
        sides[text in held].append(place)
    if not sides[1]:
        raise UserError(
            f"{whole.name}: there are too few texts to hold some out: give 3 or more of a label, give "
            "`valid` texts, or `hold` 0"
        )
    return whole.part(sides[0]), whole.part(sides[1])
