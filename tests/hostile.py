"""Files that were good, changed: bytes flipped, cut, doubled, swapped; values of JSON and lines replaced.

The seed of a change is its name, so that a failure can be repeated: `change(data, 17)`.
"""

import json
import random
from collections.abc import Callable
from typing import Any

# Values that are wrong nearly everywhere.
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**30, -(10**30), 2**31, 2**63, "x", "", "-", [], {}, [1], {"a": 1}, "9" * 5000,
)  # fmt: skip
ODD_WORDS = (
    b"nan",
    b"inf",
    b"-inf",
    b"300",
    b"1e400",
    b"-",
    b"\xff",
    b"\0",
    b"9" * 400,
    b"<s>",
    b"</s>",
    b"",
)


def change(data: bytes, seed: int, ways: str = "bytes") -> bytes:
    """Return the file with a change of one of these ways: bytes, lines, json."""
    rng = random.Random(seed)
    return {"bytes": _bytes, "lines": _lines, "json": _json}[ways](data, rng)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    first = rng.randrange(len(data) + 1)
    size = rng.choice((1, 1, 2, 8, 64, 1024))
    part, before, after = data[first : first + size], data[:first], data[first + size :]
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: before + bytes(byte ^ (1 << rng.randrange(8)) for byte in part) + after,  # flipped
        lambda: before,  # cut
        lambda: before + after,  # removed
        lambda: before + part + part + after,  # doubled
        lambda: after + before + part,  # swapped
        lambda: before + rng.randbytes(size) + after,
        lambda: b"",
    )
    return rng.choice(ways)()


def _lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(5)
    if way == 0:
        del lines[place]
    elif way == 1:
        lines.insert(other, lines[place])
    elif way == 2:
        lines[place], lines[other] = lines[other], lines[place]
    else:
        words = lines[place].split(b"\t") if way == 3 else lines[place].split()
        words = words or [b""]
        words[rng.randrange(len(words))] = rng.choice(ODD_WORDS)
        lines[place] = b"\t".join(words)
    return b"\n".join(lines)


def _json(data: bytes, rng: random.Random) -> bytes:
    """Replace or remove a value somewhere inside, or put it into many brackets."""
    held = [json.loads(data)]
    here: Any = held
    key: Any = 0
    while isinstance(here[key], dict | list) and here[key] and rng.random() < 0.8:
        here = here[key]
        key = rng.choice(list(here) if isinstance(here, dict) else range(len(here)))
    way = rng.randrange(8)
    if way == 0 and here is not held:
        del here[key]
    elif way == 1 and isinstance(here, dict):
        here["unknown"] = rng.choice(ODD)
    elif way == 2:
        return json.dumps(held[0]).encode() + b"]" if rng.random() < 0.5 else b'{"a":' * 50_000
    else:
        here[key] = rng.choice(ODD)
    return json.dumps(held[0]).encode()
