"""The messages of the lab's long measurements, of its senses, and of its lessons. See protocol.py."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from regard.page.protocol import (
    AddQuestion,
    Count,
    Name,
    Picture,
    ReadQuestion,
    ScenesQuestion,
    WriteQuestion,
)

Setting = Annotated[str, Field(max_length=2000)]


@dataclass(frozen=True)
class DoubtQuestion:
    """Asks how far attention can move at a prediction, and what other methods say of its words."""

    of: ReadQuestion
    place: Count  # the position after which the word is predicted; not for labels
    word: Name | None = None  # the word or label; None: the one of the text, or the likeliest
    epsilon: Annotated[float, Field(gt=0, lt=1)] = 0.01


@dataclass(frozen=True)
class SayQuestion:
    """Asks for the least change of attention that makes the model say a word, or give a label."""

    of: ReadQuestion
    place: Count
    say: Name


@dataclass(frozen=True)
class HeadsQuestion:
    """Asks for the scores and the label of each head."""

    run: Name


@dataclass(frozen=True)
class ForgetQuestion:
    """Asks how far back a model remembers."""

    run: Name


@dataclass(frozen=True)
class SensesQuestion:
    """The senses of a word, and their terms in the score of the token after a position."""

    of: ReadQuestion
    word: Name
    place: Count
    top: Annotated[int, Field(ge=1, le=40)] = 6


@dataclass(frozen=True)
class TrainedQuestion:
    """The record of a finished training."""

    run: Name


@dataclass(frozen=True)
class CourseQuestion:
    """The list of the lessons."""


@dataclass(frozen=True)
class LessonQuestion:
    """A lesson with inputs that are written as after `--set`."""

    name: Name
    inputs: Annotated[dict[Name, Setting], Field(max_length=40)] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """The stage of a long measurement, and the share of its work that is done."""

    about: str
    done: float | None  # the share of its work; None: not known


@dataclass(frozen=True)
class MovedWeights:
    """The farthest weights of a site with which the prediction stays. Divergences are in nats."""

    name: str
    divergence: float
    most: float  # of any weights
    variation: float  # of the prediction there
    entropy: float  # of the model's own weights, as a share of the largest
    permuted_divergence: float
    permuted_variation: float
    uniform_divergence: float
    uniform_variation: float


@dataclass(frozen=True)
class Method:
    """The scores of the words by one method, and the judgement of its order of words."""

    name: str
    scores: list[float]  # none of random orders
    comprehensiveness: float
    sufficiency: float


@dataclass(frozen=True)
class Doubted:
    """The measurements of one prediction."""

    words: list[str]
    target: str
    probability: float
    epsilon: float
    moved: list[MovedWeights]
    own: list[float]  # the mean weight on each word
    farthest: list[float]  # where all sites were moved farthest
    methods: list[Method]
    disagreements: list[list[float]]  # shares of pairs of words that two methods order differently
    image: Picture | None  # whose regions the words are


@dataclass(frozen=True)
class LeastMove:
    """A part of a change: the share of the weight of one word that goes to another."""

    site: str
    head: int | None
    source: str
    to: str
    share: float


@dataclass(frozen=True)
class LeastChange:
    """The least change in some sites that makes the model say a word. `moved` is None if none was found."""

    name: str
    moved: float | None
    before: float
    after: float  # or the highest probability that was reached
    moves: list[LeastMove]
    edits: list[dict[str, Any]]


@dataclass(frozen=True)
class Said:
    """The changes of each site alone and of all sites together."""

    word: str
    changes: list[LeastChange]


@dataclass(frozen=True)
class HeadScore:
    """The share of a head's weight on the positions of a definition, and chance."""

    kind: str
    value: float
    chance: float


@dataclass(frozen=True)
class HeadInfo:
    """The scores and the label of a head."""

    site: str
    head: int
    label: str | None
    entropy: float
    scores: list[HeadScore]


@dataclass(frozen=True)
class Heads:
    """The scores and labels of all heads, with the definitions of the labels."""

    heads: list[HeadInfo]
    kinds: dict[str, str]
    notes: list[str]


@dataclass(frozen=True)
class Rise:
    """The rise of the loss if what lies beyond the last words is cut off, shuffled or thinned out."""

    change: str
    beyond: int
    rise: float
    error: float


@dataclass(frozen=True)
class Forgotten:
    """The reach of a model. Curves are (distance, number)."""

    loss: float
    words: int
    reach: list[tuple[int, float]]
    rises: list[Rise]
    holds: dict[str, list[tuple[int, float]]]
    notes: list[str]


@dataclass(frozen=True)
class Sense:
    """The words that a sense says, and the words whose sense of the same number is alike."""

    number: int
    says: list[tuple[str, float]]  # how much more it raises their scores than the mean word's
    alike: list[tuple[str, float]]  # cosines


@dataclass(frozen=True)
class Senses:
    """The senses of a word, and the terms of each sense of each word in the score of the next word."""

    senses: list[Sense]
    tokens: list[str]
    next: str  # the word whose score is split
    probability: float
    terms: list[list[float]]  # of each sense: of each token
    bias: float


@dataclass(frozen=True)
class Trained:
    """The record of a finished training."""

    losses: list[tuple[int, float, float | None]]  # step, training, validation
    samples: list[tuple[int, str]]
    frames: list[int]  # the steps whose weights were kept


@dataclass(frozen=True)
class LessonInfo:
    """A lesson of the course."""

    name: str
    about: str
    builds_on: list[str]


@dataclass(frozen=True)
class Course:
    """The lessons in their order."""

    lessons: list[LessonInfo]


@dataclass(frozen=True)
class LessonInput:
    """An input of a lesson, written as after `--set`."""

    name: str
    value: str
    usual: str


@dataclass(frozen=True)
class LessonChoice:
    """A possible answer."""

    text: str
    reason: str
    right: bool


@dataclass(frozen=True)
class LessonStep:
    """A step of a lesson. The question is asked before the numbers are shown."""

    title: str
    formula: str
    math: str  # the formula as MathML; "" without one
    intro: str
    question: str
    choices: list[LessonChoice]
    picture: str  # as a data URI; "" without one
    values: list[tuple[str, str]]
    says: str


@dataclass(frozen=True)
class LessonPage:
    """A lesson with its inputs."""

    name: str
    about: str
    builds_on: list[str]
    inputs: list[LessonInput]
    steps: list[LessonStep]
    task: str
    solution: str


QUESTIONS = (
    DoubtQuestion,
    SayQuestion,
    HeadsQuestion,
    ForgetQuestion,
    SensesQuestion,
    TrainedQuestion,
    CourseQuestion,
    LessonQuestion,
)
ANSWERS = (
    Stage,
    MovedWeights,
    Method,
    Doubted,
    LeastMove,
    LeastChange,
    Said,
    HeadScore,
    HeadInfo,
    Heads,
    Rise,
    Forgotten,
    Sense,
    Senses,
    Trained,
    LessonInfo,
    Course,
    LessonInput,
    LessonChoice,
    LessonStep,
    LessonPage,
)
# The questions about a run, and not about a reading.
OF_RUN = (
    ReadQuestion,
    ScenesQuestion,
    AddQuestion,
    HeadsQuestion,
    ForgetQuestion,
    TrainedQuestion,
    WriteQuestion,
)
