"""Files of every format from outside, written by Hypothesis from the format's grammar, right and wrong.

Each strategy gives the bytes of a file. Most of it follows the grammar, so that a reader goes beyond the
first lines; words and numbers are odd ones now and then, and some files are changed afterwards (hostile.py).
"""

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import hostile
import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from regard.parts.edit_kinds import EDITS as KINDS

Bytes = SearchStrategy[bytes]
Strings = SearchStrategy[str]

# Marks of the formats, characters that command a terminal, letters of one to four bytes, half a pair.
ALPHABET = "ab 1.-#\t\n\r\x1b\x9b\u00a0\u0301\u2028\u202e\u0645\u732b\U0001f9d1"
WORDS = st.sampled_from(["a", "b", "cat", "dog", "é", "猫"]) | st.sampled_from(
    ["<s>", "</s>", "<unk>", "\\a", "\\data\\", "\u202eabc", "\x1b[31m", "nan", "1", "\u00a0", "-"]
)
TEXTS = st.text(ALPHABET, max_size=12) | st.lists(WORDS, max_size=6).map(" ".join)
NUMBERS = st.integers(-2, 12).map(str) | st.floats(-9, 0).map(lambda value: f"{value:.4f}")
ODD_NUMBERS = st.sampled_from(
    [word.decode("latin-1") for word in hostile.ODD_WORDS] + ["1_0", "0x1", "²", "1e", "9" * 5000]
)
FIGURES = st.integers(0, 9).flatmap(lambda place: ODD_NUMBERS if place == 9 else NUMBERS)
VALUES: SearchStrategy[Any] = st.recursive(
    st.sampled_from(hostile.ODD) | st.integers(-3, 9) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def rarely(usual: SearchStrategy[Any], odd: SearchStrategy[Any], every: int = 12) -> SearchStrategy[Any]:
    """The odd value now and then."""
    return st.integers(0, every).flatmap(lambda place: odd if place == every else usual)


def changed(files: Bytes) -> Bytes:
    """Change a quarter of the files: bytes are flipped, cut, doubled or swapped, lines replaced."""
    ways = st.sampled_from(["", "", "", "", "", "", "bytes", "lines"])
    return st.builds(
        lambda data, way, seed: hostile.change(data, seed, way) if way else data,
        files,
        ways,
        st.integers(0, 10**6),
    )


def lines_of(line: Strings, most: int = 8, fewest: int = 0) -> Bytes:
    ends = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n"])
    files = st.builds(
        lambda lines, end: end.join([*lines, ""]), st.lists(line, min_size=fewest, max_size=most), ends
    )
    return changed(files.map(lambda text: text.encode("utf-8", "replace")))


def columns_of(*columns: Strings, separator: str = "\t") -> Strings:
    """Lines with these columns; now and then a column is missing or there is one more."""
    wrong = st.lists(TEXTS, max_size=7)
    return rarely(st.tuples(*columns), wrong).map(separator.join)


def as_json(values: SearchStrategy[Any]) -> Bytes:
    return changed(values.map(lambda value: json.dumps(value).encode()))


def near(value: Any) -> SearchStrategy[Any]:
    """Values like a good one: of its type, with other numbers, other words, other lengths."""
    match value:
        case dict() if value:
            return varied(value)
        case bool() | None:
            return st.none() | st.booleans()
        case int():
            return st.integers(-2, 300) | st.sampled_from([value + 1, 2**31 - 1, 2**31, 10**30])
        case float():
            return st.floats(-2, 2) | st.floats(allow_nan=False)
        case str():
            return TEXTS | st.sampled_from([value[1:], value + value[-1:], value.upper()])
        case list() if value:
            some = st.lists(st.sampled_from(range(len(value))), max_size=len(value) + 1)
            return some.map(lambda places: [value[place] for place in places])
    return VALUES


def varied(good: dict[str, Any]) -> SearchStrategy[Any]:
    """A good object, with one or two other values, a key less or a key more."""
    keys = st.lists(
        rarely(st.sampled_from([*good]), st.just("unknown"), 6), min_size=1, max_size=2, unique=True
    )
    other = keys.flatmap(
        lambda names: st.fixed_dictionaries({name: rarely(near(good.get(name)), VALUES, 3) for name in names})
    )
    values = other.map(lambda new: {**good, **new})
    less = st.sampled_from([*good]).map(lambda name: {key: good[key] for key in good if key != name})
    return st.integers(0, 9).flatmap(lambda place: {0: less, 1: VALUES, 2: st.just(good)}.get(place, values))


@st.composite
def arpa(draw: Callable[[Any], Any]) -> bytes:
    """A model whose probabilities sum to less than one. Numbers, words and counts are odd now and then."""
    words = draw(st.lists(rarely(st.sampled_from("abcdef"), WORDS, 6), min_size=1, max_size=5, unique=True))
    names = ["<unk>", "<s>", "</s>", *words][draw(rarely(st.just(0), st.integers(1, 3))) :]
    orders = draw(st.integers(1, 3))
    sections, before = list[list[str]](), [""]
    for order in range(1, orders + 1):
        grams = [f"{left} {name}".strip() for left in before if not left.endswith("</s>") for name in names]
        if order > 1:
            some = st.lists(st.sampled_from(grams), max_size=6, unique=True) if grams else st.just([])
            grams = sorted(draw(some))
        rows = []
        for gram in grams:
            number = f"{-(order + 0.1 * len(names)):.3f}"
            row = [draw(rarely(st.just(number), FIGURES, 30)), gram]
            row += [draw(rarely(st.just("-0.1"), FIGURES, 30))] if order < orders else []
            rows.append("\t".join(row))
        sections.append(rows)
        before = grams
    counts = [draw(rarely(st.just(str(len(rows))), FIGURES, 30)) for rows in sections]
    head = ["\\data\\", *(f"ngram {order}={count}" for order, count in enumerate(counts, 1)), ""]
    body = [line for order, rows in enumerate(sections, 1) for line in (f"\\{order}-grams:", *rows, "")]
    return "\n".join([*head, *body, "\\end\\", ""]).encode("utf-8", "replace")


@st.composite
def word2vec(draw: Callable[[Any], Any], binary: bool) -> bytes:
    words = ["a", *draw(st.lists(rarely(WORDS, TEXTS), max_size=5))]
    width = draw(st.integers(1, 4))
    head = [draw(rarely(st.just(str(number)), FIGURES)) for number in (len(words), width)]
    file = io.BytesIO()
    file.write(" ".join(head).encode("utf-8", "replace") + b"\n")
    for word in words:
        own = draw(rarely(st.just(width), st.integers(0, 9), 20))
        file.write(word.encode() + b" ")
        if binary:
            finite = st.floats(-2, 2, width=32)
            every = rarely(finite, st.floats(width=32), 40)
            numbers = draw(st.lists(every, min_size=own, max_size=own))
            file.write(np.array(numbers, "<f4").tobytes() + b"\n")
        else:
            numbers = draw(st.lists(FIGURES, min_size=own, max_size=own))
            file.write(" ".join(numbers).encode("utf-8", "replace") + b"\n")
    return file.getvalue()


@st.composite
def arrays(draw: Callable[[Any], Any]) -> bytes:
    """An .npz file of weights with its words."""
    shape = draw(st.lists(st.integers(0, 3), max_size=5))
    kind = draw(rarely(st.just("float64"), st.sampled_from(["int8", "bool", "complex64", "U3", "float16"])))
    weights = np.zeros(shape, kind) if kind == "U3" else np.linspace(0, 1, int(np.prod(shape))).astype(kind)
    held: dict[str, Any] = {draw(rarely(st.just("weights"), st.just("other"))): weights.reshape(shape)}
    for name in draw(st.lists(st.sampled_from(["tokens", "rows", "columns"]), max_size=2, unique=True)):
        held[name] = np.array(draw(st.lists(WORDS, max_size=4)))
    file = io.BytesIO()
    np.savez(file, **held)
    return file.getvalue()


def _link(mark: str) -> Strings:
    return st.builds(lambda first, second: f"{first}{mark}{second}", FIGURES, FIGURES)


PLACES = st.integers(0, 4).map(str)
LINKS = lines_of(
    st.lists(
        rarely(
            st.builds("{}{}{}".format, PLACES, st.sampled_from("-p?"), PLACES),
            _link("-") | ODD_NUMBERS.map("0-{}".format) | TEXTS,
            12,
        ),
        max_size=5,
    ).map(" ".join),
    3,
    fewest=3,
)
LABELLED = lines_of(columns_of(st.sampled_from(["good", "bad"]) | TEXTS, TEXTS))
LINE = st.fixed_dictionaries(
    {"label": rarely(st.sampled_from("xy"), VALUES, 20), "text": rarely(WORDS, VALUES, 20)}
)
LABELLED_LINES = changed(
    st.lists(rarely(LINE, VALUES, 20), max_size=9).map(
        lambda values: "".join(json.dumps(value) + "\n" for value in values).encode()
    )
)
TABLE = st.builds(
    lambda head, body: head + body,
    rarely(st.just(b"good\ttext\n"), lines_of(columns_of(WORDS, WORDS), 1), 3),
    LABELLED,
)
CAPTIONS = lines_of(columns_of(rarely(st.sampled_from(["a.png", "b.png"]), TEXTS, 6), TEXTS))
SIDES = ((1, 2), (0, 1), (0, 9), (0, 9), (20, 99), (20, 128))  # line, word, left, top, right, bottom
BOXES = lines_of(columns_of(*[rarely(st.integers(*side).map(str), FIGURES, 30) for side in SIDES]), 4)
PAIRS = lines_of(columns_of(TEXTS, TEXTS))
WORD_PAIRS = st.sampled_from("\t,; ").flatmap(
    lambda mark: lines_of(columns_of(WORDS, WORDS, FIGURES, separator=mark))
)
QUESTIONS = lines_of(st.lists(WORDS | st.just(":"), max_size=5).map(" ".join))
MAPS = as_json(
    st.fixed_dictionaries(
        {"weights": rarely(st.lists(st.lists(st.floats(0, 1), max_size=3), max_size=3), VALUES, 4)},
        optional={"tokens": st.lists(TEXTS, max_size=3) | VALUES, "rows": VALUES, "columns": VALUES},
    )
    | VALUES
)
ENDS = ("", ".scores", ".query", ".value", "*")
PLACED = ("heads", "rows", "columns", "value", "by", "seed", "order", "to", "words", "direction", "source")
EDIT = st.fixed_dictionaries(
    {
        "do": rarely(st.sampled_from(list(KINDS)), VALUES),
        "site": rarely(st.sampled_from([f"layer0.attention{end}" for end in ENDS]), VALUES),
    },
    optional={
        name: st.lists(st.integers(-2, 9), max_size=3) | st.floats(-2, 2) | st.integers(-1, 3) | VALUES
        for name in PLACED
    },
)
EDITS = as_json(
    st.lists(EDIT, max_size=2) | EDIT | st.fixed_dictionaries({"edits": st.lists(EDIT, max_size=2) | VALUES})
)


def settings_of(default: Any) -> Strings:
    """Inputs of a lesson, written as on the command line, in the shape of its own input and in others."""
    if isinstance(default, int | float):
        likely: Strings = FIGURES
    elif isinstance(default, str):
        likely = TEXTS
    elif isinstance(default[0], tuple):
        likely = st.lists(st.lists(FIGURES, max_size=3).map(",".join), max_size=3).map(";".join)
    elif isinstance(default[0], str):
        likely = st.lists(TEXTS, max_size=3).map("/".join)
    else:
        likely = st.lists(FIGURES, max_size=5).map(",".join)
    return rarely(likely, TEXTS | FIGURES, 4)


def lesson_settings(inputs: dict[str, dict[str, Any]]) -> SearchStrategy[tuple[str, str]]:
    """The name of a lesson and a setting of it."""
    pairs: Sequence[SearchStrategy[tuple[str, str]]] = [
        st.tuples(st.just(lesson), settings_of(default).map(f"{name}={{}}".format))
        for lesson, defaults in inputs.items()
        for name, default in defaults.items()
    ]
    return st.one_of(pairs)
