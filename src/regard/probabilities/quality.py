"""How good translations are, by sacrebleu, whose signatures say how it was measured."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Quality:
    score: float
    signature: str


@dataclass(frozen=True)
class Difference:
    """Two translators on the same sentences: how far the second is ahead, and how often that would happen by chance."""

    score: float  # the first's
    other: float
    difference: float
    p_value: float


SAMPLES = 1000


def paired(said: Sequence[str], others: Sequence[str], references: Sequence[str]) -> dict[str, Difference]:
    """Paired bootstrap resampling of the sentences (Koehn 2004), by sacrebleu: BLEU and chrF."""
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest, Result

    systems: list[tuple[str, Sequence[str]]] = [("one", list(said)), ("other", list(others))]
    test = PairedTest(
        systems, {"BLEU": BLEU(), "chrF2": CHRF()}, [list(references)], test_type="bs", n_samples=SAMPLES
    )
    _, scores = test()
    found = {}
    for name, key in (("bleu", "BLEU"), ("chrf", "chrF2")):
        one, other = scores[key]
        assert isinstance(one, Result)
        assert isinstance(other, Result)
        ahead = other.score - one.score
        found[name] = Difference(
            one.score, other.score, ahead, other.p_value if ahead and other.p_value is not None else 1.0
        )
    return found


def bleu(said: Sequence[str], references: Sequence[str]) -> Quality:
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    return Quality(metric.corpus_score(list(said), [list(references)]).score, str(metric.get_signature()))


def chrf(said: Sequence[str], references: Sequence[str]) -> Quality:
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    return Quality(metric.corpus_score(list(said), [list(references)]).score, str(metric.get_signature()))
