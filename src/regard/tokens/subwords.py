"""The subword tokenizer: byte-level byte-pair encoding, trained by the `tokenizers` library.

Every text can be encoded, so there is no unknown token.
"""

import json
from functools import cached_property
from typing import Any, final

import numpy as np
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from regard.text.documents import Document
from regard.tokens.contract import Tokenizer, with_ends


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
        library = Library(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size - 1,  # the end token is added to these
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        library.train_from_iterator(
            (line for text in texts for line in text.splitlines(keepends=True)), trainer
        )
        return cls(library, document)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "SubwordTokenizer":
        return cls(
            Library.from_str(json.dumps(data["bpe"])), data["document"], data.get("end"), data.get("size")
        )

    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        encodings = self._library.encode_batch_fast(documents)
        encoded = [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        return with_ends(np.concatenate(encoded), lengths, self.end)

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
