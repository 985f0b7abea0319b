"""A small model of each family for the laws. A test checks that every family in FAMILIES has a line here."""

from collections.abc import Callable

import torch
from toy import Toy
from toy_rows import ToyRows

from regard.models.attentive import Attentive
from regard.models.backpack import Backpack
from regard.models.captioner import Captioner
from regard.models.classifier import Classifier
from regard.models.contract import LanguageModel
from regard.models.dan import Dan
from regard.models.embedding import Embedding
from regard.models.ngram import Ngram
from regard.models.reader import Reader
from regard.models.recurrent import Gru, Lstm, Rnn
from regard.models.recurrent_translator import RecurrentTranslator
from regard.models.rows import RowModel
from regard.models.transformer import Transformer
from regard.models.transformer_captioner import TransformerCaptioner
from regard.models.transformer_translator import TransformerTranslator
from regard.models.window import Window
from regard.models.wrappers.edited import Edited
from regard.models.wrappers.mixture import Mixture
from regard.models.wrappers.neural_cache import NeuralCache
from regard.parts.edits import Scale
from regard.tokens.contract import Encoded

V, SOURCE = 11, 13  # distinct primes: no transposed axis can pass unseen
IMAGE, FEATURES = (3, 5, 7), (3, 5)  # channels, height and width in pixels; regions and their features
Make = Callable[[], LanguageModel]


def counted(**options) -> Make:
    def make() -> LanguageModel:
        generator = torch.Generator().manual_seed(5)
        ids = torch.randint(1, V, (211,), generator=generator, dtype=torch.int32)
        ids[torch.arange(12, 211, 13)] = 0
        ids[-1] = 0
        model = Ngram(V, Ngram.Config(**options))
        model.fit(Encoded(ids, (ids == 0).nonzero().squeeze(1) + 1, bytes=422, unknown=0))
        return model

    return make


def trained(kind: type[LanguageModel], size: tuple[int, ...] = IMAGE, **options) -> Make:
    def make() -> LanguageModel:
        torch.manual_seed(7)
        if "dropout" in kind.Config.__dataclass_fields__:
            options.setdefault("dropout", 0.0)  # so that training mode can be compared
        sizes = {"pairs": [SOURCE], "captions": [size]}.get(kind.reads, [])
        return kind(V, kind.Config(**options), *sizes).eval()

    return make


def rows(kind: type[RowModel], **options) -> Callable[[], RowModel]:
    """Return a function that makes a small model of a family that reads whole rows."""

    def make() -> RowModel:
        torch.manual_seed(7)
        return kind(V, kind.Config(**options)).eval()

    return make


def labels(**options) -> Callable[[], RowModel]:
    def make() -> RowModel:
        torch.manual_seed(7)
        return Classifier(V, Classifier.Config(**{"layers": 1, "dropout": 0.0, **options}), 3).eval()

    return make


def cached(make: Make) -> Make:
    return lambda: NeuralCache(make(), size=5, theta=3.0, share=0.3)


def mixed(first: Make, second: Make) -> Make:
    return lambda: Mixture(first(), second(), 0.3)


def edited(make: Make, site: str) -> Make:
    """With an edit that changes something."""
    return lambda: Edited(make(), {site: Scale(site=site, by=0.7)})


