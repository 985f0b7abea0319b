"""The characters, the vocabulary and a sample of large texts, for tokenizers that learn from them.

A text is read once, in bounded memory.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from regard.machine.child import answer_requests, map_on_all_cores
from regard.text.documents import ROW
from regard.text.files import Source
from regard.tokens.words import LINE, cut_between_words, split_words

SAMPLE = 1 << 25  # characters from which subwords are learned
COUNTED = 1 << 22  # characters whose words are counted at a time
CHILD = "from regard.tokens.streams import answer; answer()"
HEAD = struct.Struct("<Q")  # the number of distinct words


def characters(sources: Sequence[Source]) -> str:
    """Return the distinct characters of the texts."""
    found = set[str]()
    for source in sources:
        for string in source.strings():
            found.update(string)
    return "".join(sorted(found))


def sample(sources: Sequence[Source], seed: int) -> list[str]:
    """Return an equal share of every million characters of the texts, from places that depend on the seed."""
    share = min(1.0, SAMPLE / sum(map(len, sources)))
    random = np.random.default_rng([seed, SAMPLE])
    parts = (_some(string, share, random) for source in sources for string in source.strings())
    return [part for part in parts if part]


def _some(string: str, share: float, random: np.random.Generator) -> str:
    """Return a part of a string at a random place, without the halves of words at its ends."""
    size = int(len(string) * share)
    start = int(random.integers(0, len(string) - size + 1))
    part = string[start : start + size].replace(ROW, "\n")
    first, last = part.find(" ") + 1, part.rfind(" ") + 1
    return part[first:last] if first < last else part


def vocabulary(sources: Sequence[Source], cutoff: int) -> list[bytes]:
    """Return the words that occur at least `cutoff` times, as WordTokenizer.train orders them."""
    counts = dict[bytes, int]()
    asked = (part.encode() for source in sources for part in _parts(source.strings()))
    for data in map_on_all_cores(CHILD, b"", asked, "the counting of words"):
        (distinct,) = HEAD.unpack_from(data)
        numbers = np.frombuffer(data, np.int64, distinct, HEAD.size)
        words = data[HEAD.size + numbers.nbytes :].split(b" ") if distinct else []
        for word, count in zip(words, numbers.tolist(), strict=True):
            counts[word] = counts.get(word, 0) + count
    kept = [item for item in counts.items() if item[1] >= cutoff]
    return [word for word, _ in sorted(kept, key=lambda item: -item[1])]  # a stable sort


def answer() -> None:
    """Count the words of texts from standard input."""
    answer_requests(lambda _: _counted)


def _counted(data: bytes) -> bytes:
    """Return the distinct words of a text in their order, and how often each occurs."""
    counts = Counter(split_words(data.decode()))
    counts.pop(LINE, None)
    numbers = np.fromiter(counts.values(), np.int64, len(counts))
    return HEAD.pack(len(counts)) + numbers.tobytes() + b" ".join(counts)


def _parts(strings: Iterable[str]) -> Iterator[str]:
    """Join strings into parts of about COUNTED characters that end between words."""
    rest = ""
    for string in strings:
        rest += string.replace(ROW, "\n")
        while len(rest) > COUNTED and (place := cut_between_words(rest, COUNTED)) > 0:
            yield rest[:place]
            rest = rest[place:]
    yield rest
