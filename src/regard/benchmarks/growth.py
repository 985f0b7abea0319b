"""The growth of time and memory with the length of a text, width, vocabulary, batch and corpus.

Memory is what a training step keeps for its backward pass, in bytes, or the size of the tables that an n-gram
model learns. Both are counted, not sampled.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from regard.models.ngram import Ngram
from regard.models.recurrent import Lstm
from regard.models.transformer import Transformer
from regard.tokens.contract import Encoded
from regard.training.task import Step

BASE = {"length": 64, "width": 128, "vocabulary": 256, "batch": 4}
STEPS: dict[str, tuple[int, ...]] = {
    "length": (32, 128, 512),
    "width": (64, 128, 256),
    "vocabulary": (256, 4096, 65536),
    "batch": (1, 4, 16),
}
CORPORA = (1 << 12, 1 << 14, 1 << 16)
PASSES = 3


@dataclass(frozen=True)
class Point:
    family: str
    grows: str  # length, width, vocabulary, batch or corpus
    size: int
    seconds: float
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def growth() -> Iterator[Point]:
    """Yield the points of every curve."""
    for grows, sizes in STEPS.items():
        for size in sizes:
            for family in ("transformer", "lstm"):
                yield _training_step(family, grows, size)
    for words in CORPORA:
        yield _counting(words)


def _training_step(family: str, grows: str, size: int) -> Point:
    sizes = BASE | {grows: size}
    vocabulary, length, width = sizes["vocabulary"], sizes["length"], sizes["width"]
    model = (
        Transformer(vocabulary, Transformer.Config(width=width, context=length))
        if family == "transformer"
        else Lstm(vocabulary, Lstm.Config(width=width))
    ).train()
    step, kept = Step(model), dict[int, int]()
    tokens_BT = torch.randint(2, vocabulary, (sizes["batch"], length))

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def run() -> None:
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss, _ = step(tokens_BT, tokens_BT, None)
        loss.backward()
        model.zero_grad(set_to_none=True)

    return Point(family, grows, size, _seconds(run), sum(kept.values()))


def _counting(words: int) -> Point:
    """Random words by Zipf's law: n-grams of a large corpus are mostly new."""
    draw = torch.Generator().manual_seed(1)
    types = max(64, words // 8)
    share_V = 1 / torch.arange(1, types + 1, dtype=torch.float64)
    ids_N = torch.multinomial(share_V, words, replacement=True, generator=draw) + 3
    text = Encoded(ids_N.int(), torch.tensor([words]), words, 0)
    model = Ngram(types + 3, Ngram.Config(order=3))
    seconds = _seconds(lambda: model.fit(text))
    tables = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    return Point("ngram", "corpus", words, seconds, tables)


def _seconds(run: Callable[[], None]) -> float:
    """The fastest of a few passes, after one to warm up."""
    run()
    best = float("inf")
    for _ in range(PASSES):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best
