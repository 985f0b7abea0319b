"""The contract of every tokenizer: text to integers, and each integer to the bytes that it stands for.

Models predict ids below `size`. `start` (`<s>`) and `padding` are ids above, which are inputs only.

Shape legend: N tokens of all documents, D documents.
"""

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import UserError
from regard.text.documents import Document, Piece, split

if TYPE_CHECKING:
    from torch import Tensor

LETTER = re.compile(r"\S(?=.)", re.DOTALL)  # with a character after it


def nothing() -> None:
    """Do nothing: the ids of a small text stay in memory."""


@dataclass(frozen=True)
class Encoded:
    """Encoded documents, joined into one sequence. Each document ends with the end token of the tokenizer."""

    ids_N: "Tensor"  # of any integer type; the ids of a large text lie in a mapped file
    ends_D: "Tensor"  # the index after the last token of each document
    bytes: int  # the UTF-8 bytes of the text
    unknown: int  # the number of unknown tokens
    release: Callable[[], None] = nothing  # gives the pages of a mapped file back to the system

    @property
    def starts_D(self) -> "Tensor":
        """(D): the index of the first token of each document."""
        starts_D = self.ends_D.roll(1)
        starts_D[0] = 0
        return starts_D

    @property
    def lengths_D(self) -> "Tensor":
        """(D): the number of tokens of each document, end included."""
        return self.ends_D - self.starts_D

    def __len__(self) -> int:
        return len(self.ids_N)

    def first(self, tokens: int) -> "Encoded":
        """Return the first `tokens` tokens, which may cut the last document. `bytes` stays the same."""
        if len(self) <= tokens:
            return self
        whole = int((self.ends_D < tokens).sum())
        ends_D = self.ends_D[: whole + 1].clone()
        ends_D[-1] = tokens
        return Encoded(self.ids_N[:tokens], ends_D, self.bytes, self.unknown, self.release)


