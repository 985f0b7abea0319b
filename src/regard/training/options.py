"""The options of a training: data, tokens, model and training loop."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval

from regard.boundary import build
from regard.errors import UserError
from regard.machine.cluster import need_scheduler
from regard.machine.memory import usable_memory
from regard.machine.sorting import need_engine
from regard.machine.spill import parse_size
from regard.models import FAMILIES, family_class
from regard.models.model import Model
from regard.ranges import (
    Count,
    NotNegative,
    Number,
    Positive,
    Seed,
    Share,
    UpToHalf,
    UpToOne,
    check_sizes,
)
from regard.tokens.choose import TokenOptions

# The options that are paths of files.
PATHS = (
    "text",
    "valid",
    "test",
    "labelled",
    "vectors",
    "source",
    "target",
    "pairs",
    "valid_source",
    "valid_target",
    "vocabulary",
    "images",
    "captions",
    "boxes",
    "features",
    "valid_captions",
)
MOST_ACCUMULATED = 1 << 16  # batches of one step, which are read before it begins
LENGTHS = ("steps", "minutes", "epochs")  # the options of the length of a training
SEVERAL = ("text", "valid", "test", "labelled")  # the options that may be several paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The options of every training."""

    # The options of the loop that this kind of data does not use, each with the option to give instead.
    unused: ClassVar[dict[str, str]] = {}

    out: str | None = None
    """The run folder to write (runs/FAMILY)."""
    seed: Seed = 1
    """Seed of all random numbers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions(OutputOptions):
    """The data options of families that read text."""

    text: tuple[str, ...] = ()
    """Training text: files, folders, globs, or - for standard input. Without it, the built-in text."""
    valid: tuple[str, ...] = ()
    """Validation text. Without `valid` and `test`, the last tenth of the training text is held out."""
    test: tuple[str, ...] = ()
    """Test text. The run stores its path, and `regard evaluate` measures it by default."""
    hold: UpToHalf = 0.1
    """Share of the training text to hold out for validation if neither validation nor test text is given; 0:
    hold out nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordsOptions(TextOptions):
    """The data options of word embeddings."""

    unused = dict.fromkeys(
        (
            "optimiser",
            "clip",
            "weight_decay",
            "beta2",
            "label_smoothing",
            "accumulate",
            "precision",
            "compile",
        ),
        "a step moves only the vectors of its words, by plain gradient descent; give `learning_rate`",
    ) | dict.fromkeys(("average", "patience"), "its last vectors are the result; give `epochs`")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlankOptions(TextOptions):
    """The data options of families that fill blanks."""

    vectors: str | None = None
    """A run with word vectors, or a word2vec file, whose vectors the words begin with. Their width is given
    by `width`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairOptions(OutputOptions):
    """The data options of families that read sentence pairs."""

    unused = dict.fromkeys(("batch", "segment"), "it reads pairs; give `batch_tokens`")

    source: str | None = None
    """Source sentences, one in each line. Without any files, the built-in English and Spanish sentences."""
    target: str | None = None
    """Translations of the source sentences, in the same lines."""
    pairs: str | None = None
    """Sentence pairs in a single file instead, one pair in each line: source TAB target."""
    valid_source: str | None = None
    """Source sentences for validation. Without them, a tenth of the source sentences is held out."""
    valid_target: str | None = None
    """Translations of the validation sentences."""
    shared: bool = False
    """Use one vocabulary for both sides (bpe)."""
    longest: Count = 100
    """Maximal number of tokens in a sentence. Pairs with longer sentences are left out and counted."""
    batch_tokens: Count = 1024
    """Maximal number of tokens on the longer side of a batch, padding included."""
    stop_on: Literal["loss", "bleu"] = "loss"
    """The figure that decides which weights are best: the lowest loss, or the highest BLEU."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelOptions(OutputOptions):
    """The data options of families that read labelled texts."""

    unused: ClassVar[dict[str, str]] = {"segment": "it reads whole texts"}

    labelled: tuple[str, ...] = ()
    """Labelled texts: lines label TAB text, a table with `columns`, or JSON lines (.jsonl) with the fields
    label and text. Without them, the built-in reviews."""
    columns: str | None = None
    """The columns of label and text, as LABEL,TEXT, in a table whose first line names them; or the fields of
    JSON lines."""
    valid: tuple[str, ...] = ()
    """Validation texts of the same form. Without them, a tenth of each label is held out."""
    test: tuple[str, ...] = ()
    """Test texts of the same form. The run stores their path, and `regard evaluate` measures them by
    default."""
    hold: UpToHalf = 0.1
    """Share of the texts of each label to hold out for validation, if no validation texts are given; 0: hold
    out nothing."""
    vectors: str | None = None
    """A run with word vectors, or a word2vec file, whose vectors the words begin with. Their width is given
    by `width`."""
    word_dropout: Share = 0.1
    """Share of words that are read as <unk> in training, so that words never seen can be read later."""
    stop_on: Literal["loss", "accuracy"] = "loss"
    """The figure that decides which weights are best."""

    def column_names(self) -> list[str]:
        """Return the names in `columns`."""
        return self.columns.split(",") if self.columns else []


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaptionOptions(OutputOptions):
    """The data options of families that read captions of images."""

    unused: ClassVar[dict[str, str]] = {"segment": "it reads whole captions"}

    images: str | None = None
    """The folder of the images. Without any files, the built-in scenes."""
    captions: str | None = None
    """A caption in each line: file TAB caption. The files lie in the folder of the images."""
    boxes: str | None = None
    """The parts of the images that words name: line TAB word TAB left TAB top TAB right TAB bottom [TAB
    kind]. A line of the captions counts from 1, a word from 0, and the rest is in pixels."""
    features: str | None = None
    """Given features instead of images: an .npz file with an array (regions, features) for each name."""
    valid_captions: str | None = None
    """Captions for validation, of images in the same folder. Without them, a tenth of the images is held
    out."""
    side: Annotated[int, Interval(ge=4, le=4096)] = 64
    """Longest side of an image in the model, in pixels. Larger images are made smaller."""
    scenes: Annotated[int, Interval(ge=100, le=1_000_000)] = 40000
    """Number of built-in scenes to train on."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options of the training loop."""

    steps: Count | None = None
    """Number of training steps (1000, unless minutes or epochs are given)."""
    minutes: Positive | None = None
    """Minutes of training, instead of steps."""
    epochs: Positive | None = None
    """Number of times that the training text is read, instead of steps."""
    batch: Count = 16
    """Number of rows in a batch."""
    segment: Count = 64
    """Number of tokens of a row in a step, for families that carry a state (dan, window, recurrent)."""
    learning_rate: Positive = 0.002
    """The highest learning rate."""
    warmup: Share = 0.05
    """Share of the training in which the learning rate rises to the highest."""
    decay: Literal["cosine", "linear"] = "cosine"
    """Shape of the curve in which the learning rate falls after the warm-up."""
    floor: UpToOne = 0.01
    """Last learning rate, as a share of the highest."""
    label_smoothing: Share = 0.0
    """Share of each target that is distributed equally over all tokens."""
    average: Count = 1
    """Average the weights of this many last validations, if the average is better than the best weights."""
    weight_decay: NotNegative = 0.1
    """Weight decay of matrices."""
    beta2: Share = 0.99
    """Decay rate of AdamW's average of squared gradients."""
    clip: Positive | None = 1.0
    """Largest norm of the gradient. Larger gradients are scaled down."""
    accumulate: Count = 1
    """Number of batches whose gradients are added for a step."""
    optimiser: Literal["adamw", "muon", "sgd"] = "adamw"
    """Muon updates the matrices inside the model, and AdamW the other parameters. For sgd, try a learning
    rate of 20 and a clip of 0.25."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of linear layers. auto measures whether bf16 is faster on this machine."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the model with torch.compile. auto compiles on a GPU, for models without a carried state."""
    evaluate_every: Count = 200
    """Number of steps between validations. Each validation is followed by a checkpoint."""
    patience: Number = 0
    """Stop after this many validations without an improvement; 0: never stop early."""
    film: bool = False
    """Keep the weights of every validation in the run folder, for `regard film` (families with attention)."""
    tensorboard: bool = False
    """Also write the metrics for TensorBoard into the run folder (needs regard[tensorboard])."""
    size: Literal["small", "medium"] = "small"
    """Size of the default model and training: small (seconds on a CPU) or medium (minutes on a GPU)."""
    resume: bool = False
    """Continue the stopped training in `out`, with its own options and text."""

    def __post_init__(self) -> None:
        if self.accumulate > MOST_ACCUMULATED:
            most = f"`accumulate` must be at most {MOST_ACCUMULATED}"
            raise UserError(f"{most}: a step holds all these batches")
        if sum(getattr(self, name) is not None for name in LENGTHS) > 1:
            raise UserError("give one of `steps`, `minutes` and `epochs`, not both")
        if self.optimiser == "sgd" and self.learning_rate * self.weight_decay > 0.01:
            raise UserError(
                "with `optimiser` sgd, a step scales every weight by 1 - `learning_rate` x `weight_decay`: "
                "give `weight_decay` 1e-6, or 0"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CountingOptions:
    """The options of families that learn by counting."""

    memory: str | None = None
    """Most memory that the training may take, such as 4GB: the rest is kept in files beside the run (needs
    regard[large]). The model is the same. Default: count in memory."""
    engine: str | None = None
    """Address of a Dask scheduler, such as tcp://10.0.0.1:8786, whose workers sort the n-grams. They must see
    the folder `out` (needs regard[cluster])."""

    def __post_init__(self) -> None:
        if self.memory is not None:
            parse_size(self.memory)
            need_engine()
        if self.engine is not None:
            need_scheduler()

    @property
    def budget(self) -> int | None:
        """The bytes of memory, or None to count in memory. With an engine, half of the machine by default."""
        if self.memory is not None:
            return parse_size(self.memory)
        return None if self.engine is None else usable_memory() // 2


DATA_OPTIONS: dict[str, type[OutputOptions]] = {
    "text": TextOptions,
    "words": WordsOptions,
    "pairs": PairOptions,
    "blanks": BlankOptions,
    "labels": LabelOptions,
    "captions": CaptionOptions,
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a training, by kind."""

    family: type[Model]
    data: Any  # TextOptions, PairOptions or CaptionOptions, depending on the data that the family reads
    tokens: TokenOptions
    model: Any  # the family's Config
    training: TrainingOptions | CountingOptions | None  # None: the family learns nothing


def option_classes(family: type[Model]) -> list[type]:
    """Return the dataclasses of a family's options: data, tokens, model and how it learns.

    They have the family's own defaults.
    """
    kinds = [DATA_OPTIONS[family.reads], with_defaults(TokenOptions, family.token_defaults), family.Config]
    if family.learns == "counting":
        return [*kinds, CountingOptions]
    if family.learns != "descent":
        return kinds
    return [*kinds, with_defaults(TrainingOptions, family.training_defaults)]


def with_defaults(kind: type, defaults: Mapping[str, Any]) -> type:
    """Return a subclass of a dataclass with other defaults."""
    annotations = {field.name: field.type for field in dataclasses.fields(kind) if field.name in defaults}
    own = type(kind.__name__, (kind,), {**defaults, "__annotations__": annotations})
    return dataclasses.dataclass(frozen=True, kw_only=True)(own)


def read_options(family: type[Model], given: Mapping[str, Any]) -> Options:
    """Check options and sort them by kind. Raises a UserError for an unknown name or a wrong value."""
    values = {name: _files(value) if name in SEVERAL else value for name, value in given.items()}
    if values.get("size") == "medium":
        values = {**family.medium, **values}
    refuse_unused(family, values)
    if not values.keys().isdisjoint(LENGTHS):  # a given length replaces the family's own
        values = {**dict.fromkeys(family.training_defaults.keys() & {*LENGTHS}), **values}
    kinds = option_classes(family)
    names = [option_names(kind) for kind in kinds]
    unknown = sorted(set(values) - set().union(*names))
    if unknown:
        raise UserError(_unknown(family.family, unknown[0], set().union(*names)))
    built: list[Any] = []
    for kind, own in zip(kinds, names, strict=True):
        built.append(build(kind, {name: value for name, value in values.items() if name in own}))
        check_sizes(built[-1])
    data, tokens, model, *training = built
    return Options(family, data, tokens, model, training[0] if training else None)


def unused_options(family: type[Model]) -> dict[str, str]:
    """Return the options of the loop that a family does not use, each with the option to give instead."""
    if family.bounded:
        return {"segment": "it reads whole contexts; give `context`", **DATA_OPTIONS[family.reads].unused}
    return DATA_OPTIONS[family.reads].unused


def refuse_unused(family: type[Model], names: Iterable[str]) -> None:
    """Raise a UserError if the family does not use one of these options of the loop."""
    unused = unused_options(family)
    for name in names:
        if name in unused:
            raise UserError(f"{family.family} has no `{name}`: {unused[name]}")


def option_names(kind: type) -> set[str]:
    """Return the names of a dataclass's fields."""
    return {field.name for field in dataclasses.fields(kind)}


def families_with_option(name: str) -> list[str]:
    """Return the families that have an option with this name."""
    classes = ((family, family_class(family)) for family in FAMILIES)
    return [
        family
        for family, kind in classes
        if name not in unused_options(kind)
        and any(name in option_names(options) for options in option_classes(kind))
    ]


def _unknown(family: str, name: str, known: set[str]) -> str:
    others = families_with_option(name)
    hint = f"it belongs to {', '.join(others)}" if others else f"there are: {', '.join(sorted(known))}"
    return f"{family} has no option {name!r}; {hint}"


def _files(value: Any) -> Any:
    """Return a path or several paths as a tuple of strings."""
    return (str(value),) if isinstance(value, str | Path) else tuple(str(item) for item in value)
