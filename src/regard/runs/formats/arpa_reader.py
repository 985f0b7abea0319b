"""Reads an ARPA file into an n-gram model. Nothing in the file is trusted: numbers, counts, lengths, sums.

Shape legend: G n-grams of one order.
"""

import gzip
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
import torch

from regard.errors import UserError, notify
from regard.models.ngram import Ngram
from regard.models.ngram_smoothing import Table
from regard.probabilities.normalised import impossible_context, unused_backoffs
from regard.ranges import MOST_ORDERS
from regard.tokens.words import END, FIRST, UNKNOWN, WordTokenizer

RESERVED = (b"<unk>", b"<s>", b"</s>")
ZERO = -99.0  # the custom for log10 of zero
ROUNDING = 1e-5  # log10 of a probability of one may be so much above zero
CHUNK = 100_000  # lines at a time
LONGEST_LINE = 1 << 20  # bytes; the lines of real ARPA files have at most some hundred
LONGEST_NUMBER = 40  # characters
DIGITS = 12  # of a count
GZIP = b"\x1f\x8b"


def escape(word: bytes) -> bytes:
    return b"\\" + word if word.lstrip(b"\\") in RESERVED else word


def unescape(word: bytes) -> bytes:
    return word[1:] if word.startswith(b"\\") and word.lstrip(b"\\") in RESERVED else word


def open_to_read(path: Path) -> BinaryIO:
    """Open a file, compressed or not: the first bytes of the file tell, whatever its name is."""
    with open(path, "rb") as file:
        compressed = file.read(2) == GZIP
    return gzip.open(path, "rb") if compressed else open(path, "rb")  # type: ignore[return-value]


