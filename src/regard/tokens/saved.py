"""Tokenizers as JSON: the content of tokenizer.json of each kind, and the tokenizer that it describes."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.boundary import parse_json
from regard.errors import UserError
from regard.ranges import Count, Number
from regard.text.documents import Document
from regard.tokens.characters import CharacterTokenizer
from regard.tokens.contract import Tokenizer
from regard.tokens.raw_bytes import ByteTokenizer
from regard.tokens.subwords import SubwordTokenizer, library_from_json
from regard.tokens.words import WordTokenizer


@dataclass(frozen=True, kw_only=True)
class Characters:
    kind: Literal["char"]
    document: Document
    characters: str

    def __post_init__(self) -> None:
        if any(first >= second for first, second in pairwise(self.characters)):
            raise UserError("`characters` must be sorted, each of them once")

    def tokenizer(self) -> Tokenizer:
        return CharacterTokenizer(self.characters, self.document)


@dataclass(frozen=True, kw_only=True)
class Bytes:
    kind: Literal["byte"]
    document: Document

    def tokenizer(self) -> Tokenizer:
        return ByteTokenizer(self.document)


@dataclass(frozen=True, kw_only=True)
class Words:
    kind: Literal["word"]
    document: Document
    words: list[str]

    def __post_init__(self) -> None:
        joined, twice = " ".join(self.words).encode(), len(set(self.words)) < len(self.words)
        if twice or len(joined.split()) != len(self.words) or b"\0" in joined:
            raise UserError("`words` must be different, none of them empty or with white space")

    def tokenizer(self) -> Tokenizer:
        return WordTokenizer((word.encode() for word in self.words), self.document)


@dataclass(frozen=True, kw_only=True)
class Subwords:
    kind: Literal["bpe"]
    document: Document
    bpe: dict[str, Any]
    end: Number | None = None
    size: Count | None = None

    def tokenizer(self) -> Tokenizer:
        return SubwordTokenizer(library_from_json(json.dumps(self.bpe)), self.document, self.end, self.size)


Saved = Annotated[Characters | Bytes | Words | Subwords, Field(discriminator="kind")]


def parse_tokenizer(text: bytes, where: str) -> Tokenizer:
    """Make the tokenizer that `Tokenizer.to_json` described. `where` names the file in errors."""
    saved: Any = parse_json(Saved, text, where)  # type: ignore[arg-type]
    try:
        return saved.tokenizer()
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
