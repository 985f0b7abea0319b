"""Reads text from files, folders, globs, archives, URLs and standard input: strict UTF-8, newlines unchanged.

Texts of up to LARGE characters are kept in memory. Larger ones are read again, in strings of about a million
characters, whenever they are needed.
"""

import glob
import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from regard.errors import UserError
from regard.text.documents import PIECE, ROW, Document
from regard.text.opening import STANDARD_INPUT, decoded, has_rows, is_url, plain_strings, strings

LARGE = 1 << 26  # characters of all texts that are read at once and kept in memory


@dataclass(frozen=True)
class File:
    """A file that is read again whenever its text is needed."""

    characters: int
    row_end: str = "\n"  # follows each row of JSON lines or Parquet


NO_FILE = File(0)


@final
class Source:
    """One text and the name of its file: a string, or the characters of a file from `first` to `last`.

    The part of the file before `first` is training text.
    """

    def __init__(self, name: str, text: str | None, first: int = 0, *, file: File = NO_FILE, last: int = 0):
        self.name, self.first = name, first
        self._text, self._file = text, file
        self._last = first + len(text) if text is not None else last

    def __len__(self) -> int:
        return self._last - self.first

    @property
    def in_memory(self) -> bool:
        return self._text is not None

    @property
    def row_end(self) -> str:
        return self._file.row_end

    @property
    def text(self) -> str:
        """The whole text."""
        return self._text if self._text is not None else "".join(self.strings())

    @property
    def utf8(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _hash(self) -> tuple[str, int]:
        """The hash and the number of the text's UTF-8 bytes."""
        digest, size = hashlib.sha256(), 0
        for string in self.unchecked():
            data = string.encode()
            digest.update(data)
            size += len(data)
        return digest.hexdigest(), size

    @property
    def sha256(self) -> str:
        return self._hash[0]

    @property
    def size(self) -> int:
        """The number of UTF-8 bytes."""
        return self._hash[1]

    def strings(self) -> Iterator[str]:
        """Yield the text in strings. A text that has changed since it was read before is an error."""
        digest = hashlib.sha256()
        for string in self.unchecked():
            if not self.in_memory:
                digest.update(string.encode())
            yield string
        if not self.in_memory and digest.hexdigest() != self.sha256:
            raise self._changed()

    def part(self, first: int, last: int) -> "Source":
        """The characters from `first` to `last` of this text."""
        text = None if self._text is None else self._text[first:last]
        return Source(self.name, text, self.first + first, file=self._file, last=self.first + last)

    def unchecked(self) -> Iterator[str]:
        """Yield the text in strings, for a look at a part of it."""
        if self._text is not None:
            yield from (self._text[place : place + PIECE] for place in range(0, len(self._text), PIECE))
            return
        place = 0
        for string in strings(self.name, self._file.row_end):
            inside = string[max(0, self.first - place) : max(0, self._last - place)]
            place += len(string)
            if inside:
                yield inside
            if place >= self._last < self._file.characters:
                return
        if place != self._file.characters:
            raise self._changed()

    def _changed(self) -> UserError:
        return UserError(f"{self.name}: has changed while it was read; give a copy that nothing writes to")

    def record(self) -> dict[str, object]:
        """The name, size and hash of the text, for the config of a run."""
        return {"name": self.name, "first": self.first, "bytes": self.size, "sha256": self.sha256}


def read(paths: str | Path | Sequence[str | Path], rows: bool = False) -> list[Source]:
    """Read all files of one path or several, in a stable order.

    With `rows`, rows of JSON lines and Parquet end with ROW, otherwise with a newline.

    >>> [source.name for source in read("README.md")]  # doctest: +SKIP
    ['README.md']
    """
    every_path = [paths] if isinstance(paths, str | Path) else paths
    names = [name for path in every_path for name in _expand(str(path))]
    row_end = ROW if rows else "\n"
    texts, files, left = list[str](), list[File](), LARGE
    for name in names:
        characters, text = _read_through(strings(name, row_end), left)
        left -= characters
        files.append(File(characters, row_end))
        texts = [*texts, text] if left >= 0 else []
    if left >= 0:
        return [Source(name, text, file=file) for name, text, file in zip(names, texts, files, strict=True)]
    return [
        Source(name, None, file=file, last=file.characters) for name, file in zip(names, files, strict=True)
    ]


def choose_document(paths: Sequence[str], document: Document | None) -> Document:
    """Return the unit of text that is a document: rows for files of rows, unless another is chosen."""
    names = [name for path in paths for name in _expand(path)]
    kinds = {has_rows(name) for name in names}
    if document == "row" and kinds != {True}:
        raise UserError("`document` row is for JSON lines (.jsonl) and Parquet; give file, line or blank")
    if document is None and len(kinds) > 1:
        raise UserError("some of the files hold rows, and others do not: say which `document` there is")
    return document or ("row" if kinds == {True} else "file")


def _read_through(strings: Iterator[str], most: int) -> tuple[int, str]:
    """Return the number of characters, and the text if it has at most `most` characters."""
    characters, kept = 0, list[str]()
    for string in strings:
        characters += len(string)
        if characters <= most:
            kept.append(string)
        else:
            kept.clear()
    return characters, "".join(kept)


def read_file(name: str) -> Source:
    """Read a whole file of another kind than plain text, such as a table."""
    return Source(name, "".join(plain_strings(name)))


def decode(data: bytes, name: str) -> str:
    """Decode UTF-8. An error names the file, the byte and a remedy."""
    return "".join(decoded(iter([data]), name))


def hold_out_files(sources: Sequence[Source], share: float = 0.1) -> tuple[list[Source], list[Source]]:
    """Split files into training and validation text: the last `share` of all characters is held out.

    The cut moves to the next end of a row, a line, or else of a word, if there is one within half of the
    share. The file at the cut is split in two. Files are never joined.
    """
    whole = sum(map(len, sources))
    cut = int(whole * (1 - share))
    cut = _next_end(sources, cut, cut + int(whole * share / 2))
    train, valid, left = list[Source](), list[Source](), cut
    for source in sources:
        size = min(left, len(source))
        left -= size
        train += [source.part(0, size)] if size else []
        valid += [source.part(size, len(source))] if size < len(source) else []
    return train, valid


def _next_end(sources: Sequence[Source], cut: int, limit: int) -> int:
    """Return the place after the first row end, line end or space from `cut` on, or else `cut`."""
    marks = f"{ROW}\n " if any(source.row_end == ROW for source in sources) else "\n "
    found = dict[str, int]()
    place = 0
    for source in sources:
        inside = source.part(max(0, min(len(source), cut - place)), max(0, min(len(source), limit - place)))
        place += inside.first - source.first
        for string in inside.unchecked():
            for mark in marks:
                if mark not in found and mark in string:
                    found[mark] = place + string.index(mark) + 1
            if marks[0] in found:
                return found[marks[0]]
            place += len(string)
        place += len(source) - (inside.first - source.first) - len(inside)
    return next((found[mark] for mark in marks if mark in found), cut)


def _expand(path: str) -> list[str]:
    if path == STANDARD_INPUT or is_url(path):
        return [path]
    if Path(path).is_dir():
        names = sorted(
            str(file)
            for file in Path(path).rglob("*")
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
        )
        if not names:
            raise UserError(f"{path}: the folder holds no files")
        return [part for name in names for part in _parts(name)]
    if Path(path).exists():
        return _parts(path)
    names = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())
    if not names:
        kind = "no file matches" if glob.has_magic(path) else "no such file"
        raise UserError(f"{path}: {kind}; give a file, a folder, a glob or - for standard input")
    return [part for name in names for part in _parts(name)]


def _parts(name: str) -> list[str]:
    """Return the files of an archive, in the order of their names; of another file, its own name."""
    if not name.endswith(".zip"):
        return [name]
    try:
        with zipfile.ZipFile(name) as archive:
            parts = sorted(part for part in archive.namelist() if not part.endswith("/"))
    except zipfile.BadZipFile as error:
        raise UserError(f"{name}: not a whole zip file ({error}); make it again") from None
    if not parts:
        raise UserError(f"{name}: the archive holds no files")
    return [f"zip://{part}::{name}" for part in parts]
