"""The subword tokenizer: byte-level byte-pair encoding, trained by the `tokenizers` library.

Every text can be encoded, so there is no unknown token. A tokenizer of another tool may be of another kind
(WordPiece, Unigram, with a normaliser): the library reads and writes text with it, and a text that it does
not keep is never measured.
"""

import json
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from regard.errors import UserError
from regard.text.documents import Document
from regard.tokens.bpe_training import train_library
from regard.tokens.contract import Tokenizer, with_ends

# Letters of a piece of a document, of a word that has no end, and of the pieces that are encoded at once.
PIECE, WORD, BATCH = 1 << 16, 1 << 17, 1 << 21
BOUNDARY = re.compile(r"[^\W_](?=\W)")  # most pre-tokenizers cut here
AROUND = 64  # letters before and after a cut that the pre-tokenizer is asked about


@final
class SubwordTokenizer(Tokenizer):
    kind = "bpe"

    def __init__(self, library: Library, document: Document, end: int | None = None, size: int | None = None):
        """Wrap a tokenizer of the library. By default, the end token is the first id after the library's ids.

        A tokenizer from another tool, such as GPT-2's, may have an end token of its own (`end`), and more ids
        than the library knows (`size`).
        """
        self.document = document
        self._library = library
        # Another tool may have saved settings for batches of training. A text is read whole, and the model
        # puts <s> and </s> around it, not the library. The name of a mark in a text is text.
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True
        known = max(library.get_vocab().values(), default=-1) + 1
        self.end = known if end is None else end
        self.size = max(known, self.end + 1) if size is None else size
        if self.size < max(known, self.end + 1):
            raise UserError(f"the tokenizer has {known:,} tokens and the model only {self.size:,}")
        self._settings: dict[str, Any] = json.loads(library.to_str())
        self._byte_level = any(
            _has_kind(self._settings[part], "ByteLevel")
            for part in ("normalizer", "pre_tokenizer", "decoder")
        )
        self.unknown = None if self._byte_level else self._unknown()

    @classmethod
    def train(cls, texts: list[str], document: Document, size: int) -> "SubwordTokenizer":
        """Train a tokenizer with `size` tokens, end token included."""
        library = train_library(texts, size - 1)  # the end token is added to these
        return cls(library, document)

    def encode_documents(self, documents: list[str]) -> tuple[np.ndarray, np.ndarray]:
        pieces_D = [self._pieces(document) for document in documents]
        encoded_P = self._encode([piece for pieces in pieces_D for piece in pieces])
        lengths_P = np.fromiter(map(len, encoded_P), dtype=np.int64, count=len(encoded_P))
        first_D = np.cumsum([0, *(len(pieces) for pieces in pieces_D[:-1])])
        return with_ends(np.concatenate(encoded_P), np.add.reduceat(lengths_P, first_D), self.end)

    def _pieces(self, document: str) -> list[str]:
        """Cut a long document between words, if this changes no token."""
        pieces, start = list[str](), 0
        while (end := self._next_cut(document, start)) < len(document):
            pieces.append(document[start:end])
            start = end
        return [*pieces, document[start:]]

    def cut(self, text: str, first: int) -> int:
        if not self._cuts:
            return -1
        place = 0
        # The same cuts as those of the whole document, as far as they are known from its beginning.
        while place < first:
            if place + 2 * PIECE + WORD > len(text):
                return -1
            place = self._next_cut(text, place)
        return place

    def _next_cut(self, text: str, start: int) -> int:
        """Return the next place after a cut where the pre-tokenizer cuts, some PIECE letters on.

        A word of more than PIECE + WORD letters is cut into words of WORD letters.
        """
        end = start + PIECE + WORD
        if not self._cuts or len(text) <= start + PIECE:
            return len(text)
        found = self._boundary(text, start + PIECE, end)
        if found is not None or end >= len(text):
            return len(text) if found is None else found
        before = None
        while (found := self._boundary(text, start + 1 if before is None else before + 1, end)) is not None:
            before = found
        return start + WORD if before is None else before

    def _boundary(self, text: str, first: int, last: int) -> int | None:
        """Return the first place in a part of a text where the pre-tokenizer cuts."""
        for found in BOUNDARY.finditer(text, first, last):
            place = found.end()
            left, right = text[max(0, place - AROUND) : place], text[place : place + AROUND]
            if self._words(left) + self._words(right) == self._words(left + right):
                return place
        return None

    def _words(self, text: str) -> list[str]:
        """Return the words from which the library makes tokens."""
        normalizer, words = self._library.normalizer, self._library.pre_tokenizer
        assert words is not None
        normal = text if normalizer is None else normalizer.normalize_str(text)
        return [word for word, _ in words.pre_tokenize_str(normal)]

    @cached_property
    def _cuts(self) -> bool:
        """Whether a long document is cut: a part of it then gives back its own bytes."""
        return self._byte_level and self._library.pre_tokenizer is not None

    def _encode(self, pieces: list[str]) -> list[np.ndarray]:
        """Encode a few pieces at once: the library needs some 200 bytes for each token, an id needs four."""
        encoded, first, letters = list[np.ndarray](), 0, 0
        for end, piece in enumerate(pieces, 1):
            letters += len(piece)
            if letters > BATCH or end == len(pieces):
                batch = self._library.encode_batch_fast(pieces[first:end], add_special_tokens=False)
                encoded += [np.array(encoding.ids, dtype=np.int32) for encoding in batch]
                first, letters = end, 0
        return encoded

    @property
    def lossless(self) -> bool:
        return True

    def decode(self, ids: Iterable[int]) -> str:
        if self._byte_level:
            return b"".join(map(self._bytes.__getitem__, ids)).decode("utf-8", "replace")
        return self._library.decode(list(ids), skip_special_tokens=False)

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The bytes of each token of a byte-level tokenizer. Added tokens are written as they are."""
        letters, added = _byte_of_letter(), self._library.get_added_tokens_decoder()
        names = [self._library.id_to_token(token) or "" for token in range(self.size)]
        own = [
            bytes(letters[letter] for letter in name)
            if token not in added and set(name) <= set(letters)
            else name.encode()
            for token, name in enumerate(names)
        ]
        own[self.end] = self.end_bytes
        return own

    def token_bytes(self, token: int, previous: int | None) -> bytes:
        if self._byte_level:
            return self._bytes[token]
        return self.end_bytes if token == self.end else self._spelled(token, previous)

    def _spelled(self, token: int, previous: int | None) -> bytes:
        """Return what the library's own decoder adds for a token after another one."""
        name = self._library.id_to_token(token) or ""
        if _has_kind(self._settings["decoder"], "ByteFallback") and _is_byte(name):
            return bytes([int(name[3:5], 16)])
        before = [] if previous in (None, self.start, self.end, self.padding) else [previous]
        earlier, both = (
            self._library.decode(ids, skip_special_tokens=False) for ids in (before, [*before, token])
        )
        return both.removeprefix(earlier).encode()

    def _unknown(self) -> int | None:
        """Return the id of the unknown token of a tokenizer that is not byte-level."""
        model = self._settings["model"]
        if model.get("unk_token") is not None:
            return self._library.token_to_id(model["unk_token"])
        return model.get("unk_id")

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "document": self.document,
            "bpe": json.loads(self._library.to_str()),
            "end": self.end,
            "size": self.size,
        }


