"""The subword tokenizer: byte-level byte-pair encoding, trained by the `tokenizers` library.

Every text can be encoded, so there is no unknown token.
"""

import json
import re
from functools import cached_property
from typing import Any, final

import numpy as np
from tokenizers import Tokenizer as Library
from tokenizers import pre_tokenizers

from regard.text.documents import Document
from regard.tokens.bpe_training import train_library
from regard.tokens.contract import Tokenizer, with_ends

PIECE, BATCH = (
    1 << 16,
    1 << 21,
)  # letters of a piece of a document, and of the pieces that are encoded at once
# A word of byte-level encoding may begin with a space, but never goes on over one.
BOUNDARY = re.compile(r"[^\W_](?=[ \n])")


@final
class SubwordTokenizer(Tokenizer):
    kind = "bpe"
    unknown = None

    def __init__(self, library: Library, document: Document, end: int | None = None, size: int | None = None):
        """Wrap a tokenizer of the library. By default, the end token is the first id after the library's ids.

        A tokenizer from another tool, such as GPT-2's, may have an end token of its own (`end`), and more ids
        than the library knows (`size`).
        """
        self.document = document
        self._library = library
        self.end = library.get_vocab_size() if end is None else end
        self.size = self.end + 1 if size is None else size

    @classmethod
    def train(cls, texts: list[str], document: Document, size: int) -> "SubwordTokenizer":
        """Train a tokenizer with `size` tokens, end token included."""
        library = train_library(texts, size - 1)  # the end token is added to these
        return cls(library, document)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "SubwordTokenizer":
        return cls(
            Library.from_str(json.dumps(data["bpe"])), data["document"], data.get("end"), data.get("size")
        )

    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        pieces_D = [self._pieces(document) for document in documents]
        encoded_P = self._encode([piece for pieces in pieces_D for piece in pieces])
        lengths_P = np.fromiter(map(len, encoded_P), dtype=np.int64, count=len(encoded_P))
        first_D = np.cumsum([0, *(len(pieces) for pieces in pieces_D[:-1])])
        return with_ends(np.concatenate(encoded_P), np.add.reduceat(lengths_P, first_D), self.end)

    def _pieces(self, document: str) -> list[str]:
        """Cut a long document between words, if this changes no token."""
        library = self._library
        plain = library.normalizer is None and library.post_processor is None and library.truncation is None
        words = library.pre_tokenizer
        if not plain or not isinstance(words, pre_tokenizers.ByteLevel) or words.add_prefix_space:
            return [document]
        pieces, start = list[str](), 0
        while found := BOUNDARY.search(document, start + PIECE):
            pieces.append(document[start : found.end()])
            start = found.end()
        return [*pieces, document[start:]]

    def _encode(self, pieces: list[str]) -> list[np.ndarray]:
        """Encode a few pieces at once: the library needs some 200 bytes for each token, an id needs four."""
        encoded, first, letters = list[np.ndarray](), 0, 0
        for end, piece in enumerate(pieces, 1):
            letters += len(piece)
            if letters > BATCH or end == len(pieces):
                batch = self._library.encode_batch_fast(pieces[first:end])
                encoded += [np.array(encoding.ids, dtype=np.int32) for encoding in batch]
                first, letters = end, 0
        return encoded

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The bytes of each token."""
        letters = _byte_of_letter()
        names = [self._library.id_to_token(token) or "" for token in range(self.size)]
        return [
            bytes(letters[letter] for letter in name) if set(name) <= set(letters) else name.encode()
            for name in names
        ]

    def token_bytes(self, token: int, previous: int | None) -> bytes:
        return self.end_bytes if token == self.end else self._bytes[token]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "document": self.document,
            "bpe": json.loads(self._library.to_str()),
            "end": self.end,
            "size": self.size,
        }


def _byte_of_letter() -> dict[str, int]:
    """Return the byte of each letter in the library's tokens, as in GPT-2.

    Printable bytes are written as themselves, the other bytes as the characters from U+0100.
    """
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}
