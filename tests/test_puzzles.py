"""Puzzles: what is asked, where the answer can be seen, and that a model which can solve one does."""

import json

import pytest
import torch

import regard
from regard.cli import main
from regard.models.contract import LanguageModel, Padded, State
from regard.models.predictions import SoftmaxPrediction
from regard.parts.look import Look, Site, declare
from regard.text.puzzles import PUZZLES
from regard.training.tasks.questions import PuzzleResult, measure_on_puzzle, puzzle_families, wilson
from regard.verbs.puzzle import Results


def chance() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_ab_asks_for_any_b():
    asked = PUZZLES["ab"].training_questions(7, 200, chance())
    letters = asked.tokens_NT[:, :-1]
    assert asked.targets_NT[:, -1].tolist() == (letters == 1).any(1).long().tolist()
    assert 60 < int(asked.targets_NT[:, -1].sum()) < 140
    alone = (letters == 1).sum(1) == 1
    assert asked.right_NT[alone, -1].tolist() == letters[alone].argmax(1).tolist()
    far = PUZZLES["ab"].test_questions(1000, 50, chance())
    assert set(far.right_NT[:, -1].tolist()) == {-1, 0}  # the only B comes first
    assert int((far.tokens_NT[:, 1:-1] == 1).sum()) == 0


def test_recall_asks_for_a_keys_value():
    asked, names = PUZZLES["recall"].training_questions(5, 40, chance()), PUZZLES["recall"].vocabulary
    for tokens, targets, right in zip(
        asked.tokens_NT.tolist(), asked.targets_NT.tolist(), asked.right_NT.tolist(), strict=True
    ):
        pairs = dict(zip(tokens[0:10:2], tokens[1:10:2], strict=True))
        assert len(pairs) == 5
        assert names[tokens[10]] == "?"
        assert targets[-1] == pairs[tokens[11]] == tokens[right[-1]]
        assert targets[:-1] == [-1] * 11


def test_reverse_asks_for_the_letters_from_the_end():
    asked = PUZZLES["reverse"].training_questions(4, 10, chance())
    for tokens, targets, right in zip(
        asked.tokens_NT.tolist(), asked.targets_NT.tolist(), asked.right_NT.tolist(), strict=True
    ):
        assert targets[4:] == tokens[3::-1]
        assert [tokens[place] for place in right[4:]] == targets[4:]
        assert tokens[5:] == targets[4:-1]  # what was said is read


class Pointing(LanguageModel):
    """Reads questions of two letters: the second head looks from ? at the first, behind the start mark."""

    family = "pointing"

    def sites(self) -> dict[str, Site]:
        return declare(Site("attention", "BHTS", "weights"))

    def begin(self, given, look: Look | None = None) -> State:
        return State(torch.zeros(given, dtype=torch.long))

    def forward(self, tokens_BT, state: State, look: Look | None = None, padded: Padded = "anywhere"):
        weights = torch.zeros(len(tokens_BT), 2, 4, 4)
        weights[:, 1, 3, 1] = 0.75
        assert look is not None
        look.watch("attention", lambda rows: weights[:, :, rows])
        logits = torch.zeros(*tokens_BT.shape, 3)
        return SoftmaxPrediction(logits, torch.eye(3), torch.zeros(3)), state


def test_the_right_weight_is_that_of_the_best_head():
    solved = measure_on_puzzle(PUZZLES["ab"], "pointing", [Pointing(3, None)], 2)
    assert solved.right_weight == 0.75  # None if no question had a right place
    assert 0 < solved.accuracy < 1  # the answer is always A, and some questions have a B


def test_a_transformer_learns_ab_and_looks_at_the_b():
    rows = regard.puzzle("ab", families=["transformer", "rnn"], steps=60, tests=[4, 6]).results
    short = next(row for row in rows if (row.family, row.length) == ("transformer", 4))
    assert short.accuracy > 0.95
    assert short.right_weight > 1 / 6  # more than one of six places alike
    assert next(row for row in rows if row.family == "rnn").right_weight is None


def test_every_family_can_be_asked(capsys, tmp_path):
    assert "ngram" not in puzzle_families()
    for name in PUZZLES:
        assert main(["puzzle", name, "--steps", "2", "--tests", "2", "--json"]) == 0
        results = json.loads(capsys.readouterr().out)["results"]
        assert [row["family"] for row in results] == puzzle_families()
        assert all(0 <= row["low"] <= row["accuracy"] <= row["high"] <= 1 for row in results)
    assert (
        main(
            [
                "puzzle",
                "ab",
                "--families",
                "dan",
                "--steps",
                "2",
                "--tests",
                "2",
                "3",
                "--out",
                str(tmp_path / "plot.svg"),
            ]
        )
        == 0
    )
    assert "share of right answers" in (tmp_path / "plot.svg").read_text()
    assert main(["puzzle"]) == 0
    assert "reverse" in capsys.readouterr().out


def test_a_question_of_ones_own(capsys):
    assert main(["puzzle", "ab", "--families", "lstm", "--steps", "80", "--ask", "AABA?", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["answers"]["lstm"]
    assert answer["answer"] == "B"
    assert answer["probability"] > 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["abc"], "unknown puzzle 'abc'; there are: ab, recall, reverse"),
        (["ab", "--families", "ngram"], "ngram does not solve puzzles"),
        (["ab", "--steps", "0"], "must be 1 or more"),
        (["ab", "--ask", "AACA?"], "ab has no C; its letters are: A B ?"),
        (["ab", "--out", "x.html"], "--out writes .svg or .png"),
    ],
)
def test_wrong_options_are_told(arguments, words, capsys):
    assert main(["puzzle", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert words in told.err


def test_the_interval_holds_its_share():
    assert wilson(0, 50)[0] == 0
    assert wilson(50, 50)[1] == 1
    low, high = wilson(25, 50)
    assert low + high == pytest.approx(1)  # symmetric about a half


@pytest.mark.slow
def test_a_transformer_learns_to_look_a_key_up():
    """It needs two layers at once (Olsson et al. 2022).

    One sees which key stood before a value, the other one finds the key that is asked for.
    """
    (four,) = regard.puzzle("recall", families=["transformer"], steps=500, tests=[4]).results
    assert four.low > 0.9
    assert four.right_weight > 0.8


def test_the_table_is_put_into_words():
    """The sentence follows the numbers: who is still right at the longest test, and who fell from where."""
    rows = [
        PuzzleResult("lstm", 4, 1.0, 0.98, 1.0, None),
        PuzzleResult("lstm", 1000, 0.99, 0.97, 1.0, None),
        PuzzleResult("rnn", 4, 1.0, 0.98, 1.0, None),
        PuzzleResult("rnn", 1000, 0.51, 0.44, 0.57, None),
        PuzzleResult("dan", 4, 0.5, 0.43, 0.57, None),
        PuzzleResult("dan", 1000, 0.5, 0.43, 0.57, None),
    ]
    assert Results("ab", rows, 400).says() == (
        "After 400 steps, at length 1,000: lstm is still right at least 95% of the time; "
        "rnn falls from 1.00 (length 4) to 0.51; dan has 0.50."
    )
    both = Results("ab", [*rows[:2], PuzzleResult("gru", 1000, 0.97, 0.95, 0.99, None)], 1500).says()
    assert (
        both == "After 1,500 steps, at length 1,000: lstm and gru are still right at least 95% of the time."
    )
    assert "no family is still right" in Results("ab", rows[2:], 400).says()
