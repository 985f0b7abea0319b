"""The named benchmarks: ours, a peer, and the machine's limit for the same work.

All of them run in fp32 on random weights and the built-in text, so that nothing is downloaded. A peer is a
loop in plain PyTorch, or another package if it is installed.

Shape legend: B rows, T positions, V vocabulary.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.benchmarks import NAMES
from regard.benchmarks.limits import Limits
from regard.benchmarks.peers import PlainLstm, PlainTransformer, hugging_face
from regard.inside.observe import Reading, Wanted, observe
from regard.machine.memory import keep_freed_memory
from regard.machine.timing import Work
from regard.models.contract import LanguageModel
from regard.models.ngram import Ngram
from regard.models.recurrent import Lstm
from regard.models.transformer import Transformer
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.measures import token_losses
from regard.runs.formats import arpa
from regard.text.builtin import built_in_text
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.contract import Encoded, Tokenizer
from regard.training.loop import update
from regard.training.optimisers import make_optimisers
from regard.training.options import TrainingOptions
from regard.training.task import Step

SYMBOLS, LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 65, 4, 4, 128, 64, 12  # nanoGPT's small recipe
WORDS, LSTM_LAYERS, LSTM_WIDTH, SEGMENT, LSTM_BATCH = 10_000, 2, 200, 35, 20  # pytorch/examples' sizes
STEPS, WRITTEN, MEASURED, LOOKED = 20, 128, 1 << 14, 256  # of one pass


@dataclass(frozen=True)
class Contest:
    """Ours and a peer, at the same work."""

    unit: str
    ours: Work
    peer: Work | None  # None: the peer is not installed
    peer_name: str
    limit: float | None = None  # units a second that the machine allows
    limited_by: str = ""


def train_transformer(limits: Limits) -> Contest:
    """Train 4 layers of width 128 on characters, with AdamW."""
    draw = torch.Generator().manual_seed(1)
    model = Transformer(SYMBOLS, Transformer.Config(layers=LAYERS, dropout=0.0, positions="learned")).train()
    plain = PlainTransformer(SYMBOLS + 2, LAYERS, HEADS, WIDTH, CONTEXT)
    optimiser = torch.optim.AdamW(plain.parameters(), lr=1e-3, fused=True)

    def batch_BT() -> Tensor:
        return torch.randint(2, SYMBOLS, (BATCH, CONTEXT + 1), generator=draw)

    def peer() -> float:
        for _ in range(STEPS):
            ids_BT = batch_BT()
            logits_BTV = plain(ids_BT[:, :-1])
            F.cross_entropy(logits_BTV.flatten(0, 1), ids_BT[:, 1:].flatten()).backward()
            nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return STEPS * BATCH * CONTEXT

    ours = _training(model, batch_BT)
    return Contest("tokens", ours, peer, "plain PyTorch", *_training_limit(_weights(model), limits))


def train_lstm(limits: Limits) -> Contest:
    """Train two layers of width 200 on 10,000 words, with AdamW, and a state that is carried on."""
    draw = torch.Generator().manual_seed(1)
    model = Lstm(WORDS, Lstm.Config(layers=LSTM_LAYERS, width=LSTM_WIDTH, dropout=0.2, tied=False)).train()
    plain = PlainLstm(WORDS + 2, LSTM_LAYERS, LSTM_WIDTH, 0.2)
    optimiser = torch.optim.AdamW(plain.parameters(), lr=1e-3, fused=True)
    memory: dict[str, Any] = {"state": None}

    def batch_BT() -> Tensor:
        return torch.randint(2, WORDS, (LSTM_BATCH, SEGMENT + 1), generator=draw)

    def peer() -> float:
        for _ in range(STEPS // 4):
            ids_BT = batch_BT()
            logits_BTV, state = plain(ids_BT[:, :-1], memory["state"])
            F.cross_entropy(logits_BTV.flatten(0, 1), ids_BT[:, 1:].flatten()).backward()
            nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            memory["state"] = tuple(each.detach() for each in state)
        return STEPS // 4 * LSTM_BATCH * SEGMENT

    ours = _training(model, batch_BT, STEPS // 4)
    return Contest(
        "tokens", ours, peer, "plain PyTorch", *_training_limit(_weights(model, tied=False), limits)
    )


def evaluate(limits: Limits) -> Contest:
    """Measure the loss of a text in windows of one context."""
    model = Transformer(SYMBOLS, Transformer.Config(layers=LAYERS)).eval()
    plain = PlainTransformer(SYMBOLS + 2, LAYERS, HEADS, WIDTH, CONTEXT).eval()
    ids_N = torch.randint(2, SYMBOLS, (MEASURED,), generator=torch.Generator().manual_seed(1))
    text = Encoded(ids_N.int(), torch.tensor([MEASURED]), MEASURED, 0)

    def ours() -> float:
        token_losses(model, text)
        return MEASURED

    def peer() -> float:
        with torch.inference_mode():
            for ids_BT in ids_N.view(-1, CONTEXT).split(32):
                logits_BTV = plain(ids_BT)
                F.cross_entropy(logits_BTV[:, :-1].flatten(0, 1), ids_BT[:, 1:].flatten(), reduction="sum")
        return MEASURED

    limit = limits.operations / (2 * _weights(model))
    return Contest("tokens", ours, peer, "plain PyTorch", limit, "products")


def generate_rows(rows: int) -> Callable[[Limits], Contest]:
    """Generate with a KV cache, in so many rows."""

    def contest(limits: Limits) -> Contest:
        model = Transformer(SYMBOLS, Transformer.Config(layers=LAYERS, context=2 * WRITTEN)).eval()
        face = hugging_face(SYMBOLS + 2, LAYERS, HEADS, WIDTH, 2 * WRITTEN)

        def ours() -> float:
            prompts = [[model.start]] * rows
            for _ in generate(model, model.begin(rows), prompts, Writing(length=WRITTEN, end=None)):
                pass
            return rows * WRITTEN

        def peer() -> float:
            prompt_BT = torch.zeros(rows, 1, dtype=torch.long)
            with torch.inference_mode():
                face.generate(  # type: ignore[union-attr]
                    prompt_BT,
                    attention_mask=torch.ones_like(prompt_BT),
                    max_new_tokens=WRITTEN,
                    do_sample=True,
                    top_k=0,
                    pad_token_id=0,
                )
            return rows * WRITTEN

        # a step reads every weight once, for all rows
        limit = rows * limits.bandwidth / (4 * _weights(model))
        given = peer if face is not None else None
        return Contest("tokens", ours, given, "Hugging Face, with its cache", limit, "memory")

    return contest


def look(limits: Limits) -> Contest:
    """Read a text of 256 tokens and return every attention map."""
    model = Transformer(SYMBOLS, Transformer.Config(layers=LAYERS, context=LOOKED)).eval()
    face = hugging_face(SYMBOLS + 2, LAYERS, HEADS, WIDTH, LOOKED)
    tokenizer, _ = _text("char")
    ids = torch.randint(2, SYMBOLS, (LOOKED,), generator=torch.Generator().manual_seed(1)).tolist()
    reading = Reading([model.start, *ids[1:]], [str(number) for number in ids])

    def ours() -> float:
        observe(model, tokenizer, reading, Wanted(sites=("*.attention",)))
        return LOOKED

    def peer() -> float:
        with torch.inference_mode():
            face(torch.tensor([ids]), output_attentions=True)  # type: ignore[misc]
        return LOOKED

    given = peer if face is not None else None
    return Contest(
        "tokens", ours, given, "Hugging Face", limits.operations / (2 * _weights(model)), "products"
    )


def count_ngrams(limits: Limits) -> Contest:
    """Estimate a model of order 5 from the words of the built-in text."""
    tokenizer, text = _text("word")

    def ours() -> float:
        Ngram(tokenizer.size, Ngram.Config(order=5)).fit(text)
        return len(text)

    return Contest("words", ours, None, "lmplz (bench/ngram_kenlm.py)")


def score_ngrams(limits: Limits) -> Contest:
    """Score the words of the built-in text with a model of order 3, from text to numbers."""
    tokenizer, text = _text("word")
    model = Ngram(tokenizer.size, Ngram.Config(order=3))
    model.fit(text)
    lines = built_in_text().text.splitlines()

    def ours() -> float:
        token_losses(model, tokenizer.encode(built_in_text().text))
        return len(text)

    peer = None
    if find_spec("kenlm") is not None:
        import kenlm  # type: ignore[import-not-found, unused-ignore]

        with tempfile.TemporaryDirectory() as folder:
            arpa.write(model, tokenizer, Path(folder) / "model.arpa")  # type: ignore[arg-type]
            quiet = kenlm.Config()
            quiet.show_progress = False
            theirs = kenlm.Model(str(Path(folder) / "model.arpa"), quiet)

        def peer() -> float:
            for line in lines:
                theirs.score(line)
            return len(text)

    return Contest("words", ours, peer, "KenLM (its Python module)")


_MEASURES: tuple[Callable[[Limits], Contest], ...] = (
    train_transformer,
    train_lstm,
    evaluate,
    generate_rows(1),
    generate_rows(16),
    look,
    count_ngrams,
    score_ngrams,
)
CONTESTS = dict(zip(NAMES, _MEASURES, strict=True))


def _training(model: LanguageModel, batch_BT: Callable[[], Tensor], steps: int = STEPS) -> Work:
    """Steps of training as the training loop makes them."""
    options = TrainingOptions(optimiser="adamw")
    optimisers, step, memory = make_optimisers(model, options), Step(model), {"state": None}

    def work() -> float:
        tokens = 0
        with keep_freed_memory():  # as the training loop does
            for _ in range(steps):
                ids_BT = batch_BT()
                tokens_BT, targets_BT = ids_BT[:, :-1], ids_BT[:, 1:]
                loss, state = step(tokens_BT, targets_BT, memory["state"])
                (loss / targets_BT.numel()).backward()
                update(model, optimisers, options.clip)
                memory["state"] = state
                tokens += targets_BT.numel()
        return tokens

    return work


def _training_limit(weights: int, limits: Limits) -> tuple[float, str]:
    """A token costs 2 operations for each weight in the forward pass, and 4 in the backward pass."""
    return limits.operations / (6 * weights), "products"


def _weights(model: nn.Module, tied: bool = True) -> int:
    """The number of weights that multiply. A tied embedding multiplies in the readout."""
    tables = [module.weight.numel() for module in model.modules() if isinstance(module, nn.Embedding)]
    return sum(weight.numel() for weight in model.parameters()) - (0 if tied else sum(tables))


def _text(kind: str) -> tuple[Tokenizer, Encoded]:
    return train_tokenizer([built_in_text().text], TokenOptions(tokens=kind))  # type: ignore[arg-type]