def read(path: Path) -> tuple[Ngram, WordTokenizer]:
    """The model in an ARPA file. Its text is lines, as KenLM reads them."""
    try:
        with open_to_read(path) as file:
            return _read(_Lines(file, path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a whole gzip file ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


@final
class _Lines:
    """The lines of a file, without their ends and the empty ones, with errors that name file and line."""

    def __init__(self, file: BinaryIO, path: Path):
        self._lines, self._path = iter(partial(file.readline, LONGEST_LINE), b""), path
        self.number = 0

    def next(self) -> bytes:
        for line in self._lines:
            self.number += 1
            self._check_lengths([line])
            if line := line.strip():
                return line
        raise self.error("the file ends before \\end\\")

    def take(self, many: int) -> list[bytes]:
        lines = list(islice(self._lines, many))
        self._check_lengths(lines)
        self.number += len(lines)
        return lines

    def _check_lengths(self, lines: list[bytes]) -> None:
        if max(map(len, lines), default=0) == LONGEST_LINE:
            raise self.error(f"this line, or one soon after it, has more than {LONGEST_LINE:,} bytes")

    def notify(self, what: str) -> None:
        notify(f"{self._path}: {what}")

    def error(self, what: str, line: int | None = None) -> UserError:
        return UserError(f"{self._path}, line {line or self.number}: {what}; write the ARPA file again")


@dataclass(frozen=True)
class _Section:
    """The numbers of one order, in log10, and the line of each n-gram."""

    log_prob_G: np.ndarray
    backoff_G: np.ndarray
    line_G: np.ndarray

    def placed(self, place_G: np.ndarray, size: int) -> "_Section":
        """Move the numbers to places of a larger table. The other places have probability zero."""
        section = _Section(np.full(size, -np.inf), np.zeros(size), np.zeros(size, dtype=np.int64))
        section.log_prob_G[place_G] = self.log_prob_G
        section.backoff_G[place_G] = self.backoff_G
        section.line_G[place_G] = self.line_G
        return section

    def sorted(self, order_G: np.ndarray) -> "_Section":
        return _Section(self.log_prob_G[order_G], self.backoff_G[order_G], self.line_G[order_G])

    def table(self, key_G: torch.Tensor, has_backoff: bool) -> Table:
        return Table(key_G, _natural(self.log_prob_G), _natural(self.backoff_G) if has_backoff else None)


def _natural(log10_G: np.ndarray) -> torch.Tensor:
    natural_G = np.where(log10_G <= ZERO, -math.inf, log10_G * math.log(10))
    return torch.from_numpy(natural_G).to(torch.get_default_dtype())


def _read(lines: _Lines) -> tuple[Ngram, WordTokenizer]:
    sizes = _sizes(lines)
    words, section = _section(lines, 1, sizes[0], None)
    _check_words(words, lines)
    tokenizer = WordTokenizer((unescape(word) for word in words if word not in RESERVED), "line")
    ids_of = {escape(word): FIRST + place for place, word in enumerate(tokenizer.words)}
    ids_of |= {b"</s>": END, b"<unk>": UNKNOWN, b"<s>": tokenizer.start}
    model = Ngram(tokenizer.size, Ngram.Config(order=len(sizes)))
    place_G = np.array([ids_of[word] for word in words], dtype=np.int64)
    sections = [section.placed(place_G, tokenizer.size + 1)]
    uniform = -torch.tensor([float(tokenizer.size)]).log()
    tables = [Table(torch.zeros(1, dtype=torch.long), uniform, torch.tensor([-math.inf]))]
    tables.append(sections[0].table(torch.arange(tokenizer.size + 1), len(sizes) > 1))
    model.take(tables)
    for order in range(2, len(sizes) + 1):
        ids, section = _section(lines, order, sizes[order - 1], ids_of)
        key_G = _keys(model, ids.reshape(-1, order), section, lines)
        sorted_G = key_G.argsort()
        section, key_G = section.sorted(sorted_G.numpy()), key_G[sorted_G]
        twice = (key_G[1:] == key_G[:-1]).nonzero()
        if len(twice):
            line = int(section.line_G[1 + int(twice[0])])
            raise lines.error(f"an n-gram stands twice among the {order}-grams", line)
        sections.append(section)
        tables.append(section.table(key_G, order < len(sizes)))
        model.take(tables)
    if lines.next() != b"\\end\\":
        raise lines.error("expected \\end\\")
    _check_sums(model, sections, lines)
    return model, tokenizer


def _sizes(lines: _Lines) -> list[int]:
    """The number of n-grams of each order, from the header."""
    while lines.next() != b"\\data\\":
        pass
    sizes = list[int]()
    while (line := lines.next()) != b"\\1-grams:":
        order = len(sizes) + 1
        left, _, right = line.partition(b"=")
        digits = right.strip()
        if left.split() != [b"ngram", b"%d" % order] or not digits.isdigit() or len(digits) > DIGITS:
            raise lines.error(f"expected 'ngram {order}=COUNT' or '\\1-grams:'")
        if order > MOST_ORDERS:
            raise lines.error(f"regard reads at most {MOST_ORDERS} orders")
        sizes.append(int(digits))
    if not sizes:
        raise lines.error("no 'ngram 1=...' line after \\data\\")
    return sizes


def _section(lines: _Lines, order: int, size: int, ids_of: dict[bytes, int] | None) -> tuple[Any, _Section]:
    """One order: its words (as ids where a table of ids is given), and its numbers."""
    if order > 1 and lines.next() != b"\\%d-grams:" % order:
        raise lines.error(f"expected '\\{order}-grams:'; is the count of the order below right?")
    begin = lines.number + 1
    words, numbers = list[Iterable](), [np.zeros((0, 2))]
    while (left := begin + size - 1 - lines.number) > 0:
        first, many = lines.number + 1, min(left, CHUNK)
        rows = [line.split() for line in lines.take(many)]
        for place, row in enumerate(rows):
            if not order + 1 <= len(row) <= order + 2:
                raise lines.error(f"expected a number, {order} words and perhaps a backoff", first + place)
        if len(rows) < many:
            raise lines.error(f"the file ends among the {order}-grams")
        flat = chain.from_iterable(row[1 : order + 1] for row in rows)
        try:
            numbers.append(_numbers(rows, order))
            known = flat if ids_of is None else np.fromiter(map(ids_of.__getitem__, flat), dtype=np.int64)
            words.append(list(known) if ids_of is None else known)
        except (ValueError, KeyError):
            raise _bad_row(lines, rows, first, order, ids_of) from None
    log_prob_G, backoff_G = np.concatenate(numbers).T
    section = _Section(log_prob_G, backoff_G, np.arange(begin, begin + size))
    if ids_of is None:
        return list(chain.from_iterable(words)), section
    return np.concatenate([np.zeros(0, dtype=np.int64), *words]), section


def _numbers(rows: list[list[bytes]], order: int) -> np.ndarray:
    """(G, 2): the log probability and the backoff of each row. Raises a ValueError if one is impossible."""
    texts = [(row[0], row[order + 1] if len(row) > order + 1 else b"0") for row in rows]
    if max(map(len, chain.from_iterable(texts))) > LONGEST_NUMBER:
        raise ValueError("too long")
    numbers = np.array(texts, dtype=np.bytes_).astype(np.float64)
    if not np.isfinite(numbers).all() or numbers[:, 0].max() > ROUNDING:
        raise ValueError("not finite, or positive")
    return numbers


def _bad_row(
    lines: _Lines, rows: list[list[bytes]], first: int, order: int, ids_of: dict[bytes, int] | None
) -> UserError:
    """The error for the first row that cannot be read."""
    for place, row in enumerate(rows):
        for number in (row[0], *row[order + 1 :]):
            try:
                value = float(number[: LONGEST_NUMBER + 1])
            except ValueError:
                value = math.nan
            if not math.isfinite(value) or len(number) > LONGEST_NUMBER:
                return lines.error(f"{_shown(number)} is not a number", first + place)
            if number is row[0] and value > ROUNDING:
                return lines.error(f"{_shown(number)} is above 0, as no log probability is", first + place)
        for word in row[1 : order + 1]:
            if ids_of is not None and word not in ids_of:
                return lines.error(f"{_shown(word)} is not among the 1-grams", first + place)
    raise AssertionError("a row that could not be read has a fault")


def _shown(word: bytes) -> str:
    return repr(word[:LONGEST_NUMBER].decode(errors="replace"))


def _check_words(words: list[bytes], lines: _Lines) -> None:
    """Refuse words that no text can hold, and words that stand twice."""
    joined = b" ".join(words)
    if len(set(words)) != len(words):
        raise lines.error("a word stands twice among the 1-grams")
    try:
        joined.decode()
    except UnicodeDecodeError as error:
        word = joined.count(b" ", 0, error.start)
        first = lines.number + 1 - len(words)
        raise lines.error("a word is not UTF-8: convert the file first, or", first + word) from None
    if b"\0" in joined:
        raise lines.error("a word holds a zero byte, which no text may hold")
    if b"<unk>" not in words:
        lines.notify("holds no <unk>, so a word outside its vocabulary has probability zero")


def _keys(model: Ngram, ids_GO: np.ndarray, section: _Section, lines: _Lines) -> torch.Tensor:
    """(G): the key of each n-gram in the table of its order."""
    columns = torch.from_numpy(ids_GO).unbind(1)
    node_G = columns[0]
    for below in range(2, len(columns)):
        node_G = model.find(below, node_G, columns[below - 1])
    wrong = ((node_G < 0) | (columns[-1] >= model.vocabulary_size)).nonzero()
    if len(wrong):
        what = "its first words are not an n-gram of the order below, or <s> is not its first word"
        raise lines.error(what, int(section.line_G[int(wrong[0])]))
    return node_G * model.vocabulary_size + columns[-1]


def _check_sums(model: Ngram, sections: list[_Section], lines: _Lines) -> None:
    """Refuse probabilities that sum to more than one.

    A backoff above 1 is possible if little of the probability below is left for other words, as in Katz's
    model. After an n-gram that nothing follows, it is not, but KenLM's own test file has one: a notice.
    """
    wrong = impossible_context(model)
    if wrong is not None:
        order, node, total = wrong
        if not order:
            raise lines.error(f"the probabilities of the 1-grams sum to {total:.4g}")
        why = f"the probabilities after this n-gram sum to {total:.4g}"
        raise lines.error(
            f"{why}: its backoff is above 0, or they are", int(sections[order - 1].line_G[node])
        )
    for order, section in enumerate(sections[:-1], 1):
        unused = unused_backoffs(model, order)
        if len(unused):
            line = int(section.line_G[int(unused[0])])
            lines.notify(f"line {line} has a backoff above 0 where nothing follows, so figures may be wrong")
            return
