"""Opens texts in the forms in which they come, and decodes them piece by piece.

A name may be a path, a URL that fsspec opens (https://, s3://, zip://part.txt::texts.zip), or - for standard
input. The ending says how it is compressed (.gz, .bz2, .xz, .zst) and whether it holds rows (JSON lines,
Parquet).
"""

import bz2
import codecs
import gzip
import json
import lzma
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from functools import lru_cache
from typing import IO, Any, final

from regard.errors import UserError
from regard.machine.cache import cache_folder
from regard.machine.inputs import open_input
from regard.text.documents import ROW

READ = 1 << 20  # bytes that are read at a time
PACKED = 1 << 16  # bytes of a .zst file that are decompressed at a time
IN_MEMORY = 1 << 26  # bytes of standard input that are kept in memory
LINE = 1 << 28  # characters of the longest line of JSON
COLUMN = "text"
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
JSON_LINES, PARQUET = (".jsonl", ".ndjson"), (".parquet",)
STANDARD_INPUT = "-"


def has_rows(name: str) -> bool:
    """Whether a file holds rows with a text each."""
    return _uncompressed(name).endswith(JSON_LINES + PARQUET)


def is_url(name: str) -> bool:
    return "://" in name


def strings(name: str, row_end: str) -> Iterator[str]:
    """Yield a text as strings of about a million characters. Rows end with `row_end`."""
    kind = _uncompressed(name)
    if kind.endswith(PARQUET):
        rows = _parquet_rows(name)
    elif kind.endswith(JSON_LINES):
        rows = _json_rows(plain_strings(name), name)
    else:
        return plain_strings(name)
    return _joined(rows, row_end)


def _joined(rows: Iterator[str], row_end: str) -> Iterator[str]:
    """Yield strings of several rows: thousands of short strings would take more time."""
    held, size = list[str](), 0
    for row in rows:
        held += row, row_end
        size += len(row) + 1
        if size >= READ:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def plain_strings(name: str) -> Iterator[str]:
    """Yield the characters of a file, decompressed, in strings of about a million."""
    return decoded(_chunks(name), name)


def _opened(name: str) -> AbstractContextManager[IO[bytes]]:
    """Open a file or a URL as it is."""
    if not is_url(name):
        return open_input(name)
    fsspec = _import("fsspec", "reads URLs and archives")
    *parts, last = name.split("::")
    # A text is read several times; what is not on this machine is copied once, until the end of the process.
    local = last.partition("://")[0] in ("file", "local", "memory", "zip", last)
    try:
        return fsspec.open("::".join([*parts, *([] if local else ["simplecache"]), last]), "rb")
    except (ImportError, ValueError) as error:  # no driver for this protocol
        raise UserError(f"{name}: cannot be opened ({error})") from None


def _uncompressed(name: str) -> str:
    """The name without the ending of a compressed file. An archive's name follows the name of its part."""
    part = name.split("::")[0].lower()
    ending = next((ending for ending in COMPRESSED if part.endswith(ending)), "")
    return part.removesuffix(ending)


@lru_cache(maxsize=1)
def _spooled(stream: IO[bytes]) -> IO[bytes]:
    """A stream as a file without a name, so that it can be read again. It disappears with the process."""
    folder = cache_folder()
    spooled = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, dir=str(folder))  # noqa: SIM115
    while data := stream.read(READ):
        if spooled.tell() + len(data) > IN_MEMORY:
            folder.mkdir(parents=True, exist_ok=True)
        spooled.write(data)
    return spooled


def _chunks(name: str) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed."""
    try:
        if name == STANDARD_INPUT:
            spooled = _spooled(sys.stdin.buffer)
            spooled.seek(0)
            yield from iter(lambda: spooled.read(READ), b"")
            return
        with _opened(name) as raw, closing(_decompressed(raw, name)) as file:
            yield from iter(lambda: file.read(READ), b"")
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        kind = name.rpartition(".")[2]
        again = "make it again with gzip" if kind == "gz" else "make it again"
        raise UserError(f"{name}: not a whole {_KINDS.get(kind, kind)} file ({error}); {again}") from None
    except OSError as error:
        shown = "standard input" if name == STANDARD_INPUT else name
        raise UserError(f"{shown}: cannot be read ({error.strerror or error})") from None


_KINDS = {"gz": "gzip", "bz2": "bzip2"}


def _decompressed(raw: IO[bytes], name: str) -> Any:
    part = name.split("::")[0]
    if part.endswith(".gz"):
        return gzip.GzipFile(fileobj=raw)
    if part.endswith(".bz2"):
        return bz2.BZ2File(raw)
    if part.endswith(".xz"):
        return lzma.LZMAFile(raw)
    if part.endswith(".zst"):
        return _Zstd(raw, _import("zstandard", "reads .zst"))
    return raw


@final
class _Zstd:
    """A reader that notices a cut file: the library's own reader ends without an error."""

    def __init__(self, raw: IO[bytes], library: Any):
        self._raw, self._library = raw, library
        self._frame: Any = None
        self._rest = b""  # the beginning of the next frame

    def read(self, _: int) -> bytes:
        while data := self._rest or self._raw.read(PACKED):
            self._rest = b""
            self._frame = self._frame or self._library.ZstdDecompressor().decompressobj()
            try:
                read = self._frame.decompress(data)
            except self._library.ZstdError as error:
                raise EOFError(str(error)) from None
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
            if read:
                return read
        if self._frame is not None:
            raise EOFError("its end is missing")
        return b""

    def close(self) -> None:
        """Nothing: the file belongs to the caller."""


