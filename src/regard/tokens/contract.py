"""What every tokenizer keeps: text in, integers out, and the bytes behind each integer.

Ids below `size` can be predicted. `start` (`<s>`) and `padding` lie above them, so they are inputs that can never be predicted.

Shape legend: N tokens of all documents, D documents.
"""

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.text.documents import Document, split


@dataclass(frozen=True)
class Encoded:
    """Documents as one row of ids. Each document ends with the tokenizer's end; `ends_D` is where it ends (exclusive)."""

    ids_N: Tensor
    ends_D: Tensor
    bytes: int
    unknown: int

    @property
    def starts_D(self) -> Tensor:
        return torch.cat([self.ends_D.new_zeros(1), self.ends_D[:-1]])

    @property
    def lengths_D(self) -> Tensor:
        return self.ends_D - self.starts_D

    def __len__(self) -> int:
        return len(self.ids_N)

    def first(self, tokens: int) -> "Encoded":
        """The first documents, and of the last of them the first part, up to so many tokens; bytes are not counted again."""
        if len(self) <= tokens:
            return self
        ends_D = torch.cat([self.ends_D[self.ends_D < tokens], torch.tensor([tokens])])
        return Encoded(self.ids_N[:tokens], ends_D, self.bytes, self.unknown)


class Tokenizer(ABC):
    kind: str
    document: Document
    size: int  # how many tokens can be predicted
    end: int  # the end of a document (of a line, for words)
    unknown: int | None  # what a word or character never seen becomes; None where nothing is unknown

    @property
    def start(self) -> int:
        return self.size

    @property
    def padding(self) -> int:
        return self.size + 1

    @property
    def stop(self) -> int | None:
        """The token after which nothing follows; None where there is none."""
        return self.end

    @abstractmethod
    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """(ids, ends): every document's ids with its end behind them, and where each document ends."""

    @abstractmethod
    def token_bytes(self, token: int, previous: int | None) -> bytes:
        """The bytes that `token` adds to a text whose last token is `previous`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...

    def encode(self, text: str) -> Encoded:
        ids, ends = self.encode_documents(split(text, self.document))
        return self.encoded(ids, ends, len(text.encode()))

    def encode_texts(self, texts: list[str]) -> Encoded:
        """Several texts, one after the other; their documents stay apart."""
        parts = [self.encode(text) for text in texts]
        offsets = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return Encoded(
            torch.cat([part.ids_N for part in parts]),
            torch.cat([part.ends_D + int(offset) for part, offset in zip(parts, offsets, strict=True)]),
            sum(part.bytes for part in parts),
            sum(part.unknown for part in parts),
        )

    def encoded(self, ids: np.ndarray, ends: np.ndarray, size: int) -> Encoded:
        unknown = 0 if self.unknown is None else int((ids == self.unknown).sum())
        return Encoded(torch.from_numpy(ids), torch.from_numpy(ends), size, unknown)

    def prompt(self, text: str) -> list[int]:
        """The ids of a text that goes on: without the end that `encode` puts behind it."""
        ids, _ = self.encode_documents([text])
        return ids[:-1].tolist()

    def decoder(self, previous: int | None = None) -> Callable[[int], str]:
        """Turns tokens into text as they come; a character is given when its last byte is here."""
        utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

        def decode(token: int) -> str:
            nonlocal previous
            added = self.token_bytes(token, previous)
            previous = token
            return utf8.decode(added)

        return decode

    def decode(self, ids: Iterable[int]) -> str:
        out, previous = [], None
        for token in ids:
            out.append(self.token_bytes(token, previous))
            previous = token
        return b"".join(out).decode("utf-8", "replace")

    def name(self, token: int) -> str:
        """A token as people read it: `<s>`, `<unk>`, `</s>` or its own text."""
        special = {self.start: "<s>", self.padding: "<pad>", self.unknown: "<unk>", self.end: "</s>"}
        return special.get(token) or self.token_bytes(token, None).decode("utf-8", "replace")

    @property
    def end_bytes(self) -> bytes:
        return b"\n" if self.document == "line" else b""


def with_ends(ids: np.ndarray, lengths: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Put an end behind each run of ids."""
    ends = np.cumsum(lengths + 1, dtype=np.int64)
    out = np.empty(len(ids) + len(lengths), dtype=np.int32)
    is_end = np.zeros(len(out), dtype=bool)
    is_end[ends - 1] = True
    out[is_end] = end
    out[~is_end] = ids
    return out, ends
