"""The plan of a comparison: its families, its budget, and its text in three parts, kept in its folder."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from regard.errors import UserError
from regard.machine.disk import file_hash, written_beside
from regard.models import families_that_read, known_family
from regard.models.model import Model
from regard.ranges import Count, Positive, Rows
from regard.text.builtin import built_in_text
from regard.text.documents import Document
from regard.text.files import hold_out_files, read
from regard.tokens.choose import Kind
from regard.verbs.arguments import Files

MINUTES = 0.3  # the training time of a family, unless another budget is given
TEXTS = "text"  # the folder of the texts
Family = type[Model]
Families = Mapping[str, Family]  # the class of each family, by its name in the table


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The families and the budget of a comparison, saved so that a stopped comparison can be finished."""

    families: tuple[str, ...]
    tokens: Kind
    document: Document
    minutes: Positive | None
    tokens_each: Count | None
    seeds: Rows
    # The hash of each file of the comparison's text.
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    # For the report: the names of the given texts, the beginning of the comparison, and the machine.
    sources: tuple[str, ...] = ()
    began: str = ""
    machine: str = ""

    def __post_init__(self) -> None:
        if self.minutes is not None and self.tokens_each is not None:
            raise UserError("give `minutes` or `tokens_each`, not both")
        if not self.families:
            raise UserError("name at least one family")
        for name in self.families:
            if self.families.count(name) > 1:
                raise UserError(f"{name} is named twice")

    def of(self, name: str) -> tuple[str, str]:
        """(family, tokens) of a name such as ngram, ngram:word, my_module:Family or my_module:Family:word."""
        family, _, kind = name.rpartition(":")
        if family and kind in get_args(Kind):
            return family, kind
        if known_family(family) is not None:
            raise UserError(f"{name}: tokens are {', '.join(get_args(Kind))}")
        return name, self.tokens

    def classes(self, find: Callable[[str], Family]) -> Families:
        """The classes of the families; `find` gives the class of a family's name."""
        classes = {name: find(self.of(name)[0]) for name in self.families}
        for name, family in classes.items():
            if family.reads != "text":
                there = ", ".join(families_that_read("text"))
                raise UserError(f"{self.of(name)[0]} reads {family.reads}, not text; compare is for: {there}")
        return classes

    def in_minutes(self, family: Family) -> bool:
        """Whether the budget of this family's training is a time."""
        return self.tokens_each is None and family.learns == "descent"

    def trainings(self, classes: Families) -> Iterator[tuple[str, int, str]]:
        """(name, seed, folder). Counting gives the same with every seed, so it is done once."""
        for name, family in classes.items():
            for seed in range(1, 2 if family.learns == "counting" else self.seeds + 1):
                yield name, seed, name.replace(":", "-") + (f"-{seed}" if seed > 1 else "")


def of_plan(name: str) -> Family:
    """The class of a family that the plan names. A name that only a file gives is never imported."""
    family = known_family(name)
    if family is None:
        raise UserError(f"{name} is neither part of regard nor installed; give the same `families` again")
    return family


def write_parts(out: Path, text: Files) -> dict[str, str]:
    """Write the texts into the folder, so that runs can be measured again. Return the hash of each file."""
    rest, test = hold_out_files(read(text) or [built_in_text()])
    first, valid = hold_out_files(rest)
    if not (first and valid and test):
        raise UserError("the text is too short to be split into training, validation and test: give more")
    (out / TEXTS).mkdir(exist_ok=True)
    hashes = dict[str, str]()
    for name, part in {"train": first, "valid": valid, "test": test}.items():
        for number, source in enumerate(part, 1):
            path = out / TEXTS / (f"{name}.txt" if number == 1 else f"{name}-{number:05}.txt")
            with written_beside(path) as beside, beside.open("wb") as file:
                file.writelines(string.encode() for string in source.strings())
            hashes[path.name] = source.sha256
    return hashes


def check_parts(out: Path, texts: dict[str, str]) -> None:
    """Check that the comparison's texts are unchanged, because later runs must see the same text."""
    for name, sha256 in texts.items():
        path = out / TEXTS / name
        again = "put it back, or compare again into another `out`"
        if not path.is_file():
            raise UserError(f"{path}: is missing; {again}")
        if file_hash(path) != sha256:
            raise UserError(f"{path}: has changed since the comparison began; {again}")


def text_files(out: Path, plan: Plan, part: str) -> tuple[str, ...]:
    """The files of a part of the text: train, valid or test."""
    names = plan.texts or [path.name for path in (out / TEXTS).iterdir()]  # of an older comparison
    ours = sorted(name for name in names if re.fullmatch(rf"{part}(-\d+)?\.txt", name))
    return tuple(str(out / TEXTS / name) for name in sorted(ours, key=len))
