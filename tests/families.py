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
from regard.models.recurrent_translator import RecurrentTranslator
from regard.models.transformer import Transformer
from regard.models.transformer_translator import TransformerTranslator
from regard.models.translation import Translator
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


class AfterSource(LanguageModel):
    """A translator that has read one sentence, padding and all: from there on it is a language model like any other."""

    def __init__(self, vocabulary_size: int, config):
        super().__init__(vocabulary_size, config)
        kind = next(kind for kind in (RecurrentTranslator, TransformerTranslator) if isinstance(config, kind.Config))
        self.model: Translator = kind(vocabulary_size, config, source_size=13)
        self.family, self.context = self.model.family, self.model.context

    def sites(self) -> dict[str, str]:
        return self.model.sites()

    def forward(self, tokens_BT, state=None, look=None):
        if state is None:
            source_S = torch.tensor([5, 2, self.model.source_padding, 9, 1])
            state = self.model.read(source_S.expand(len(tokens_BT), -1), look)
        return self.model(tokens_BT, state, look)


def translating(kind: type[Translator], **options) -> Callable[[], LanguageModel]:
    def make() -> LanguageModel:
        torch.manual_seed(7)
        return AfterSource(V, kind.Config(**options)).eval()

    return make


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
    "transformer-grouped": trained(Transformer, layers=2, width=18, heads=3, context=41, key_value_heads=1, query_key_norm=True),
    "backpack": trained(Backpack, layers=2, width=12, heads=2, senses=3, context=41),
    "backpack-one-sense": trained(Backpack, layers=1, width=6, heads=1, senses=1, context=41, positions="sinusoidal"),
    "cache": cached(Lstm, layers=1, width=5),
    "cache-transformer": cached(Transformer, layers=1, width=6, heads=1, context=41),
    "recurrent-translator": translating(RecurrentTranslator, layers=2, width=7),
    "recurrent-translator-additive": translating(RecurrentTranslator, cell="gru", width=5, score="additive"),
    "recurrent-translator-feed": translating(RecurrentTranslator, width=5, score="additive", feed=True),
    "recurrent-translator-none": translating(RecurrentTranslator, cell="rnn", width=5, score="none"),
    "transformer-translator": translating(TransformerTranslator, layers=2, width=12, heads=3, context=41),
    "transformer-translator-2017": translating(
        TransformerTranslator, layers=2, width=10, heads=2, context=41, norm="post", positions="sinusoidal"
    ),
    "toy": trained(Toy),
}