def library_from_json(text: str) -> Library:
    """Make a tokenizer of the library from its JSON."""
    try:
        return Library.from_str(text)
    except Exception as error:  # the library raises nothing more precise
        raise UserError(f"not a tokenizer of the library tokenizers ({str(error).splitlines()[0]})") from None


def byte_level_library(vocabulary: Path, merges: Path) -> Library:
    """Make a byte-level tokenizer from vocab.json and merges.txt, the older form of GPT-2's."""
    try:
        library = Library(models.BPE.from_file(str(vocabulary), str(merges)))
    except Exception as error:  # the library raises nothing more precise
        raise UserError(f"{vocabulary.name} and {merges.name} cannot be read ({error})") from None
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library


def _has_kind(part: dict[str, Any] | None, kind: str) -> bool:
    """Whether a part of a tokenizer is of a kind, or a sequence with such a part."""
    if part is None:
        return False
    inner = (inner for name in ("normalizers", "pretokenizers", "decoders") for inner in part.get(name, ()))
    return part["type"] == kind or any(_has_kind(each, kind) for each in inner)


def _is_byte(name: str) -> bool:
    """Whether a token stands for a byte that no other token holds, such as <0xE4>."""
    return len(name) == 6 and name.startswith("<0x") and name.endswith(">")


def _byte_of_letter() -> dict[str, int]:
    """Return the byte of each letter in the library's tokens, as in GPT-2.

    Printable bytes are written as themselves, the other bytes as the characters from U+0100.
    """
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}