def decoded(chunks: Iterator[bytes], name: str) -> Iterator[str]:
    """Decode UTF-8. An error names the file, the byte and a remedy."""
    rest, read = b"", 0  # `read` bytes lie before `rest`
    for chunk in chunks:
        text, rest, read = _decode(rest + chunk, name, read, False)
        if text:
            yield text
    if rest:
        _decode(rest, name, read, True)
    if not read:
        raise UserError(f"{name}: the file is empty; give a file with text in it")


def _decode(data: bytes, name: str, before: int, final: bool) -> tuple[str, bytes, int]:
    """Return the text, the bytes of a character that is not whole, and the number of bytes decoded."""
    zero = data.find(b"\0")
    if zero >= 0:
        raise UserError(f"{name}: a binary file (byte {before + zero} is zero); give plain text in UTF-8")
    try:
        text, used = codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}: byte {before + error.start} (0x{data[error.start]:02x}) is not UTF-8; "
            f"convert it first, for example: iconv -f latin1 -t utf-8 {name}"
        ) from None
    return text, data[used:], before + used


def _json_rows(pieces: Iterator[str], name: str) -> Iterator[str]:
    """Yield the texts of JSON lines."""
    for number, line in enumerate(_lines(pieces, name), 1):
        if not line.strip():
            continue
        where = f"{name}: line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where} is not JSON ({error})") from None
        if not isinstance(row, dict) or COLUMN not in row:
            there = ", ".join(row) if isinstance(row, dict) else type(row).__name__
            raise UserError(f"{where} has no field {COLUMN!r}; it has: {there or 'nothing'}")
        yield _row(row[COLUMN], where)


def _row(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise UserError(f"{where}: the field {COLUMN!r} holds no text but {json.dumps(text)[:40]}")
    if ROW in text:
        raise UserError(f"{where}: the text holds a zero character; leave the row out")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{where}: the text holds half of a surrogate pair; leave the row out") from None
    return text


def _lines(pieces: Iterator[str], name: str) -> Iterator[str]:
    rest = list[str]()  # the beginning of a line, in pieces
    size = 0
    for piece in pieces:
        first, *others = piece.split("\n")
        rest.append(first)
        size += len(first)
        if size > LINE:
            raise UserError(f"{name}: a line of JSON has more than {LINE:,} characters")
        if others:
            yield "".join(rest)
            yield from others[:-1]
            rest, size = [others[-1]], len(others[-1])
    yield "".join(rest)


def _parquet_rows(name: str) -> Iterator[str]:
    """Yield the texts of a Parquet file."""
    parquet = _import("pyarrow.parquet", "reads Parquet")
    arrow = _import("pyarrow", "reads Parquet")
    try:
        with _opened(name) as raw, closing(parquet.ParquetFile(raw)) as file:
            names = file.schema_arrow.names
            if COLUMN not in names:
                raise UserError(f"{name}: has no column {COLUMN!r}; its columns are: {', '.join(names)}")
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=[COLUMN]):
                for text in batch.column(0).to_pylist():
                    number += 1
                    yield _row(text, f"{name}: row {number}")
            if not number:
                raise UserError(f"{name}: the file has no rows; give a file with text in it")
    except arrow.ArrowException as error:
        raise UserError(f"{name}: not a whole Parquet file ({str(error).splitlines()[0]})") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror or error})") from None


def _import(module: str, does: str) -> Any:
    """Import a library of the extra `corpora`."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise UserError(f"{library} {does} and is not installed: pip install 'regard[corpora]'") from None
