"""Trains byte-pair encoding with the `tokenizers` library, from lines of bounded length.

The library counts words line by line, and its time grows with the square of the length of a word. A long line
is therefore cut between words, and a very long word into pieces. It aborts the process if memory runs out, so
that large texts are trained in a process of their own.
"""

import json
import re
import sys
from collections.abc import Iterator

from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

LINE, WORD = 1 << 14, 1 << 10  # letters
LARGE = 1 << 24  # letters of a text that is trained in a process of its own
CHILD = "from regard.tokens.bpe_training import answer; answer()"


def train_library(texts: list[str], size: int) -> Library:
    """Train the library's tokenizer with `size` tokens."""
    if sum(map(len, texts)) < LARGE:
        return _train(texts, size)
    from regard.machine.child import run_child

    asked = json.dumps({"texts": texts, "size": size}).encode()
    return Library.from_str(run_child(CHILD, asked, "the training of subwords").decode())


def answer() -> None:
    """Read texts and a size from standard input, and write the tokenizer to standard output."""
    asked = json.load(sys.stdin.buffer)
    sys.stdout.buffer.write(_train(asked["texts"], asked["size"]).to_str().encode())


def _train(texts: list[str], size: int) -> Library:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    pieces = (piece for text in texts for line in text.splitlines(keepends=True) for piece in _pieces(line))
    library.train_from_iterator(pieces, trainer)
    return library


def _pieces(line: str) -> Iterator[str]:
    """Cut a long line before spaces, and a very long word anywhere."""
    start = 0
    while len(line) - start > LINE:
        space = line.rfind(" ", start + 1, start + LINE)
        end = space if space > start else start + LINE
        yield from _short_words(line[start:end])
        start = end
    yield from _short_words(line[start:])


def _short_words(piece: str) -> Iterator[str]:
    if len(piece) <= WORD or not re.search(rf"\S{{{WORD}}}", piece):
        yield piece
    else:
        yield from re.findall(rf"\s*\S{{1,{WORD}}}|\s+", piece)
