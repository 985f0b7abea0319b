"""The byte tokenizer: a token for each of the 256 bytes, and an end token. No byte is unknown."""

from collections.abc import Iterable
from typing import Any, final

import numpy as np

from regard.text.documents import Document
from regard.tokens.contract import Tokenizer, after_a_letter, with_ends

END = 256


@final
class ByteTokenizer(Tokenizer):
    kind = "byte"
    size = 257
    end = END
    unknown = None

    def __init__(self, document: Document):
        self.document = document

    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        encoded = [document.encode() for document in documents]
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        return with_ends(np.frombuffer(b"".join(encoded), dtype=np.uint8), lengths, END)

    def cut(self, text: str, first: int) -> int:
        return after_a_letter(text, first)

    def token_bytes(self, token: int, previous: int | None) -> bytes:
        return self.end_bytes if token == END else bytes([token])

    def decode(self, ids: Iterable[int]) -> str:
        tokens = list(ids)
        return super().decode(tokens) if END in tokens else bytes(tokens).decode("utf-8", "replace")

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "document": self.document}