MODELS: dict[str, Make] = {
    "ngram-1": counted(order=1),
    "ngram-2-add-k": counted(order=2, smoothing="add-k", k=0.5),
    "ngram-3-maximum-likelihood": counted(order=3, smoothing="maximum-likelihood"),
    "ngram-3-kneser-ney": counted(order=3, smoothing="kneser-ney"),
    "ngram-4-pruned": counted(order=4, prune=(0, 0, 1)),
    "ngram-5": counted(order=5),
    "dan": trained(Dan, layers=2, width=7),
    "dan-last": trained(Dan, layers=1, width=5, lookback=3, tied=False),
    "dan-all": trained(Dan, layers=1, width=5, lookback=0),
    "window": trained(Window, window=3, distant=2, layers=2, width=7),
    "window-near": trained(Window, window=2, distant=0, layers=1, width=5),
    "window-original": trained(Window, style="original", window=3, width=5),
    "rnn": trained(Rnn, layers=1, width=7, tied=False),
    "lstm": trained(Lstm, layers=2, width=5),
    "gru": trained(Gru, layers=3, width=5),
    "attentive": trained(Attentive, layers=2, width=7, lookback=3),
    "attentive-additive": trained(
        Attentive, cell="rnn", layers=1, width=5, lookback=5, score="additive", tied=False
    ),
    "attentive-bilinear": trained(Attentive, cell="gru", layers=1, width=5, lookback=23, score="bilinear"),
    "attentive-dot": trained(Attentive, layers=1, width=5, lookback=2, score="dot"),
    "attentive-average": trained(Attentive, layers=1, width=5, lookback=3, copy="average"),
    "attentive-gate": trained(
        Attentive, layers=1, width=7, lookback=5, score="additive", copy="gate", tied=False
    ),
    "transformer": trained(Transformer, layers=2, width=12, heads=3, context=41),
    "transformer-post": trained(
        Transformer, layers=2, width=10, heads=2, context=41, norm="post", positions="sinusoidal"
    ),
    "transformer-learned": trained(
        Transformer, layers=1, width=6, heads=1, context=41, positions="learned", tied=False
    ),
    "transformer-alibi": trained(Transformer, layers=2, width=9, heads=3, context=41, positions="alibi"),
    "transformer-index": trained(Transformer, layers=1, width=6, heads=2, context=41, positions="index"),
    "transformer-onehot": trained(Transformer, layers=1, width=46, heads=2, context=41, positions="onehot"),
    "transformer-appended": trained(
        Transformer, layers=1, width=14, heads=2, context=41, positions="sinusoidal-appended"
    ),
    "transformer-parameter-free": trained(
        Transformer, layers=2, width=7, heads=1, context=41, projections="none", positions="none"
    ),
    "transformer-key-is-value": trained(
        Transformer, layers=2, width=12, heads=3, context=41, projections="key-is-value"
    ),
    "transformer-average": trained(Transformer, layers=1, width=6, heads=1, context=41, copy="average"),
    "transformer-gate": trained(Transformer, layers=1, width=6, heads=3, context=41, copy="gate"),
    "transformer-grouped": trained(
        Transformer, layers=2, width=18, heads=3, context=41, key_value_heads=1, query_key_norm=True
    ),
    "backpack": trained(Backpack, layers=2, width=12, heads=2, senses=3, context=41),
    "backpack-one-sense": trained(
        Backpack, layers=1, width=6, heads=1, senses=1, context=41, positions="sinusoidal"
    ),
    "recurrent-translator": trained(RecurrentTranslator, layers=2, width=7),
    "recurrent-translator-additive": trained(RecurrentTranslator, cell="gru", width=5, score="additive"),
    "recurrent-translator-feed": trained(RecurrentTranslator, width=5, score="additive", feed=True),
    "recurrent-translator-none": trained(RecurrentTranslator, cell="rnn", width=5, score="none"),
    "transformer-translator": trained(TransformerTranslator, layers=2, width=12, heads=3, context=41),
    "transformer-translator-2017": trained(
        TransformerTranslator, layers=2, width=10, heads=2, context=41, norm="post", positions="sinusoidal"
    ),
    "captioner": trained(Captioner, layers=2, width=7, patch=2),
    "captioner-before": trained(
        Captioner, cell="gru", width=5, patch=3, regions="patches", score="additive", state="before"
    ),
    "captioner-none": trained(Captioner, cell="rnn", width=5, patch=2, score="none"),
    "captioner-features": trained(Captioner, FEATURES, width=7, score="bilinear"),
    "transformer-captioner": trained(TransformerCaptioner, layers=2, width=12, heads=3, context=41, patch=2),
    "toy": trained(Toy),
}

