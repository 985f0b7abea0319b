r"""n-gram models as ARPA files, plain or gzipped, which KenLM and SRILM read and write.

ARPA files reserve the words `<unk>`, `<s>` and `</s>`. If a text contains one of them as a word, the word is
written with a backslash: `\<unk>` is the word `<unk>`, and `<unk>` is the class of unknown words.

Shape legend: G n-grams of one order.
"""

import gzip
import math
import zlib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, final

import numpy as np
import torch

from regard.errors import UserError
from regard.models.model import Model
from regard.models.ngram import Ngram
from regard.models.ngram_smoothing import Table
from regard.runs.formats.format import Format
from regard.runs.run import Run, describe
from regard.tokens.words import END, FIRST, UNKNOWN, WordTokenizer

RESERVED = (b"<unk>", b"<s>", b"</s>")
ZERO = -99.0  # the custom for log10 of zero
CHUNK = 100_000  # lines at a time


@final
class Arpa(Format):
    name = "arpa"
    about = "an ARPA file"
    endings = (".arpa", ".arpa.gz")

    def recognises(self, path: Path) -> bool:
        return path.is_file() and path.name.endswith(self.endings)

    def read(self, path: Path, family: type[Model] | None = None) -> Run:
        model, tokenizer = read(path)
        return Run(model.eval(), tokenizer, describe(model, made_from=path.name))

    def write(self, run: Run, out: Path) -> None:
        if not isinstance(run.model, Ngram):
            raise UserError(
                f"an ARPA file holds an n-gram model; this run is of the family {run.model.family}"
            )
        if not isinstance(run.tokenizer, WordTokenizer):
            raise UserError(f"an ARPA file holds words; this run reads `tokens` {run.tokenizer.kind}")
        write(run.model, run.tokenizer, out)


def _open(path: Path, mode: str) -> BinaryIO:
    return gzip.open(path, mode) if path.name.endswith(".gz") else open(path, mode)  # type: ignore[return-value]


def escape(word: bytes) -> bytes:
    return b"\\" + word if word.lstrip(b"\\") in RESERVED else word


def unescape(word: bytes) -> bytes:
    return word[1:] if word.startswith(b"\\") and word.lstrip(b"\\") in RESERVED else word


