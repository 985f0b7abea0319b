"""The messages of a page in a file, whose answers were recorded. See protocol.py and recording.py."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from regard.page.protocol import Next, Read, ReadQuestion, RunInfo, Text


@dataclass(frozen=True)
class SaveQuestion:
    """A view to save as a file that opens offline."""

    of: Annotated[tuple[ReadQuestion, ...], Field(min_length=1, max_length=4)]
    view: Text  # as in the address bar


@dataclass(frozen=True)
class Packed:
    """Numbers (heads, rows, columns) as bytes, compressed and in base64.

    Weights are square roots times `levels` (255, or 65,535 in two bytes, the lower one first); values are
    shares of `most`, the largest, around the middle level.
    """

    shape: tuple[int, int, int]
    weighs: bool
    levels: int
    most: float
    data: str


@dataclass(frozen=True)
class RecordedMap:
    """The map of a site: some rows as they are, and of a long text all rows in blocks."""

    rows: list[int]
    numbers: Packed
    coarse: Packed | None  # the largest weight of each block of SiteInfo.block by SiteInfo.block cells


@dataclass(frozen=True)
class RecordedVersion:
    """A model's recorded answers, with or without the edits."""

    read: Read
    maps: dict[str, RecordedMap]


@dataclass(frozen=True)
class RecordedModel:
    """A model's recorded answers about a text."""

    info: RunInfo
    after: RecordedVersion
    before: RecordedVersion | None  # without the edits, if there are edits
    next: list[Next]  # with edits: the distribution after each position


@dataclass(frozen=True)
class Recording:
    """The content of a file that opens offline."""

    title: str
    view: str  # the view that opens, as in the address bar
    models: list[RecordedModel]


QUESTIONS = (SaveQuestion,)
ANSWERS = (Packed, RecordedMap, RecordedVersion, RecordedModel, Recording)
