"""One line a family: how the laws make a small model of it. Every family in FAMILIES must stand here (a test says so)."""

from collections.abc import Callable

import torch
from toy import Toy

from regard.models.attentive import Attentive
from regard.models.backpack import Backpack
from regard.models.cache import NeuralCache
from regard.models.contract import LanguageModel
from regard.models.dan import Dan
from regard.models.ngram import Ngram
from regard.models.recurrent import Gru, Lstm, Rnn
from regard.models.transformer import Transformer
from regard.models.window import Window
from regard.tokens.contract import Encoded

V = 11  # distinct primes: no transposed axis can pass unseen


def counted(**options) -> Callable[[], LanguageModel]:
    def make() -> LanguageModel:
        generator = torch.Generator().manual_seed(5)
        ids = torch.randint(1, V, (211,), generator=generator, dtype=torch.int32)
        ids[torch.arange(12, 211, 13)] = 0
        ids[-1] = 0
        model = Ngram(V, Ngram.Config(**options))
        model.fit(Encoded(ids, (ids == 0).nonzero().squeeze(1) + 1, bytes=422, unknown=0), lambda model: None)
        return model

    return make


def trained(kind: type[LanguageModel], **options) -> Callable[[], LanguageModel]:
    def make() -> LanguageModel:
        torch.manual_seed(7)
        return kind(V, kind.Config(**options)).eval()

    return make


def cached(kind: type[LanguageModel], **options) -> Callable[[], LanguageModel]:
    return lambda: NeuralCache(trained(kind, **options)(), size=5, theta=3.0, share=0.3).eval()


MODELS: dict[str, Callable[[], LanguageModel]] = {
    "ngram-1": counted(order=1),
    "ngram-2-add-k": counted(order=2, smoothing="add-k", k=0.5),
    "ngram-3-maximum-likelihood": counted(order=3, smoothing="maximum-likelihood"),
    "ngram-3-kneser-ney": counted(order=3, smoothing="kneser-ney"),
    "ngram-4-pruned": counted(order=4, prune=(0, 0, 1)),
    "ngram-5": counted(order=5),
    "dan": trained(Dan, layers=2, width=7),
    "dan-last": trained(Dan, layers=1, width=5, lookback=3, tied=False),
    "window": trained(Window, window=3, distant=2, layers=2, width=7),
    "window-near": trained(Window, window=2, distant=0, layers=1, width=5),
    "window-original": trained(Window, style="original", window=3, width=5),
    "rnn": trained(Rnn, layers=1, width=7, tied=False),
    "lstm": trained(Lstm, layers=2, width=5),
    "gru": trained(Gru, layers=3, width=5),
    "attentive": trained(Attentive, layers=2, width=7, lookback=3),
    "attentive-additive": trained(Attentive, cell="rnn", layers=1, width=5, lookback=5, score="additive", tied=False),
    "attentive-bilinear": trained(Attentive, cell="gru", layers=1, width=5, lookback=23, score="bilinear"),
    "attentive-dot": trained(Attentive, layers=1, width=5, lookback=2, score="dot"),
    "attentive-average": trained(Attentive, layers=1, width=5, lookback=3, copy="average"),
    "attentive-gate": trained(Attentive, layers=1, width=7, lookback=5, score="additive", copy="gate", tied=False),
    "transformer": trained(Transformer, layers=2, width=12, heads=3, context=41),
    "transformer-post": trained(Transformer, layers=2, width=10, heads=2, context=41, norm="post", positions="sinusoidal"),
    "transformer-learned": trained(Transformer, layers=1, width=6, heads=1, context=41, positions="learned", tied=False),
    "transformer-alibi": trained(Transformer, layers=2, width=9, heads=3, context=41, positions="alibi"),
    "transformer-index": trained(Transformer, layers=1, width=6, heads=2, context=41, positions="index"),
    "transformer-onehot": trained(Transformer, layers=1, width=46, heads=2, context=41, positions="onehot"),
    "transformer-appended": trained(Transformer, layers=1, width=14, heads=2, context=41, positions="sinusoidal-appended"),
    "transformer-parameter-free": trained(Transformer, layers=2, width=7, heads=1, context=41, projections="none", positions="none"),
    "transformer-average": trained(Transformer, layers=1, width=6, heads=1, context=41, copy="average"),
    "transformer-gate": trained(Transformer, layers=1, width=6, heads=3, context=41, copy="gate"),
    "backpack": trained(Backpack, layers=2, width=12, heads=2, senses=3, context=41),
    "backpack-one-sense": trained(Backpack, layers=1, width=6, heads=1, senses=1, context=41, positions="sinusoidal"),
    "cache": cached(Lstm, layers=1, width=5),
    "cache-transformer": cached(Transformer, layers=1, width=6, heads=1, context=41),
    "toy": trained(Toy),
}
