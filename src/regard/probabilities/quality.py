"""BLEU and chrF of translations, by sacrebleu. Its signatures record the settings of the metric."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Quality:
    """The score of translations, and sacrebleu's signature."""

    score: float
    signature: str


@dataclass(frozen=True)
class Difference:
    """The scores of two translators on the same sentences, and the significance of their difference."""

    score: float  # of the first translator
    other: float  # of the second translator
    difference: float  # other - score
    p_value: float


SAMPLES = 1000  # resamplings of the paired bootstrap


def paired_bootstrap(
    translations: Sequence[str], others: Sequence[str], references: Sequence[str]
) -> dict[str, Difference]:
    """Compare two translators in BLEU and chrF by paired bootstrap resampling of sentences (Koehn 2004)."""
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest, Result

    systems: list[tuple[str, Sequence[str]]] = [("first", list(translations)), ("other", list(others))]
    test = PairedTest(
        systems, {"BLEU": BLEU(), "chrF2": CHRF()}, [list(references)], test_type="bs", n_samples=SAMPLES
    )
    _, scores = test()
    differences = dict[str, Difference]()
    for name, key in (("bleu", "BLEU"), ("chrf", "chrF2")):
        first, other = scores[key]
        assert isinstance(first, Result)
        assert isinstance(other, Result)
        difference = other.score - first.score
        p_value = other.p_value if difference and other.p_value is not None else 1.0
        differences[name] = Difference(first.score, other.score, difference, p_value)
    return differences


def bleu(translations: Sequence[str], *references: Sequence[str | None]) -> Quality:
    """Return the corpus BLEU of the translations.

    There may be several lists of references; None stands for one that is missing.
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    lists: list[Any] = [list(column) for column in references]
    return Quality(metric.corpus_score(list(translations), lists).score, str(metric.get_signature()))


def chrf(translations: Sequence[str], references: Sequence[str]) -> Quality:
    """Return the corpus chrF2 of the translations."""
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    return Quality(
        metric.corpus_score(list(translations), [list(references)]).score, str(metric.get_signature())
    )
