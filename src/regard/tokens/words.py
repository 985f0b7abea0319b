"""Words: what stands between ASCII white space, in a closed vocabulary, with an end-of-line token under every `--document`.

A literal `<unk>` in the text is a word like any other; the unknown class is an id of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Any, final

import numpy as np

from regard.text.documents import Document
from regard.tokens.contract import Tokenizer

END, UNKNOWN, FIRST = 0, 1, 2
LINE = b"\0"  # stands for a newline while splitting; a text with a zero byte is refused when it is read
CHUNK = 1 << 20  # characters split at a time, so that the list of words never holds a whole corpus


@final
class WordTokenizer(Tokenizer):
    kind = "word"
    end = END
    unknown = UNKNOWN

    def __init__(self, words: Iterable[bytes], document: Document):
        self.document = document
        self.words = list(words)
        self.size = FIRST + len(self.words)
        self._ids = _Ids({word: FIRST + place for place, word in enumerate(self.words)})
        self._ids[LINE] = END

    @classmethod
    def train(
        cls, documents: list[str], document: Document, cutoff: int
    ) -> tuple["WordTokenizer", np.ndarray, np.ndarray]:
        """Every word seen at least `cutoff` times, the most frequent first (ties in the order of the text).

        Gives the encoded documents too: splitting a large text is what takes the time, so it is done once.
        """
        numbered: defaultdict[bytes, int] = defaultdict(count().__next__)
        ids, ends = _encode(documents, numbered, numbered[LINE])
        words = np.array(list(numbered), dtype=object)
        counts = np.bincount(ids)
        counts[END] = 0
        order = np.argsort(-counts, kind="stable")
        order = order[counts[order] >= cutoff]
        final_id = np.full(len(words), UNKNOWN, dtype=np.int32)
        final_id[order] = np.arange(FIRST, FIRST + len(order))
        final_id[END] = END
        return cls(words[order], document), final_id[ids], ends

    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return _encode(documents, self._ids, END)

    @property
    def stop(self) -> int | None:
        return END if self.document == "line" else None  # elsewhere a line's end is only that

    def prompt(self, text: str) -> list[int]:
        ids, _ = self.encode_documents([text])
        return (
            ids.tolist() if text.endswith("\n") else ids[:-1].tolist()
        )  # a line that is whole has its own end

    def token_bytes(self, token: int, previous: int | None) -> bytes:
        if token == END:
            return b"\n"
        word = b"<unk>" if token == UNKNOWN else self.words[token - FIRST]
        return word if previous is None or previous in (END, self.start) else b" " + word

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "document": self.document, "words": [word.decode() for word in self.words]}


class _Ids(dict[bytes, int]):
    def __missing__(self, word: bytes) -> int:
        return UNKNOWN


def _encode(documents: list[str], ids_of: dict[bytes, int], end: int) -> tuple[np.ndarray, np.ndarray]:
    lines = np.fromiter(map(_lines, documents), dtype=np.int64, count=len(documents))
    ids = np.concatenate(
        [
            np.fromiter(map(ids_of.__getitem__, chunk), dtype=np.int32, count=len(chunk))
            for chunk in _chunks(documents)
        ]
    )
    line_ends = np.flatnonzero(ids == end) + 1
    return ids, line_ends[np.cumsum(lines) - 1]


def _lines(document: str) -> int:
    return document.count("\n") + (not document.endswith("\n"))


def _chunks(documents: list[str]) -> Iterator[list[bytes]]:
    """The words of the documents, each line closed by LINE, in lists of about CHUNK characters."""
    held: list[str] = []
    size = 0
    for piece in chain.from_iterable(map(_pieces, documents)):
        held.append(piece if piece.endswith("\n") else piece + "\n")
        size += len(held[-1])
        if size >= CHUNK:
            yield _split(held)
            held, size = [], 0
    if held:
        yield _split(held)


def _pieces(document: str) -> Iterator[str]:
    """A document cut at line ends, about CHUNK characters each; an empty document is one empty piece."""
    start = 0
    while True:
        newline = document.find("\n", start + CHUNK)
        if newline < 0 or newline + 1 == len(document):
            yield document[start:]
            return
        yield document[start : newline + 1]
        start = newline + 1


def _split(held: list[str]) -> list[bytes]:
    return "".join(held).encode().replace(b"\n", b" \0 ").split()  # bytes split at ASCII white space alone
