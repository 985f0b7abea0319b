"""Encoded texts in files that are mapped into memory, for texts that are too large to be kept in memory.

A shard is a folder in the user's cache: the ids of all tokens (16 or 32 bits), the ends of the documents
(64 bits), and a description with the hashes of both. Its name is a hash of the texts and the tokenizer, so
that the next training on the same text finds it. A shard is written beside its place and renamed, under a
lock that other processes wait for.
"""

import contextlib
import hashlib
import json
import mmap
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import IO, final

import numpy as np
import torch
from torch import Tensor

from regard.boundary import parse_json, read_bytes
from regard.errors import MachineError, UserError, notify
from regard.machine.cache import cache_folder
from regard.machine.disk import (
    BEGUN,
    FULL,
    file_hash,
    flush,
    is_begun,
    lock_file,
    remove_files,
    wait_for_lock,
    write_json,
)
from regard.ranges import Count, Size
from regard.text.documents import Document
from regard.text.files import Source
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.encoding import encode_strings

FORMAT = 1
NAME = re.compile("[0-9a-f]{32}")  # of the folder of a shard
FILES = IDS, ENDS, ABOUT = "ids.bin", "ends.bin", "shard.json"


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The description of a shard."""

    format: int = FORMAT
    files: tuple[str, ...]  # the names of the texts
    kind: str
    document: Document
    tokens: Count
    documents: Count
    bytes: Size  # of the texts
    unknown: Size
    bits: int  # of an id
    sha256: dict[str, str]  # of the other files


def encode_sources(tokenizer: Tokenizer, sources: Sequence[Source]) -> Encoded:
    """Encode texts, one after the other: in memory, or as a shard if they are large."""
    if all(source.in_memory for source in sources):
        return tokenizer.encode_texts([source.text for source in sources])
    described = json.dumps([FORMAT, tokenizer.to_json(), [source.sha256 for source in sources]])
    name = hashlib.sha256(described.encode()).hexdigest()[:32]
    folder = shards_folder() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with wait_for_lock(_lock(folder), "another regard encodes the same text"):
        found = _open(folder)
        if found is None:
            with _told_if_full(folder.parent):
                _write(tokenizer, sources, folder)
            found = _open(folder)
    if found is None:
        raise MachineError(f"{folder}: cannot be read back; the disk may be damaged: set REGARD_CACHE")
    return found


def shards_folder() -> Path:
    return cache_folder() / "shards"


def read_shard(folder: Path) -> Shard:
    """Read the description of a shard."""
    shard = parse_json(Shard, read_bytes(folder / ABOUT, str(folder)), f"{folder}: {ABOUT}")
    if shard.format != FORMAT or shard.bits not in (16, 32):
        raise UserError(f"{folder}: was written by another version")
    return shard


@dataclass(frozen=True)
class KeptShard:
    """A shard as `regard shards` lists it."""

    name: str
    files: tuple[str, ...]
    kind: str
    document: str
    tokens: int
    documents: int
    megabytes: float
    used: str  # the day of the last use


def kept_shards() -> list[KeptShard]:
    """Return the shards in the cache, the last used first. What a killed process left has only a size."""
    ours = (path for path in shards_folder().glob("*") if NAME.fullmatch(path.name) or is_begun(path.name))
    folders = [path for path in ours if path.is_dir()]
    return [_kept(folder) for folder in sorted(folders, key=lambda folder: -folder.stat().st_mtime)]


def _kept(folder: Path) -> KeptShard:
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    try:
        shard = read_shard(folder)
        about = (shard.files, shard.kind, shard.document, shard.tokens, shard.documents)
        used = (folder / ABOUT).stat().st_mtime
    except (OSError, UserError):
        about, used = ((), "damaged", "file", 0, 0), folder.stat().st_mtime
    return KeptShard(folder.name, *about, size, date.fromtimestamp(used).isoformat())


def remove_shard(name: str) -> None:
    """Remove a shard. A process that reads it keeps its files until it ends."""
    folder = shards_folder() / name
    with lock_file(_lock(folder), folder):
        _clear(folder)


def _remove_ours(folder: Path) -> None:
    """Remove the files of a shard and what a killed process left of them. Other files stay."""
    begun = [path.name for path in folder.glob(f"{BEGUN}*") if is_begun(path.name)]
    remove_files(folder, (*FILES, *begun))


def _clear(folder: Path) -> None:
    _remove_ours(folder)
    if folder.exists():
        raise UserError(f"{folder}: holds files that regard did not write, which stay; move them elsewhere")


def _lock(folder: Path) -> Path:
    """The lock of a shard, and of the folder beside in which it is written."""
    name = folder.name.removeprefix(BEGUN).partition(".")[0]
    return folder.with_name(f"{name}.lock")


def _open(folder: Path) -> Encoded | None:
    """Map the files of a shard, if they are whole."""
    if not folder.exists():
        return None
    try:
        shard = read_shard(folder)
        whole = all(file_hash(folder / file) == shard.sha256.get(file) for file in (IDS, ENDS))
    except (OSError, UserError):
        whole = False
    if not whole:
        notify(f"{folder}: a file of encoded text is damaged; the text is encoded again")
        return None
    os.utime(folder / ABOUT)  # the time of the last use
    ids, ends = (
        _Mapped(folder / IDS, np.uint16 if shard.bits == 16 else np.uint32),
        _Mapped(folder / ENDS, np.int64),
    )

    def release() -> None:
        ids.release()
        ends.release()

    return Encoded(ids.tensor, ends.tensor, shard.bytes, shard.unknown, release)


@final
class _Mapped:
    """A file of numbers as a tensor, whose pages are read when they are needed."""

    def __init__(self, path: Path, dtype: type[np.generic]):
        with path.open("rb") as file:
            # A copy on writing, because torch has no tensors that cannot be written.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.tensor: Tensor = torch.from_numpy(np.frombuffer(self._map, dtype))

    def release(self) -> None:
        """Give the pages back. The system's cache of files keeps them as long as there is room."""
        if sys.platform != "win32":
            self._map.madvise(mmap.MADV_DONTNEED)


