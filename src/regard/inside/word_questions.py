"""Questions to a table of word vectors: nearest words, analogies, similarity against people, a picture.

Shape legend: N words of the table, D width, K words of the question, P word pairs.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.errors import UserError
from regard.inside.word_tables import WordTable
from regard.probabilities.correlation import FEWEST, Correlation, spearman
from regard.text.word_pairs import WordPairs

SIGN = re.compile(r"\s+([+-])\s+")  # a sign has blanks on both sides, so that well-known is one word


@dataclass(frozen=True)
class Term:
    """A word of a question, added or subtracted."""

    word: str
    sign: int = 1


Question = tuple[Term, ...]


@dataclass(frozen=True)
class Answer:
    """The words of a table that are nearest to a word, or to a sum and difference of words."""

    question: str
    table: str
    terms: Question  # as the vocabulary spells them
    nearest: list[tuple[str, float]]  # words and cosines

    def to_json(self) -> dict[str, Any]:
        nearest = [{"word": word, "cosine": cosine} for word, cosine in self.nearest]
        return {"word": self.question, "table": self.table, "nearest": nearest}


@dataclass(frozen=True)
class Similarity:
    """The rank correlation of cosines with a word list, over the pairs whose words are both in the table."""

    table: str
    spearman: float
    low: float  # of the 95% interval
    high: float
    pairs: int
    left_out: int  # pairs
    missing: list[str]  # the words that the vocabulary lacks

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "missing": len(self.missing)}


def read_questions(words: Sequence[str]) -> list[Question]:
    """Read questions: a word each, or sums and differences such as "king - man + woman".

    Signs may also be arguments of their own: king - man + woman.

    >>> [len(question) for question in read_questions(["cat", "king - man + woman", "a", "-", "b"])]
    [1, 3, 2]
    """
    joined: list[str] = []
    for word in words:
        after_sign = bool(joined) and joined[-1].endswith((" +", " -"))
        if joined and (after_sign or word in ("+", "-")):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return [_terms(text.strip()) for text in joined]


def _terms(text: str) -> Question:
    first, *rest = SIGN.split(text)
    signs = (1 if sign == "+" else -1 for sign in rest[::2])
    terms = (Term(first), *(Term(word, sign) for word, sign in zip(rest[1::2], signs, strict=True)))
    if any(not term.word or term.word.endswith((" +", " -")) for term in terms):
        raise UserError(f"{text!r}: a sign stands between two words, as in king - man + woman")
    return terms


def write_question(question: Question) -> str:
    """Write a question as it is typed.

    >>> write_question((Term("king"), Term("man", -1)))
    'king - man'
    """
    first, *rest = question
    return "".join([first.word, *(f" {'+' if term.sign > 0 else '-'} {term.word}" for term in rest)])


def answer(table: WordTable, question: Question, top: int) -> Answer | None:
    """Find the words with the largest cosine. None: the vocabulary lacks a word of the question.

    The words of the question are no answers. Each is scaled to length 1 before the sum (3CosAdd, Levy and
    Goldberg 2014, equation 1).
    """
    spelt = [table.spelling(term.word) for term in question]
    terms = tuple(Term(word, term.sign) for word, term in zip(spelt, question, strict=True) if word)
    if len(terms) < len(question):
        return None
    sum_D = torch.stack([term.sign * table.unit(term.word) for term in terms]).sum(0)
    cosine_N = table.units_ND @ normalize(sum_D, dim=0)
    own = [table.place_of[term.word] for term in terms if term.word in table.place_of]
    cosine_N[own] = -torch.inf
    best = cosine_N.topk(max(0, min(top, len(cosine_N) - len(set(own)))))
    nearest = [
        (table.words[place], value)
        for place, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    return Answer(write_question(question), table.name, terms, nearest)


def similarity(table: WordTable, listed: WordPairs) -> Similarity | None:
    """Correlate cosines with the scores of a word list. None: fewer than 4 pairs can be compared."""
    spelt = {word: table.spelling(word) for pair in listed.pairs for word in pair}
    unit_of = {word: table.unit(own) for word, own in spelt.items() if own is not None}
    both = [place for place, pair in enumerate(listed.pairs) if all(word in unit_of for word in pair)]
    if len(both) < FEWEST:
        return None
    one_PD, two_PD = (torch.stack([unit_of[listed.pairs[place][side]] for place in both]) for side in (0, 1))
    cosine_P = (one_PD.double() * two_PD.double()).sum(1).numpy()
    found: Correlation | None = spearman(cosine_P, np.array([listed.scores[place] for place in both]))
    if found is None:
        raise UserError(f"{listed.name}: all scores, or all cosines, are equal: there is nothing to rank")
    missing = sorted(word for word, own in spelt.items() if own is None)
    return Similarity(
        table.name, **asdict(found), pairs=len(both), left_out=len(listed) - len(both), missing=missing
    )


def similarities(tables: Sequence[WordTable], listed: WordPairs) -> list[Similarity]:
    """Return the correlation of each table that has enough pairs."""
    found = [one for table in tables if (one := similarity(table, listed)) is not None]
    if not found:
        words = f"fewer than {FEWEST} of its {len(listed)} pairs have both words in the vocabulary"
        raise UserError(
            f"{listed.name}: {words}; give a list with words of the training text, or train on more"
        )
    return found


@dataclass(frozen=True)
class Plane:
    """The two directions in which some words of a table differ most, by principal components."""

    table: str
    words: list[str]
    points_K2: np.ndarray
    shares: tuple[float, float]  # of the variance, along each axis

    def to_json(self) -> dict[str, Any]:
        points = zip(self.words, self.points_K2.tolist(), strict=True)
        return {
            "table": self.table,
            "points": [{"word": word, "x": x, "y": y} for word, (x, y) in points],
            "variance": list(self.shares),
        }


def principal_plane(table: WordTable, words: Sequence[str]) -> Plane:
    """Project the unit vectors of words on their first two principal components.

    The sign of a component is free: the largest coordinate is made positive, so that a picture does not
    depend on the library.
    """
    if len(words) < 3:
        raise UserError("a picture needs 3 words or more: name more words, or raise `top`")
    units_KD: Tensor = torch.stack([table.unit(word) for word in words]).double()
    left_KR, size_R, _ = torch.linalg.svd(units_KD - units_KD.mean(0), full_matrices=False)
    points_K2 = left_KR[:, :2] * size_R[:2]
    largest_2 = points_K2.gather(0, points_K2.abs().argmax(0, keepdim=True))
    total = float(size_R.square().sum()) or 1.0
    shares = [float(size) ** 2 / total for size in size_R[:2]]
    return Plane(table.name, list(words), (points_K2 * largest_2.sign()).numpy(), (shares[0], shares[1]))
