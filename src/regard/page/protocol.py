"""The messages between the page and its server.

`page/protocol.py` at the root of the repository writes page/src/protocol.ts from these classes. A question
about a text repeats the whole text: a server that has forgotten a reading computes it again.
"""

import json
import math
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import Field

LONGEST = 100_000  # characters of a text
MOST_EDITS = 200
Text = Annotated[str, Field(max_length=LONGEST)]
Name = Annotated[str, Field(max_length=200)]
Count = Annotated[int, Field(ge=0, le=1 << 20)]
# A byte stands for a weight up to 1 / gain: the weights of a long text are small.
Gain = Annotated[float, Field(ge=1, le=1e6)]
Reads = Literal["text", "pairs", "labels", "captions", "blanks"]
Edits = Annotated[tuple[dict[str, Any], ...], Field(max_length=MOST_EDITS)]


@dataclass(frozen=True)
class ReadQuestion:
    """The input of a model."""

    run: Name
    text: Text
    target: Text | None = None  # the translation, or the caption, that the model reads; None: its own
    scene: Name | Count | None = None  # the image that a captioner sees, by its id; None: the first one
    words: bool = False  # join subwords
    top: Annotated[int, Field(ge=1, le=100)] = 8  # the likeliest next tokens at each position
    edits: Edits = ()
    step: Count | None = None  # the model at a kept step of its training; None: the finished model


@dataclass(frozen=True)
class RowsQuestion:
    """The numbers of some rows at a site, for every head."""

    of: ReadQuestion
    site: Name
    rows: Annotated[tuple[Count, ...], Field(min_length=1, max_length=64)]


@dataclass(frozen=True)
class TileQuestion:
    """A part of a map as bytes, a byte for each block of cells; head -1 is the mean of all heads."""

    of: ReadQuestion
    site: Name
    head: Annotated[int, Field(ge=-1, le=1 << 20)]
    row: Count
    column: Count
    rows: Annotated[int, Field(ge=1, le=1 << 20)]
    columns: Annotated[int, Field(ge=1, le=1 << 20)]
    block: Annotated[int, Field(ge=1, le=4096)] = 1
    gain: Gain = 1.0


@dataclass(frozen=True)
class MosaicQuestion:
    """A small map of each head at each site as bytes, `size` by `size` for each."""

    of: ReadQuestion
    sites: Annotated[tuple[Name, ...], Field(min_length=1, max_length=512)]
    size: Annotated[int, Field(ge=4, le=64)] = 32
    gain: Gain = 1.0


@dataclass(frozen=True)
class NextQuestion:
    """The distribution of the token after a position, with and without the edits."""

    of: ReadQuestion
    place: Count
    top: Annotated[int, Field(ge=1, le=100)] = 12


@dataclass(frozen=True)
class ScenesQuestion:
    """The images among which that of a captioner is chosen."""

    run: Name


@dataclass(frozen=True)
class AddQuestion:
    """An image file that a person adds to those of a captioner."""

    run: Name
    name: Name  # of the file
    data: Annotated[str, Field(max_length=1_900_000)]  # in base64


@dataclass(frozen=True)
class WriteQuestion:
    """A text to go on from. `ids` are tokens that were written before, after the prompt."""

    run: Name
    prompt: Text
    ids: Annotated[tuple[Count, ...], Field(max_length=4096)] = ()
    length: Annotated[int, Field(ge=1, le=1000)] = 60
    temperature: Annotated[float, Field(ge=0, le=10)] = 1.0
    top_k: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    top: Annotated[int, Field(ge=1, le=40)] = 8
    edits: Edits = ()


@dataclass(frozen=True)
class WaitQuestion:
    """Ask again for an answer that takes long."""

    ticket: Name


@dataclass(frozen=True)
class RunInfo:
    """A line of the list of runs."""

    id: str
    name: str
    path: str  # as a command names the run
    family: str
    tokens: str  # the kind of tokens; "" if the list does not know
    reads: Reads
    loss: float | None


@dataclass(frozen=True)
class Runs:
    """The list of runs, and whether the lab trains a model of its own."""

    runs: list[RunInfo]
    training: bool


