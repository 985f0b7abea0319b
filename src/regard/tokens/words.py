"""The word tokenizer: words between ASCII white space, a closed vocabulary, and an end-of-line token.

The end of a line is a token under every `--document`. A literal `<unk>` in the text is a word like any other:
the unknown token has an id of its own.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, count
from typing import Any, final

import numpy as np

from regard.errors import UserError
from regard.text.documents import Document
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.word_table import WordTable

END, UNKNOWN, FIRST = 0, 1, 2
LONGEST = 1 << 26  # characters of a word
BETWEEN_WORDS = re.compile(r"[ \t\n\r\v\f](?=[^ \t\n\r\v\f])")
LINE = b"\0"  # stands for a newline during splitting; texts with a zero byte are refused when they are read
CHUNK = 1 << 20  # the number of characters that are split at a time, so that lists of words stay small


@final
class WordTokenizer(Tokenizer):
    """Words outside the vocabulary become the unknown token."""

    kind = "word"
    end = END
    unknown = UNKNOWN

    def __init__(self, words: Iterable[bytes], document: Document):
        self.document = document
        self.words = list(words)
        self.size = FIRST + len(self.words)

    @classmethod
    def train(
        cls, documents: list[str], document: Document, cutoff: int
    ) -> tuple["WordTokenizer", np.ndarray, np.ndarray]:
        """Make a tokenizer with the words that occur at least `cutoff` times, the most frequent words first.

        Words of equal frequency stand in the order of the text. The ids and ends of the encoded documents are
        returned as well, because splitting a large text twice would take twice the time.
        """
        numbered: defaultdict[bytes, int] = defaultdict(count().__next__)

        def number(text: str) -> np.ndarray:
            words = split_words(text)
            return np.fromiter(map(numbered.__getitem__, words), dtype=np.int32, count=len(words))

        ids, ends = _encode(documents, number, numbered[LINE])
        words = np.array(list(numbered), dtype=object)
        counts = np.bincount(ids)
        counts[END] = 0
        order = np.argsort(-counts, kind="stable")
        order = order[counts[order] >= cutoff]
        final_id = np.full(len(words), UNKNOWN, dtype=np.int32)
        final_id[order] = np.arange(FIRST, FIRST + len(order))
        final_id[END] = END
        return cls(words[order], document), final_id[ids], ends

    @cached_property
    def _table(self) -> WordTable:
        # Vectors of other tools may have empty words and words with a zero byte, which no text holds.
        ids = [FIRST + place for place, word in enumerate(self.words) if word and b"\0" not in word]
        words = [self.words[number - FIRST] for number in ids]
        return WordTable([LINE, *words], np.array([END, *ids]), UNKNOWN)

    def encode(self, text: str) -> Encoded:
        if not text or self.document not in ("file", "line"):
            return super().encode(text)
        # The same without a Python object for each document.
        data = text.encode()
        ids = self._table.ids(data if data.endswith(b"\n") else data + b"\n", LINE)
        ends = (ids == END).nonzero()[0] + 1 if self.document == "line" else np.array([len(ids)])
        return self.encoded(ids, ends, len(data))

    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return _encode(documents, lambda text: self._table.ids(text.encode(), LINE), END)

    @property
    def stop(self) -> int | None:
        return END if self.document == "line" else None  # other documents have many lines

    def cut(self, text: str, first: int) -> int:
        return cut_between_words(text, first)

    def without_end(self, document: str, ids: np.ndarray) -> np.ndarray:
        return ids if document.endswith("\n") else ids[:-1]  # a complete line keeps its end

    def token_bytes(self, token: int, previous: int | None) -> bytes:
        if token == END:
            return b"\n"
        word = b"<unk>" if token == UNKNOWN else self.words[token - FIRST]
        return word if previous is None or previous in (END, self.start) else b" " + word

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "document": self.document, "words": [word.decode() for word in self.words]}


def _encode(
    documents: list[str], ids_of: Callable[[str], np.ndarray], end: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of all documents and the index after each. `ids_of` reads a text, `end` ends a line."""
    lines = np.fromiter(map(_lines, documents), dtype=np.int64, count=len(documents))
    ids = np.concatenate([*map(ids_of, _texts(documents))])
    line_ends = np.flatnonzero(ids == end) + 1
    return ids, line_ends[np.cumsum(lines) - 1]


def cut_between_words(text: str, first: int) -> int:
    """Return the first place from `first` on where a word begins after white space, or -1."""
    found = BETWEEN_WORDS.search(text, first - 1)
    if found is None and len(text) - first > LONGEST:
        raise UserError(f"a word has more than {LONGEST:,} characters: choose `tokens` bpe, char or byte")
    return found.end() if found else -1


def _lines(document: str) -> int:
    """Return the number of lines. A last line without a newline counts as well."""
    return document.count("\n") + (not document.endswith("\n"))


def _texts(documents: list[str]) -> Iterator[str]:
    """Yield the documents, joined and cut into texts of about CHUNK characters that end with a newline."""
    pieces: list[str] = []
    size = 0
    for piece in chain.from_iterable(map(_pieces, documents)):
        pieces.append(piece if piece.endswith("\n") else piece + "\n")
        size += len(pieces[-1])
        if size >= CHUNK:
            yield "".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield "".join(pieces)


def _pieces(document: str) -> Iterator[str]:
    """Yield pieces of about CHUNK characters, cut at line ends. An empty document is an empty piece."""
    start = 0
    while True:
        newline = document.find("\n", start + CHUNK)
        if newline < 0 or newline + 1 == len(document):
            yield document[start:]
            return
        yield document[start : newline + 1]
        start = newline + 1


def split_words(text: str) -> list[bytes]:
    """Return the words of a text, with LINE after each line."""
    return text.encode().replace(b"\n", b" \0 ").split()  # bytes split at ASCII white space only