def write(model: Ngram, tokenizer: WordTokenizer, path: Path) -> None:
    names = [b"</s>", b"<unk>", *map(escape, tokenizer.words), b"<s>"]
    with _open(path, "wb") as file:
        sizes = [len(names), *(len(model.get_buffer(f"key_{order}")) for order in range(2, model.order + 1))]
        counts = "".join(f"ngram {order}={size}\n" for order, size in enumerate(sizes, 1))
        file.write(f"\\data\\\n{counts}".encode())
        contexts = names
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            if order == 1:
                ngrams = names
            else:
                key_G = model.get_buffer(f"key_{order}")
                context, word = (
                    (key_G // model.vocabulary_size).tolist(),
                    (key_G % model.vocabulary_size).tolist(),
                )
                ngrams = [contexts[c] + b" " + names[w] for c, w in zip(context, word, strict=True)]
            log_probs = _log10(model.get_buffer(f"log_prob_{order}"))
            if order == 1:
                log_probs = np.append(log_probs, ZERO)  # the start mark
            if order < model.order:
                backoffs = _log10(model.get_buffer(f"backoff_{order}"))
                rows = zip(log_probs.tolist(), ngrams, backoffs.tolist(), strict=True)
                file.writelines(b"%.8g\t%b\t%.8g\n" % row for row in rows)
            else:
                file.writelines(b"%.8g\t%b\n" % row for row in zip(log_probs.tolist(), ngrams, strict=True))
            contexts = ngrams
        file.write(b"\n\\end\\\n")


def _log10(natural: torch.Tensor) -> np.ndarray:
    return np.maximum(natural.double().numpy() / math.log(10), ZERO)


def read(path: Path) -> tuple[Ngram, WordTokenizer]:
    """The model in an ARPA file. Its text is lines, as KenLM reads them."""
    try:
        with _open(path, "rb") as file:
            return _read(_Lines(file, path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a whole gzip file ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


class _Lines:
    """The lines of a file, without their ends and the empty ones, with errors that name file and line."""

    def __init__(self, file: BinaryIO, path: Path):
        self._file, self._path = file, path
        self.number = 0

    def next(self) -> bytes:
        for line in self._file:
            self.number += 1
            if line := line.strip():
                return line
        raise self.error("the file ends before \\end\\")

    def take(self, many: int) -> list[bytes]:
        lines = list(islice(self._file, many))
        self.number += len(lines)
        return lines

    def error(self, what: str, line: int | None = None) -> UserError:
        return UserError(f"{self._path}, line {line or self.number}: {what}; write the ARPA file again")


def _read(lines: _Lines) -> tuple[Ngram, WordTokenizer]:
    sizes = list(_sizes(lines))
    if not sizes:
        raise lines.error("no 'ngram 1=...' line after \\data\\")
    words, log_prob_G, backoff_G = _section(lines, 1, sizes[0], None)
    tokenizer = WordTokenizer((unescape(word) for word in words if word not in RESERVED), "line")
    ids_of = {escape(word): FIRST + place for place, word in enumerate(tokenizer.words)}
    ids_of |= {b"</s>": END, b"<unk>": UNKNOWN, b"<s>": tokenizer.start}
    if len(ids_of) != len(set(words) | set(RESERVED)) or len(set(words)) != len(words):
        raise lines.error("a word stands twice among the 1-grams")
    model = Ngram(tokenizer.size, Ngram.Config(order=len(sizes)))
    place = np.array([ids_of[word] for word in words])
    tables = [
        Table(
            torch.zeros(1, dtype=torch.long),
            -torch.tensor([float(tokenizer.size)]).log(),
            torch.tensor([-math.inf]),
        )
    ]
    tables.append(
        Table(
            torch.arange(tokenizer.size + 1),
            _tensor(_placed(log_prob_G, place, tokenizer.size + 1, -math.inf)),
            _tensor(_placed(backoff_G, place, tokenizer.size + 1, 0.0)) if len(sizes) > 1 else None,
        )
    )
    model.take(tables)
    for order in range(2, len(sizes) + 1):
        ids, log_prob_G, backoff_G = _section(lines, order, sizes[order - 1], ids_of)
        key_G = _keys(model, order, ids.reshape(-1, order), lines)
        sorted_G = key_G.argsort()
        table = Table(
            key_G[sorted_G],
            _tensor(log_prob_G)[sorted_G],
            _tensor(backoff_G)[sorted_G] if order < len(sizes) else None,
        )
        if bool((table.key_G[1:] == table.key_G[:-1]).any()):
            raise lines.error(f"an n-gram stands twice among the {order}-grams")
        tables.append(table)
        model.take(tables)
    if lines.next() != b"\\end\\":
        raise lines.error("expected \\end\\")
    return model, tokenizer


def _sizes(lines: _Lines) -> Iterator[int]:
    while lines.next() != b"\\data\\":
        pass
    order = 0
    while True:
        line = lines.next()
        if line == b"\\1-grams:":
            return
        order += 1
        left, _, right = line.partition(b"=")
        if left.split() != [b"ngram", b"%d" % order] or not right.strip().isdigit():
            raise lines.error(f"expected 'ngram {order}=COUNT' or '\\1-grams:'")
        yield int(right)


def _section(lines: _Lines, order: int, size: int, ids_of: dict[bytes, int] | None):
    """One order's words (as ids where a table of ids is given), log probabilities and backoffs."""
    if order > 1 and lines.next() != b"\\%d-grams:" % order:
        raise lines.error(f"expected '\\{order}-grams:'; is the count of the order below right?")
    words: list = []
    numbers = list[np.ndarray]()
    left = size
    while left:
        first = lines.number + 1
        rows = [line.split() for line in lines.take(min(left, CHUNK))]
        left -= len(rows)
        for place, row in enumerate(rows):
            if not order + 1 <= len(row) <= order + 2:
                raise lines.error(f"expected a number, {order} words and perhaps a backoff", first + place)
        if len(rows) < min(left + len(rows), CHUNK):
            raise lines.error(f"the file ends among the {order}-grams")
        flat = chain.from_iterable(row[1 : order + 1] for row in rows)
        try:
            pairs = [(row[0], row[order + 1] if len(row) > order + 1 else b"0") for row in rows]
            numbers.append(np.array(pairs, dtype=np.bytes_).astype(np.float64))
            words.append(
                list(flat) if ids_of is None else np.fromiter(map(ids_of.__getitem__, flat), dtype=np.int64)
            )
        except (ValueError, KeyError):
            raise _bad_row(lines, rows, first, order, ids_of) from None
    log_prob, backoff = np.concatenate(numbers).T if numbers else np.zeros((2, 0))
    joined = (
        list(chain.from_iterable(words))
        if ids_of is None
        else np.concatenate(words)
        if words
        else np.zeros(0, dtype=np.int64)
    )
    return joined, log_prob, backoff


def _bad_row(
    lines: _Lines, rows: list[list[bytes]], first: int, order: int, ids_of: dict[bytes, int] | None
) -> UserError:
    for place, row in enumerate(rows):
        for number in (row[0], *row[order + 1 :]):
            try:
                float(number)
            except ValueError:
                return lines.error(f"{number.decode(errors='replace')!r} is not a number", first + place)
        for word in row[1 : order + 1]:
            if ids_of is not None and word not in ids_of:
                return lines.error(
                    f"{word.decode(errors='replace')!r} is not among the 1-grams", first + place
                )
    raise AssertionError("a row that could not be read has a fault")


def _keys(model: Ngram, order: int, ids: np.ndarray, lines: _Lines) -> torch.Tensor:
    columns = torch.from_numpy(ids).unbind(1)
    node = columns[0]
    for below in range(2, order):
        node = model.find(below, node, columns[below - 1])
    wrong = ((node < 0) | (columns[-1] >= model.vocabulary_size)).nonzero()
    if len(wrong):
        what = "its first words are not an n-gram of the order below, or <s> is not its first word"
        raise lines.error(what, lines.number - len(ids) + 1 + int(wrong[0]))
    return node * model.vocabulary_size + columns[-1]


def _placed(values: np.ndarray, place: np.ndarray, size: int, default: float) -> np.ndarray:
    out = np.full(size, default)
    out[place] = values
    return out


def _tensor(log10: np.ndarray) -> torch.Tensor:
    natural = np.where(log10 <= ZERO, -math.inf, log10 * math.log(10))
    return torch.from_numpy(natural).to(torch.get_default_dtype())