SMALL_LSTM = trained(Lstm, layers=1, width=5)
SMALL_TRANSFORMER = trained(Transformer, layers=1, width=6, heads=1, context=41)
SMALL_TRANSLATOR = trained(TransformerTranslator, layers=1, width=6, heads=1, context=41)
SMALL_CAPTIONER = trained(Captioner, width=5, patch=2)
ROWS: dict[str, Callable[[], RowModel]] = {
    "embedding": rows(Embedding, width=5),
    "toy-rows": rows(ToyRows),
    "classifier-dan": labels(encoder="dan", width=7, layers=1, pool="mean"),
    "classifier-dan-bigrams": labels(encoder="dan", width=5, layers=0, bigrams=13, pool="mean"),
    "classifier-rnn": labels(encoder="rnn", width=7, pool="last"),
    "classifier-lstm": labels(encoder="lstm", layers=2, width=5, pool="mean"),
    "classifier-gru": labels(encoder="gru", width=7, pool="attention", score="dot"),
    "classifier-birnn": labels(encoder="birnn", width=10, pool="max"),
    "classifier-bilstm": labels(encoder="bilstm", layers=2, width=6, pool="attention", score="additive"),
    "classifier-bigru": labels(encoder="bigru", width=6, pool="last"),
    "classifier-transformer": labels(encoder="transformer", layers=2, width=12, heads=3, pool="mean"),
    "classifier-transformer-scaled": labels(
        encoder="transformer", width=10, heads=1, pool="attention", score="scaled-dot"
    ),
    "classifier-bilinear": labels(encoder="dan", width=7, pool="attention", score="bilinear"),
    "reader-birnn": rows(Reader, encoder="birnn", width=6, dropout=0.0),
    "reader-transformer": rows(Reader, encoder="transformer", layers=2, width=12, heads=3, dropout=0.0),
    "toy-positions": rows(ToyRows, answers="positions"),
}
WRAPPED: dict[str, Make] = {
    "cache": cached(SMALL_LSTM),
    "cache-transformer": cached(SMALL_TRANSFORMER),
    "cache-translator": cached(SMALL_TRANSLATOR),
    "mixture": mixed(SMALL_LSTM, counted(order=3)),
    "mixture-transformers": mixed(
        SMALL_TRANSFORMER, trained(Transformer, layers=1, width=10, heads=1, context=31)
    ),
    "edited": edited(SMALL_TRANSFORMER, "layer0.attention"),
    "edited-translator": edited(SMALL_TRANSLATOR, "layer0.cross"),
    "cache-captioner": cached(SMALL_CAPTIONER),
    "edited-captioner": edited(SMALL_CAPTIONER, "attention"),
    "edited-regions": edited(SMALL_CAPTIONER, "regions"),
    "edited-edited": edited(edited(SMALL_LSTM, "hidden"), "layer0.gates"),
    "edited-cache": edited(cached(SMALL_TRANSFORMER), "cache"),
    "edited-mixture": edited(mixed(SMALL_TRANSFORMER, SMALL_LSTM), "member1.hidden"),
    "cache-edited": cached(edited(SMALL_TRANSFORMER, "layer0.feed")),
    "cache-mixture": cached(mixed(SMALL_TRANSFORMER, SMALL_LSTM)),
    "cache-cache": cached(cached(SMALL_LSTM)),
    "mixture-edited": mixed(edited(SMALL_LSTM, "hidden"), SMALL_TRANSFORMER),
    "mixture-cache": mixed(cached(SMALL_TRANSFORMER), counted(order=2)),
    "mixture-mixture": mixed(mixed(SMALL_LSTM, SMALL_TRANSFORMER), counted(order=2)),
}
