"""Word vectors as the word2vec program, gensim and fastText write and read them: text or binary.

The head is a line with the number of words and the width. Each word follows, a space, and its numbers: as
text up to the end of the line, or as float32, the low byte first.

Shape legend: N words, D width.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, final

import numpy as np
import torch

from regard.errors import UserError, notify
from regard.machine.disk import file_hash
from regard.models.building import build_model
from regard.models.embedding import Embedding
from regard.models.model import Model
from regard.runs.formats.format import Format
from regard.runs.run import Run, describe
from regard.tokens.words import FIRST, WordTokenizer

HEAD = re.compile(rb"(\d{1,10}) (\d{1,6}) ?\r?\n")
LONGEST = 1 << 12  # the bytes of a word
BLANKS = b" \t\r\n"


class Word2vec(Format, ABC):
    """The base class of the two forms."""

    def read(self, path: Path, family: type[Model] | None = None) -> Run:
        words, vectors_ND = self.vectors(path)
        tokenizer = WordTokenizer(words, "file")
        config = Embedding.Config(kind="given", width=vectors_ND.shape[1])
        model = build_model(Embedding, tokenizer.size, config)
        with torch.no_grad():
            model.embedding.weight.zero_()
            model.embedding.weight[FIRST : tokenizer.size] = torch.from_numpy(vectors_ND)
        known = describe(model, made_from=path.name, files={"model.safetensors": file_hash(path)})
        return Run(model.eval(), tokenizer, known)

    def vectors(self, path: Path) -> tuple[list[bytes], np.ndarray]:
        """Return the words and their vectors (N, D). Of words that occur twice, the first is kept."""
        with path.open("rb") as file:
            head = HEAD.fullmatch(file.readline(32))
            assert head is not None, "recognises() has seen the head"
            many, width = int(head[1]), int(head[2])
            if not many or not width or path.stat().st_size < many * self.fewest_bytes(width):
                raise UserError(
                    f"{path}: is not whole: its first line announces {many:,} words with {width} numbers "
                    "each; copy or write the file again"
                )
            vectors_ND = np.empty((many, width), np.float32)
            words: dict[bytes, int] = {}
            for number, (word, vector_D) in enumerate(self.rows(file, path, many, width)):
                if not np.isfinite(vector_D).all():
                    raise UserError(f"{path}: the vector of word {number + 1} holds infinities or NaN")
                if (word := _utf8(word)) not in words:
                    vectors_ND[len(words)] = vector_D
                    words[word] = len(words)
        if len(words) < many:
            notify(f"{path}: {many - len(words)} words stand there twice; the first of each is kept")
        return list(words), vectors_ND[: len(words)]

    def write(self, run: Run, out: Path) -> None:
        if not isinstance(run.model, Embedding):
            family = f"this run is of the family {run.model.family}"
            raise UserError(f"a word2vec file holds the vectors of an embedding; {family}")
        tokenizer = run.tokenizer
        marks = {tokenizer.end, tokenizer.unknown}
        ids = [token for token in range(tokenizer.size) if token not in marks]
        vectors_ND = run.model.embedding.weight.detach().cpu().float().numpy()
        names = [tokenizer.token_bytes(token, None) for token in ids]
        strange = next((name for name in names if not name or set(name) & set(BLANKS)), None)
        if strange is not None:
            kind = f"this run has the token {strange.decode('utf-8', 'replace')!r}: train with `tokens` word"
            raise UserError(f"the words of a word2vec file have no blanks; {kind}")
        with out.open("wb") as file:
            file.write(b"%d %d\n" % (len(ids), vectors_ND.shape[1]))
            file.writelines(self.row(name, vectors_ND[token]) for name, token in zip(names, ids, strict=True))

    @abstractmethod
    def fewest_bytes(self, width: int) -> int:
        """Return the smallest size of a row."""

    @abstractmethod
    def rows(self, file: BinaryIO, path: Path, many: int, width: int) -> Iterator[tuple[bytes, np.ndarray]]:
        """Yield the words and vectors after the head."""

    @abstractmethod
    def row(self, word: bytes, vector_D: np.ndarray) -> bytes:
        """Return a row as it is written."""


@final
class Word2vecText(Word2vec):
    name = "word2vec"
    about = "a word2vec file (text)"
    endings = (".vec", ".txt")

    def recognises(self, path: Path) -> bool:
        return _is_text(path) is True

    def fewest_bytes(self, width: int) -> int:
        return 2 * width + 1

    def rows(self, file: BinaryIO, path: Path, many: int, width: int) -> Iterator[tuple[bytes, np.ndarray]]:
        for number in range(many):
            line = file.readline().rstrip(BLANKS)
            word, *numbers = line.rsplit(b" ", width)
            try:
                if len(numbers) != width:
                    raise ValueError
                yield word, np.array(numbers, dtype=np.float32)
            except ValueError:
                raise UserError(
                    f"{path}, line {number + 2}: is not a word and {width} numbers; write the file again"
                ) from None

    def row(self, word: bytes, vector_D: np.ndarray) -> bytes:
        return b" ".join([word, *vector_D.astype("S32").tolist()]) + b"\n"  # the fewest digits that suffice


@final
class Word2vecBinary(Word2vec):
    name = "word2vec-binary"
    about = "a word2vec file (binary)"
    endings = (".bin",)

    def recognises(self, path: Path) -> bool:
        return _is_text(path) is False

    def fewest_bytes(self, width: int) -> int:
        return 4 * width + 2

    def rows(self, file: BinaryIO, path: Path, many: int, width: int) -> Iterator[tuple[bytes, np.ndarray]]:
        for number in range(many):
            word = bytearray()
            while (letter := file.read(1)) != b" " and letter and len(word) < LONGEST:
                word += letter
            vector = file.read(4 * width)
            if letter != b" " or len(vector) < 4 * width:
                raise UserError(f"{path}: ends within word {number + 1}, or is damaged there; copy it again")
            yield bytes(word).lstrip(b"\n"), np.frombuffer(vector, "<f4")  # some programs end rows with \n

    def row(self, word: bytes, vector_D: np.ndarray) -> bytes:
        return word + b" " + vector_D.astype("<f4").tobytes() + b"\n"


def _is_text(path: Path) -> bool | None:
    """Whether the file holds text (True) or binary numbers (False). None: it has no head of word2vec."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = HEAD.fullmatch(file.readline(32))
        if head is None:
            return None
        width = int(head[2])
        line = file.readline(LONGEST + 32 * width)
    try:
        return len([float(number) for number in line.rstrip(BLANKS).rsplit(b" ", width)[1:]]) == width
    except ValueError:
        return False


def _utf8(word: bytes) -> bytes:
    """The word as UTF-8: some published files have words that were cut within a character."""
    return word.decode("utf-8", "replace").encode()
