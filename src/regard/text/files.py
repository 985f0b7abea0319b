"""Reads text from files, folders, globs, gzip and standard input: strict UTF-8, newlines unchanged."""

import glob
import gzip
import hashlib
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.errors import UserError
from regard.machine.inputs import read_input, read_stream
from regard.text.documents import hold_out


@dataclass(frozen=True)
class Source:
    """One text and the name of its file."""

    name: str
    text: str
    first: int = 0  # the text begins at this character of the file; the part before it is training text

    @cached_property
    def utf8(self) -> bytes:
        return self.text.encode()

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.utf8).hexdigest()

    def record(self) -> dict[str, object]:
        """The name, size and hash of the text, for the config of a run."""
        return {"name": self.name, "first": self.first, "bytes": len(self.utf8), "sha256": self.sha256}


def read(paths: str | Path | Sequence[str | Path]) -> list[Source]:
    """Read all files of one path or several, in a stable order.

    >>> [source.name for source in read("README.md")]  # doctest: +SKIP
    ['README.md']
    """
    every_path = [paths] if isinstance(paths, str | Path) else paths
    return [read_file(name) for path in every_path for name in _expand(str(path))]


def read_file(name: str) -> Source:
    return Source(name, decode(_bytes(name), name))


def decode(data: bytes, name: str) -> str:
    """Decode UTF-8. An error names the file, the byte and a remedy."""
    if not data:
        raise UserError(f"{name}: the file is empty; give a file with text in it")
    zero = data.find(b"\0")
    if zero >= 0:
        raise UserError(f"{name}: a binary file (byte {zero} is zero); give plain text in UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}: byte {error.start} (0x{data[error.start]:02x}) is not UTF-8; "
            f"convert it first, for example: iconv -f latin1 -t utf-8 {name}"
        ) from None


def hold_out_files(sources: Sequence[Source], share: float = 0.1) -> tuple[list[Source], list[Source]]:
    """Split files into training and validation text: the last `share` of all characters is held out.

    The file at the cut is split in two. Files are never joined.
    """
    first, _ = hold_out("".join(source.text for source in sources), share)
    train, valid, left = list[Source](), list[Source](), len(first)
    for source in sources:
        before, after = source.text[:left], source.text[left:]
        left = max(0, left - len(source.text))
        train += [Source(source.name, before, source.first)] if before else []
        valid += [Source(source.name, after, source.first + len(before))] if after else []
    return train, valid


def _expand(path: str) -> list[str]:
    if path == "-":
        return [path]
    if Path(path).is_dir():
        names = sorted(
            str(file)
            for file in Path(path).rglob("*")
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
        )
        if not names:
            raise UserError(f"{path}: the folder holds no files")
        return names
    if Path(path).exists():
        return [path]
    names = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())
    if not names:
        kind = "no file matches" if glob.has_magic(path) else "no such file"
        raise UserError(f"{path}: {kind}; give a file, a folder, a glob or - for standard input")
    return names


def _bytes(name: str) -> bytes:
    try:
        if name == "-":
            return read_stream(sys.stdin.buffer, "standard input")
        data = read_input(name)
        return gzip.decompress(data) if name.endswith(".gz") else data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{name}: not a whole gzip file ({error}); make it again with gzip") from None
    except OSError as error:
        shown = "standard input" if name == "-" else name
        raise UserError(f"{shown}: cannot be read ({error.strerror})") from None
