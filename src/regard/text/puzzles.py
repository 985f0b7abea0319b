"""Puzzles whose right attention is known: questions to a language model, of any length or load.

    ab       letters, then ?: B if there is any B among them, else A             A A B A ? -> B
    recall   keys and values, then ? and a key: its value                        a 3 b 7 c 1 ? b -> 7
    reverse  letters, then =: the same letters from the end                      a b c = -> c b a

Shape legend: N questions, T positions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UserError

LETTERS = [chr(ord("a") + number) for number in range(16)]
DIGITS = [str(number) for number in range(10)]


@dataclass(frozen=True)
class Questions:
    tokens_NT: Tensor  # what is read; the start mark is left to the model
    targets_NT: Tensor  # the answer at the positions that must give it, -1 elsewhere
    right_NT: Tensor  # at those positions, where the answer can be seen; -1 where there is no one place


@dataclass(frozen=True)
class Puzzle:
    name: str
    about: str
    vocabulary: list[str]
    positions: str  # of a Transformer: none where lengths differ from those trained on
    training_lengths: tuple[int, ...]  # lengths or loads to train on
    test_lengths: tuple[int, ...]  # and to be tested at
    measure: str
    training_questions: Callable[
        [int, int, torch.Generator], Questions
    ]  # (length or load, questions, chance)
    test_questions: Callable[[int, int, torch.Generator], Questions]

    def ids(self, question: str) -> list[int]:
        """A question as one would type it: AABA?"""
        wrong = sorted(set(question) - set(self.vocabulary))
        if wrong or not question:
            raise UserError(
                f"{self.name} has no {' '.join(wrong) or 'empty question'}; its letters are: {' '.join(self.vocabulary)}"
            )
        return [self.vocabulary.index(letter) for letter in question]


def _ab(length: int, count: int, chance: torch.Generator, first: bool = False) -> Questions:
    """Half of the sequences are all As. In a test the only B comes first, as far away as it can be."""
    letters_NT = torch.zeros(count, length, dtype=torch.long)
    any_N = torch.rand(count, generator=chance) < 0.5
    if first:
        letters_NT[any_N, 0] = 1
    else:
        place_N = torch.randint(0, length, (count,), generator=chance)
        letters_NT = (torch.rand(count, length, generator=chance) < 0.3).long() * any_N.long().unsqueeze(1)
        letters_NT[any_N, place_N[any_N]] = 1
    tokens_NT = torch.cat([letters_NT, torch.full((count, 1), 2)], 1)
    targets_NT, right_NT = torch.full_like(tokens_NT, -1), torch.full_like(tokens_NT, -1)
    targets_NT[:, -1] = any_N.long()
    one_N = letters_NT.sum(1) == 1
    right_NT[one_N, -1] = letters_NT[one_N].argmax(1)
    return Questions(tokens_NT, targets_NT, right_NT)


def _recall(load: int, count: int, chance: torch.Generator) -> Questions:
    keys_NP = torch.rand(count, len(LETTERS), generator=chance).argsort(1)[:, :load]
    values_NP = torch.randint(0, len(DIGITS), (count, load), generator=chance)
    asked_N = torch.randint(0, load, (count,), generator=chance)
    pairs_NT = torch.stack([keys_NP, values_NP + len(LETTERS)], 2).flatten(1)
    key_N1 = keys_NP.gather(1, asked_N.unsqueeze(1))
    tokens_NT = torch.cat([pairs_NT, torch.full((count, 1), len(LETTERS) + len(DIGITS)), key_N1], 1)
    targets_NT, right_NT = torch.full_like(tokens_NT, -1), torch.full_like(tokens_NT, -1)
    targets_NT[:, -1] = values_NP.gather(1, asked_N.unsqueeze(1)).squeeze(1) + len(LETTERS)
    right_NT[:, -1] = 2 * asked_N + 1
    return Questions(tokens_NT, targets_NT, right_NT)


def _reverse(length: int, count: int, chance: torch.Generator) -> Questions:
    letters_NT = torch.randint(0, len(LETTERS), (count, length), generator=chance)
    turned_NT = letters_NT.flip(1)
    tokens_NT = torch.cat([letters_NT, torch.full((count, 1), len(LETTERS)), turned_NT[:, :-1]], 1)
    targets_NT, right_NT = torch.full_like(tokens_NT, -1), torch.full_like(tokens_NT, -1)
    targets_NT[:, length:] = turned_NT
    right_NT[:, length:] = torch.arange(length - 1, -1, -1)
    return Questions(tokens_NT, targets_NT, right_NT)


PUZZLES = {
    "ab": Puzzle(
        "ab",
        "Is there a B? Trained on four letters, tested with one B first, ever farther away.",
        ["A", "B", "?"],
        "none",
        (4,),
        (4, 16, 64, 256, 1000),
        "length",
        _ab,
        lambda length, count, chance: _ab(length, count, chance, first=True),
    ),
    "recall": Puzzle(
        "recall",
        "Many keys with their values, asked for one.",
        [*LETTERS, *DIGITS, "?"],
        "rotary",
        (1, 2, 3, 4, 5, 6, 7, 8),
        (1, 2, 4, 8, 12),
        "pairs",
        _recall,
        _recall,
    ),
    "reverse": Puzzle(
        "reverse",
        "The same letters from the end.",
        [*LETTERS, "="],
        "rotary",
        (1, 2, 3, 4, 5, 6, 7, 8),
        (2, 4, 8, 12),
        "length",
        _reverse,
        _reverse,
    ),
}
