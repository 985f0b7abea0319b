"""How good translations are, by sacrebleu, whose signatures say how it was measured."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Quality:
    score: float
    signature: str


def bleu(said: Sequence[str], references: Sequence[str]) -> Quality:
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    return Quality(metric.corpus_score(list(said), [list(references)]).score, str(metric.get_signature()))


def chrf(said: Sequence[str], references: Sequence[str]) -> Quality:
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    return Quality(metric.corpus_score(list(said), [list(references)]).score, str(metric.get_signature()))
