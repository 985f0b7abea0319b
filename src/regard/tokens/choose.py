"""Makes the tokenizer from options and a training text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.errors import UserError
from regard.ranges import Count
from regard.text.documents import Document, split
from regard.text.files import Source, read_file
from regard.tokens.characters import CharacterTokenizer
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.raw_bytes import ByteTokenizer
from regard.tokens.shards import encode_sources
from regard.tokens.streams import SAMPLE, characters, sample, vocabulary
from regard.tokens.subwords import SubwordTokenizer
from regard.tokens.words import WordTokenizer

Kind = Literal["char", "word", "byte", "bpe"]


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """The options of the tokenizer."""

    tokens: Kind = "word"
    """Kind of tokens: characters, words, bytes or subwords by byte-pair encoding."""
    document: Document | None = None
    """Unit of text that is a document. A context never crosses the end of a document. Default: row for JSON
    lines and Parquet, otherwise file."""
    cutoff: Count = 1
    """Words with fewer occurrences become <unk> (word)."""
    vocabulary: str | None = None
    """A file with the vocabulary. Without it, the words of the training text are the vocabulary (word)."""
    bpe_size: Count | None = None
    """Number of tokens of byte-pair encoding (bpe: 1024)."""

    @property
    def unit(self) -> Document:
        """The unit of text that is a document, of a text without rows."""
        return self.document or "file"


def train_on_sources(
    sources: Sequence[Source], options: TokenOptions, seed: int
) -> tuple[Tokenizer, Encoded, list[str]]:
    """Make a tokenizer for texts of any size. Return it, the encoded texts, and notes for the user."""
    if all(source.in_memory for source in sources):
        return *train_tokenizer([source.text for source in sources], options), []
    _check(options)
    notes = list[str]()
    match options.tokens:
        case "word" if options.vocabulary is None:
            words = vocabulary(sources, options.cutoff)
            tokenizer: Tokenizer = WordTokenizer(words, options.unit)
        case "char":
            tokenizer = CharacterTokenizer.train([characters(sources)], options.unit)
        case "bpe":
            tokenizer = _make_tokenizer(sample(sources, seed), options)
            share = f"a random sample of {SAMPLE >> 20} million characters of the text"
            notes.append(f"the subwords are learned from {share}")
        case _:
            tokenizer = _make_tokenizer([], options)
    return tokenizer, encode_sources(tokenizer, sources), notes


def train_tokenizer(texts: list[str], options: TokenOptions) -> tuple[Tokenizer, Encoded]:
    """Make a tokenizer for the texts. Return it, and the encoded texts."""
    _check(options)
    if options.tokens == "word" and options.vocabulary is None:
        documents = [document for text in texts for document in split(text, options.unit)]
        tokenizer, ids, ends = WordTokenizer.train(documents, options.unit, options.cutoff)
        return tokenizer, tokenizer.encoded(ids, ends, sum(len(text.encode()) for text in texts))
    other = _make_tokenizer(texts, options)
    return other, other.encode_texts(texts)


def _check(options: TokenOptions) -> None:
    if options.tokens != "word" and (options.cutoff != 1 or options.vocabulary is not None):
        raise UserError("`cutoff` and `vocabulary` are options of `tokens` word")
    if options.tokens != "bpe" and options.bpe_size is not None:
        raise UserError("`bpe_size` is an option of `tokens` bpe")


def _make_tokenizer(texts: list[str], options: TokenOptions) -> Tokenizer:
    match options.tokens:
        case "char":
            return CharacterTokenizer.train(texts, options.unit)
        case "byte":
            return ByteTokenizer(options.unit)
        case "bpe":
            size = 1024 if options.bpe_size is None else options.bpe_size
            if not 257 <= size <= 1 << 20:
                raise UserError("`bpe_size` must lie between 257 (256 bytes and an end) and 1,048,576")
            return SubwordTokenizer.train(texts, options.unit, size)
        case "word":
            assert options.vocabulary is not None
            return WordTokenizer(dict.fromkeys(read_file(options.vocabulary).utf8.split()), options.unit)
