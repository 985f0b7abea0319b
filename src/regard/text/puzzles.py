"""Puzzles whose right attention is known: questions to a language model, at any length or load.

    ab       letters, then ?: the answer is B if any letter is B, else A         A A B A ? -> B
    recall   keys and values, then ? and a key: the answer is its value          a 3 b 7 c 1 ? b -> 7
    reverse  letters, then =: the answer is the letters in reverse order         a b c = -> c b a

torch is imported only when questions are made: `regard list` needs the names alone.

Shape legend: N questions, T positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LETTERS = [chr(ord("a") + number) for number in range(16)]
DIGITS = [str(number) for number in range(10)]


@dataclass(frozen=True)
class Questions:
    tokens_NT: "Tensor"  # the question, without the start mark
    targets_NT: "Tensor"  # the answer at the positions that must give it, -1 elsewhere
    right_NT: "Tensor"  # at those positions, the position of the evidence; -1 if there are several or none


QuestionMaker = Callable[[int, int, "torch.Generator"], Questions]  # (length or load, how many, generator)


@dataclass(frozen=True)
class Puzzle:
    name: str
    about: str
    vocabulary: list[str]
    positions: str  # position encoding of a Transformer; none if the test lengths are new
    training_lengths: tuple[int, ...]  # lengths or loads
    test_lengths: tuple[int, ...]
    measure: str  # name of the axis of lengths: length or pairs
    training_questions: QuestionMaker
    test_questions: QuestionMaker
    longest: int | None = None  # the largest load; None: any length can be asked

    def ids(self, question: str) -> list[int]:
        """The tokens of a question as it is typed, such as AABA?"""
        wrong = sorted(set(question) - set(self.vocabulary))
        if wrong or not question:
            raise UserError(
                f"{self.name} has no {' '.join(wrong) or 'empty question'}; "
                f"its letters are: {' '.join(self.vocabulary)}"
            )
        return [self.vocabulary.index(letter) for letter in question]


def _ab(length: int, count: int, generator: "torch.Generator", first: bool = False) -> Questions:
    """Questions of which half contain a B. In a test the only B comes first, at the greatest distance."""
    import torch

    letters_NT = torch.zeros(count, length, dtype=torch.long)
    has_b_N = torch.rand(count, generator=generator) < 0.5
    if first:
        letters_NT[has_b_N, 0] = 1
    else:
        place_N = torch.randint(0, length, (count,), generator=generator)
        drawn_NT = torch.rand(count, length, generator=generator) < 0.3
        letters_NT = (drawn_NT & has_b_N.unsqueeze(1)).long()
        letters_NT[has_b_N, place_N[has_b_N]] = 1
    tokens_NT = torch.cat([letters_NT, torch.full((count, 1), 2)], 1)
    targets_NT, right_NT = torch.full_like(tokens_NT, -1), torch.full_like(tokens_NT, -1)
    targets_NT[:, -1] = has_b_N.long()
    single_N = letters_NT.sum(1) == 1
    right_NT[single_N, -1] = letters_NT[single_N].argmax(1)
    return Questions(tokens_NT, targets_NT, right_NT)


def _recall(load: int, count: int, generator: "torch.Generator") -> Questions:
    import torch

    keys_NP = torch.rand(count, len(LETTERS), generator=generator).argsort(1)[:, :load]
    values_NP = torch.randint(0, len(DIGITS), (count, load), generator=generator)
    queried_N = torch.randint(0, load, (count,), generator=generator)
    pairs_NT = torch.stack([keys_NP, values_NP + len(LETTERS)], 2).flatten(1)
    key_N1 = keys_NP.gather(1, queried_N.unsqueeze(1))
    tokens_NT = torch.cat([pairs_NT, torch.full((count, 1), len(LETTERS) + len(DIGITS)), key_N1], 1)
    targets_NT, right_NT = torch.full_like(tokens_NT, -1), torch.full_like(tokens_NT, -1)
    targets_NT[:, -1] = values_NP.gather(1, queried_N.unsqueeze(1)).squeeze(1) + len(LETTERS)
    right_NT[:, -1] = 2 * queried_N + 1
    return Questions(tokens_NT, targets_NT, right_NT)


def _reverse(length: int, count: int, generator: "torch.Generator") -> Questions:
    import torch

    letters_NT = torch.randint(0, len(LETTERS), (count, length), generator=generator)
    reversed_NT = letters_NT.flip(1)
    tokens_NT = torch.cat([letters_NT, torch.full((count, 1), len(LETTERS)), reversed_NT[:, :-1]], 1)
    targets_NT, right_NT = torch.full_like(tokens_NT, -1), torch.full_like(tokens_NT, -1)
    targets_NT[:, length:] = reversed_NT
    right_NT[:, length:] = torch.arange(length - 1, -1, -1)
    return Questions(tokens_NT, targets_NT, right_NT)


PUZZLES = {
    "ab": Puzzle(
        "ab",
        "Is there a B? Trained on four letters, tested with one B at the start of ever longer questions.",
        ["A", "B", "?"],
        "none",
        (4,),
        (4, 16, 64, 256, 1000),
        "length",
        _ab,
        lambda length, count, generator: _ab(length, count, generator, first=True),
    ),
    "recall": Puzzle(
        "recall",
        "Keys with their values, then one key: its value is the answer.",
        [*LETTERS, *DIGITS, "?"],
        "rotary",
        (1, 2, 3, 4, 5, 6, 7, 8),
        (1, 2, 4, 8, 12),
        "pairs",
        _recall,
        _recall,
        len(LETTERS),  # a key is not given twice
    ),
    "reverse": Puzzle(
        "reverse",
        "The same letters in reverse order.",
        [*LETTERS, "="],
        "rotary",
        (1, 2, 3, 4, 5, 6, 7, 8),
        (2, 4, 8, 12),
        "length",
        _reverse,
        _reverse,
    ),
}
