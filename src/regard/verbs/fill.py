"""regard fill RUN: fill the blanks of texts with the likeliest words."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch

from regard.boundary import check_ranges
from regard.errors import UserError, notify
from regard.inside.edit_model import edited
from regard.probabilities.blanks import fill as fill_blanks
from regard.ranges import Count
from regard.runs.blanks import blank_ids, require_filler
from regard.runs.derived import to_best_device
from regard.runs.run import Run
from regard.tables import Table, TableRows
from regard.text.parallel import read_lines
from regard.verbs.arguments import Edits, File, RunLike
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show, show_token

Texts = Annotated[str | Sequence[str], Argument(tuple[str, ...], positional=True, metavar="TEXT")]


@dataclass(frozen=True)
class Word:
    """A word that fills a blank."""

    word: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """The likeliest words of each blank of a text, from the left."""

    text: str
    blanks: list[list[Word]]

    @property
    def best(self) -> str:
        """The text with the likeliest word in each blank."""
        words = iter(self.blanks)
        return re.sub("_{3,}", lambda _: next(words)[0].word.strip(), self.text)


@dataclass(frozen=True)
class Fillings(Table, Sequence[Filled]):
    """Filled texts, in their order."""

    texts: list[Filled]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, place: Any) -> Any:
        return self.texts[place]

    def to_json(self) -> dict[str, Any]:
        return {"texts": [asdict(filled) for filled in self.texts]}

    def rows(self) -> TableRows:
        """A row for each word of each blank."""
        return [
            {"text": filled.text, "blank": number, **asdict(word)}
            for filled in self.texts
            for number, words in enumerate(filled.blanks)
            for word in words
        ]


@check_ranges
def fill(
    run: RunLike, text: Texts = (), *, file: File = None, top: Count = 5, edit: Edits = None
) -> Fillings:
    """Fill the blanks (___) of texts. Several blanks of a text are all hidden while each is filled.

    >>> regard.fill("runs/reader", "the students ___ their books")[0].best  # doctest: +SKIP
    'the students read their books'

    Args:
        run: A run folder of a reader.
        text: The texts, with ___ for each blank. Without them, the lines of `file` or of standard input.
        file: A file with a text in each line.
        top: The number of words for each blank.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    opened = edited(run, edit)
    model = require_filler(opened)
    if text and file is not None:
        raise UserError("give texts or `file`, not both")
    given = [text] if isinstance(text, str) else list(text)
    rows = [
        (line, blank_ids(opened, line)) for line in given or read_lines("-" if file is None else str(file))
    ]
    to_best_device(model)
    _tell_unknown(opened, [token for _, ids in rows for token in ids])
    filled = []
    for line, ids in rows:
        blanks = fill_blanks(model, torch.tensor(ids), top)
        words = [[Word(opened.tokenizer.name(token), p) for token, p in blank] for blank in blanks]
        filled.append(Filled(line, words))
    return Fillings(filled)


def _tell_unknown(run: Run, ids: list[int]) -> None:
    unknown = sum(token == run.tokenizer.unknown for token in ids)
    if unknown:
        notify(f"{unknown} of {len(ids)} tokens were never seen in training and are read as <unk>")


def main(arguments: list[str]) -> None:
    call = parse(fill, arguments)
    result = fill(**call.values)
    if call.json:
        print_json(result.to_json())
        return
    for filled in result:
        show(filled.best)
        for number, words in enumerate(filled.blanks, 1):
            found = "  ".join(f"{show_token(one.word)} {one.probability:.3f}" for one in words)
            print(f"  {number}: {found}")