def _write(tokenizer: Tokenizer, sources: Sequence[Source], folder: Path) -> None:
    """Encode the texts into a folder beside, and rename it."""
    for left in folder.parent.glob(f"{BEGUN}{folder.name}.*.tmp"):  # of a process that died
        _remove_ours(left)
    beside = folder.with_name(f"{BEGUN}{folder.name}.{os.getpid()}.tmp")
    beside.mkdir()
    try:
        bits = 16 if tokenizer.size <= 1 << 16 else 32
        tokens, documents, unknown = _write_ids(tokenizer, sources, beside, bits)
        shard = Shard(
            files=tuple(source.name for source in sources),
            kind=tokenizer.kind,
            document=tokenizer.document,
            tokens=tokens,
            documents=documents,
            bytes=sum(source.size for source in sources),
            unknown=unknown,
            bits=bits,
            sha256={file: file_hash(beside / file) for file in (IDS, ENDS)},
        )
        write_json(asdict(shard), beside / ABOUT)
        _clear(folder)  # a damaged one
        os.replace(beside, folder)
        flush(folder.parent)
    finally:
        _remove_ours(beside)


def _write_ids(
    tokenizer: Tokenizer, sources: Sequence[Source], folder: Path, bits: int
) -> tuple[int, int, int]:
    """Write the ids and the ends. Return the number of tokens, of documents and of unknown tokens."""
    tokens = documents = unknown = 0
    dtype = np.uint16 if bits == 16 else np.uint32
    with _flushed(folder / IDS) as ids_file, _flushed(folder / ENDS) as ends_file:
        for source in sources:
            for piece in encode_strings(tokenizer, source.strings()):
                ids_file.write(piece.ids.astype(dtype).tobytes())
                ends_file.write((piece.ends + tokens).tobytes())
                tokens += len(piece.ids)
                documents += len(piece.ends)
                unknown += piece.unknown
    return tokens, documents, unknown


@contextlib.contextmanager
def _flushed(path: Path) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _told_if_full(folder: Path) -> Iterator[None]:
    """Say where encoded texts lie, and how to move them, if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise MachineError(
            f"the disk is full while the text is encoded into {folder}: free some room (regard shards lists "
            "encoded texts, and removes them), or set REGARD_CACHE to a folder on another disk"
        ) from None
