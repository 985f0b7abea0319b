"""The character tokenizer: a token for each Unicode character of the training text."""

from typing import Any, final

import numpy as np

from regard.text.documents import ENDS, Document
from regard.tokens.contract import Tokenizer, after_a_letter, with_ends

END, UNKNOWN, FIRST = 0, 1, 2


@final
class CharacterTokenizer(Tokenizer):
    """Characters that are not in the training text become the unknown token."""

    kind = "char"
    end = END
    unknown = UNKNOWN

    def __init__(self, characters: str, document: Document):
        self.document = document
        self._codes = _codes(characters)
        self._characters = characters
        self.size = FIRST + len(characters)

    @classmethod
    def train(cls, texts: list[str], document: Document) -> "CharacterTokenizer":
        """Make a tokenizer with the characters of the texts."""
        characters = sorted(set().union(*texts))
        end = ENDS.get(document)
        if end in characters:
            characters.remove(end)  # the end token stands for it
        return cls("".join(characters), document)

    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        codes = _codes("".join(documents))
        lengths = np.fromiter(map(len, documents), dtype=np.int64, count=len(documents))
        if not len(self._codes):
            return with_ends(np.full(len(codes), UNKNOWN), lengths, END)
        places = np.searchsorted(self._codes, codes).clip(max=len(self._codes) - 1)
        return with_ends(np.where(self._codes[places] == codes, places + FIRST, UNKNOWN), lengths, END)

    def cut(self, text: str, first: int) -> int:
        return after_a_letter(text, first)

    def token_bytes(self, token: int, previous: int | None) -> bytes:
        if token >= FIRST:
            return self._characters[token - FIRST].encode()
        return self.end_bytes if token == END else "\N{REPLACEMENT CHARACTER}".encode()

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "document": self.document, "characters": self._characters}


def _codes(text: str) -> np.ndarray:
    """Return the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