class Tokenizer(ABC):
    """The base class of tokenizers."""

    kind: str
    document: Document
    size: int  # the number of tokens that can be predicted
    end: int  # the end of a document (for words: the end of a line)
    unknown: int | None = None  # the id of unknown words or characters; None if every text can be encoded

    @property
    def start(self) -> int:
        """The id of the start mark `<s>`."""
        return self.size

    @property
    def padding(self) -> int:
        """The id of padding."""
        return self.size + 1

    @property
    def stop(self) -> int | None:
        """The token that ends a generated text, or None if there is no such token."""
        return self.end

    @abstractmethod
    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all documents, each with an end token, and the index after each document."""

    @abstractmethod
    def token_bytes(self, token: int, previous: int | None) -> bytes:
        """Return the bytes that `token` adds to a text whose last token is `previous`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return a description from which `parse_tokenizer` (saved.py) makes the same tokenizer."""

    @abstractmethod
    def cut(self, text: str, first: int) -> int:
        """Return a place of a long document, at `first` or later, where it may be cut: no token changes.

        The place lies before or after white space, never inside, and a character follows. -1 if there is no
        such place in this beginning of the document.
        """

    def encode_piece(self, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of a piece of a text, and the index after each document that ends in it."""
        ids, ends = self.encode_documents(piece.documents)
        self.check_lossless(piece.documents, ids, ends)
        if not piece.unfinished:
            return ids, ends
        return self.without_end(piece.documents[-1], ids), ends[:-1]

    def without_end(self, document: str, ids: np.ndarray) -> np.ndarray:
        """Return the ids without the end token of the last document, which goes on."""
        return ids[:-1]

    def encode(self, text: str) -> Encoded:
        """Split a text into documents and encode them."""
        return self.encode_whole(split(text, self.document), len(text.encode()))

    def encode_whole(self, documents: list[str], size: int) -> Encoded:
        """Encode documents of `size` bytes, to measure or to train a model on the whole of them."""
        ids, ends = self.encode_documents(documents)
        self.check_lossless(documents, ids, ends)
        return self.encoded(ids, ends, size)

    def check_lossless(self, documents: list[str], ids: np.ndarray, ends: np.ndarray) -> None:
        """Decode every document and compare, so that no figure is of less than the text.

        Only a space before a document is allowed, which some tokenizers add.
        """
        if not self.lossless:
            return
        tokens = ids.tolist()
        for document, (first, last) in zip(documents, pairwise([0, *ends.tolist()]), strict=True):
            read = self.decode(tokens[first : last - 1])
            if read not in (document, f" {document}"):
                raise UserError(f"{_difference(document, read)}; use another model, or change the text")

    @property
    def lossless(self) -> bool:
        """Whether decoded tokens are the text itself. Otherwise unknown tokens are counted."""
        return self.unknown is None

    def encode_texts(self, texts: list[str]) -> Encoded:
        """Encode several texts, one after the other. No document crosses from one text to the next."""
        import torch

        parts = [self.encode(text) for text in texts]
        offsets = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return Encoded(
            torch.cat([part.ids_N for part in parts]),
            torch.cat([part.ends_D + int(offset) for part, offset in zip(parts, offsets, strict=True)]),
            sum(part.bytes for part in parts),
            sum(part.unknown for part in parts),
        )

    def encoded(self, ids: np.ndarray, ends: np.ndarray, size: int) -> Encoded:
        """Make an `Encoded` from ids and ends, for a text of `size` bytes."""
        import torch  # only here: the processes that encode large texts start without it

        return Encoded(torch.from_numpy(ids), torch.from_numpy(ends), size, self.count_unknown(ids))

    def count_unknown(self, ids: np.ndarray) -> int:
        """Return the number of unknown tokens."""
        return 0 if self.unknown is None else int((ids == self.unknown).sum())

    def prompt(self, text: str) -> list[int]:
        """Return the ids of the beginning of a document, without an end token."""
        ids, _ = self.encode_documents([text])
        return self.without_end(text, ids).tolist()

    def decoder(self, previous: int | None = None) -> Callable[[int], str]:
        """Return a function that converts tokens to text one by one.

        A character of several tokens is returned with its last token.
        """
        utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

        def decode(token: int) -> str:
            nonlocal previous
            added = self.token_bytes(token, previous)
            previous = token
            return utf8.decode(added)

        return decode

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids."""
        out, previous = [], None
        for token in ids:
            out.append(self.token_bytes(token, previous))
            previous = token
        return b"".join(out).decode("utf-8", "replace")

    def name(self, token: int) -> str:
        """Return a token for display: `<s>`, `<unk>`, `</s>` or its own text."""
        return show_bytes(self.piece(token))

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token's name. A character of several tokens is whole only in their bytes."""
        special = {self.start: b"<s>", self.padding: b"<pad>", self.unknown: b"<unk>", self.end: b"</s>"}
        return special.get(token) or self.token_bytes(token, None)

    @property
    def end_bytes(self) -> bytes:
        """The bytes of the end token: a newline if documents are lines or rows."""
        return b"\n" if self.document in ("line", "row") else b""


def _difference(text: str, read: str) -> str:
    """Say where a text and what was read of it differ."""
    letters = enumerate(zip(text, read, strict=False))
    shorter = min(len(text), len(read))
    place = next((place for place, (one, other) in letters if one != other), shorter)
    first = max(0, place - 8)
    both = f"{text[first : place + 8]!r} is read as {read[first : place + 8]!r}"
    return f"this tokenizer does not keep the text (at character {place}, {both})"


def with_ends(ids: np.ndarray, lengths: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Put an end token after each document. Return the ids, and the index after each document."""
    ends = np.cumsum(lengths + 1, dtype=np.int64)
    out = np.empty(len(ids) + len(lengths), dtype=np.int32)
    is_end = np.zeros(len(out), dtype=bool)
    is_end[ends - 1] = True
    out[is_end] = end
    out[~is_end] = ids
    return out, ends


def after_a_letter(text: str, first: int) -> int:
    """Return the first place from `first` on after a character that is no white space, or -1."""
    found = LETTER.search(text, max(0, first - 1))
    return found.end() if found else -1


def show_bytes(data: bytes) -> str:
    """Decode UTF-8. Bytes of a character that was split have codes.

    >>> show_bytes(b"caf\\xc3")
    'caf<c3>'
    """
    shown = data.decode("utf-8", "surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda byte: f"<{ord(byte[0]) - 0xDC00:02x}>", shown)