@dataclass(frozen=True)
class SiteInfo:
    """A site of a model that holds weights or values. Axes are numbers of `Read.axes`."""

    name: str
    holds: Literal["weights", "values"]
    heads: list[str]
    rows: int
    columns: int
    row_side: Literal["read", "given", "whole"]
    column_side: Literal["read", "given", "whole"]
    causal: bool  # the future is hidden: a row sees the columns up to its own position
    first: int  # the position of the first row of the map
    first_column: int
    ahead: int  # 1: a row has the name of the token after its position
    extra: bool  # the last column is no position of the text
    most: float  # the largest magnitude of values; 1 for weights
    block: int = 1  # the smallest block of cells that the map can show: above 1 in the file of a long text
    known: list[int] | None = None  # the rows whose numbers can be asked; None: all


@dataclass(frozen=True)
class Chance:
    """A possible next token, or label, with its probability before and after the edits."""

    id: int
    token: str
    before: float
    after: float


@dataclass(frozen=True)
class Next:
    """The distribution after a position. `moved` is half the sum of all absolute differences."""

    chances: list[Chance]
    true: Chance | None
    true_rank_before: int | None
    true_rank_after: int | None
    moved: float


@dataclass(frozen=True)
class Picture:
    """The image that a captioner sees, with its regions."""

    data: str  # as a data URI
    width: int
    height: int
    columns: int  # of the grid of regions
    boxes: list[tuple[float, float, float, float]]  # left, top, right and bottom of each region, in pixels
    site: str  # the site whose rows are the regions: an edit there hides a region


@dataclass(frozen=True)
class Read:
    """The predictions of a model at every position of a text, and the sites that can be looked at."""

    tokens: list[str]
    word: list[int]  # the number of the word to which each token belongs
    spans: list[tuple[int, int]] | None  # with joined subwords: the positions of each word's tokens
    given_spans: list[tuple[int, int]] | None
    surprisal: list[float | None]  # nats
    ranks: list[int | None]
    likeliest: list[list[tuple[str, float]]]
    given: list[str] | None
    before: list[float | None] | None  # the surprisal without the edits
    notes: list[str]
    kind: str  # of tokens: word, char, byte, bpe
    vocabulary: int
    axes: list[list[str]]
    sites: list[SiteInfo]
    terms: list[list[tuple[str, float]]]  # the terms of the prediction of each token, the largest first
    terms_of: Literal["probability", "score"] | None
    labels: Next | None  # of a classifier: the distribution of all labels
    image: Picture | None
    right: list[tuple[int, int]] | None = None  # the gold links as (row, column), if they are known
    fills: bool = False  # `likeliest` has the words of each blank, and not the next words


@dataclass(frozen=True)
class Rows:
    """(heads, rows, columns) of a site."""

    numbers: list[list[list[float]]]


@dataclass(frozen=True)
class Scene:
    """An image for a captioner."""

    id: str
    data: str  # as a data URI
    caption: str  # the right one; of an added image, the name of its file
    file: str | None  # null: a drawn scene, which `regard scenes FOLDER --unseen --count N` writes as well


@dataclass(frozen=True)
class Scenes:
    """The images to choose from."""

    scenes: list[Scene]


@dataclass(frozen=True)
class Piece:
    """One written token."""

    id: int
    token: str  # the name of the token
    text: str  # what the token adds to the text; "" for the first bytes of a character
    probability: float
    likeliest: list[tuple[int, str, float]]
    ended: bool = False


@dataclass(frozen=True)
class Progress:
    """The training of the lab's own model."""

    state: Literal["none", "starting", "training", "done", "failed"]
    seconds: float = 0.0
    limit: float = 0.0
    losses: list[tuple[int, float, float | None]] = field(default_factory=list)  # step, training, validation
    sample: str = ""
    run: str | None = None  # the id of the finished run
    error: str = ""


@dataclass(frozen=True)
class Answer:
    """The envelope of every answer to a question."""

    state: Literal["done", "working", "dropped", "failed"]
    ticket: str = ""
    error: str = ""
    result: Any = None


QUESTIONS = (
    ReadQuestion,
    RowsQuestion,
    TileQuestion,
    MosaicQuestion,
    NextQuestion,
    ScenesQuestion,
    AddQuestion,
    WriteQuestion,
    WaitQuestion,
)
ANSWERS = (
    RunInfo,
    Runs,
    SiteInfo,
    Chance,
    Next,
    Picture,
    Read,
    Rows,
    Scene,
    Scenes,
    Piece,
    Progress,
    Answer,
)


def to_json(message: Any) -> str:
    """Return an answer as JSON. Infinite numbers become null: JSON has no infinity."""
    return json.dumps(_plain(message), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return a message as dicts and lists. (`asdict` copies every string, in four times the time.)"""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
