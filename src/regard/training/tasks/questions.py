"""Training on the questions of a puzzle, and the share of right answers.

Shape legend: N questions, T positions, H heads, K positions that are seen.
"""

import dataclasses
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from regard.machine.device import choose_machine
from regard.models import FAMILIES, family_class
from regard.models.contract import LanguageModel
from regard.parts.look import Look
from regard.text.puzzles import Puzzle, Questions
from regard.training.loop import descend
from regard.training.options import TrainingOptions
from regard.training.task import Batch, Batches, Task, ignore_reports

QUESTIONS = 64  # of a batch
TESTED = 200  # questions at each length
TEST_TOKENS = 1 << 14  # tokens of a test batch
SMALL: dict[str, dict[str, Any]] = {
    "dan": {"lookback": 0, "layers": 2},
    "window": {"layers": 2, "window": 8, "distant": 3},
    "attentive": {"lookback": 1100},
    "transformer": {"layers": 2, "heads": 2, "context": 1100},
    "backpack": {"layers": 2, "heads": 2, "senses": 4, "context": 1100},
}


@dataclass(frozen=True)
class PuzzleResult:
    """One family at one length: the share of right answers with its 95% interval, and the weight on the right place, if there is one."""

    family: str
    length: int
    accuracy: float
    low: float
    high: float
    right_weight: float | None


def puzzle_families() -> list[str]:
    """The families that can be trained on puzzles: those that read text and learn by descent."""
    classes = ((name, family_class(name)) for name in FAMILIES)
    return [name for name, family in classes if family.learns == "descent" and family.reads == "text"]


@final
@dataclass(frozen=True)
class PuzzleTask(Task):
    puzzle: Puzzle

    def batches(
        self, model: LanguageModel, options: TrainingOptions, seed: int, device: torch.device
    ) -> Batches:
        return QuestionBatches(self.puzzle, model.start, seed, device)


@final
@dataclass(frozen=True)
class QuestionBatches(Batches):
    """New questions at every step."""

    puzzle: Puzzle
    start: int
    seed: int
    device: torch.device

    def steps(self, epoch: int) -> int:
        return 1 << 62

    def batch(self, epoch: int, step: int) -> Batch:
        chance = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        length = self.puzzle.training_lengths[
            int(torch.randint(0, len(self.puzzle.training_lengths), (), generator=chance))
        ]
        asked = self.puzzle.training_questions(length, QUESTIONS, chance)
        rows = {"tokens_BT": read_rows(asked, self.start), "targets_BT": targets(asked)}
        real = int((asked.targets_NT >= 0).sum())
        inputs = {name: tensor.to(self.device) for name, tensor in rows.items()}
        return Batch(
            inputs,
            weight=real,
            tokens=asked.tokens_NT.numel(),
            fresh_B=torch.ones(QUESTIONS, dtype=torch.bool),
        )


def read_rows(asked: Questions, start: int) -> Tensor:
    """(N, 1 + T): the questions behind the start mark."""
    return torch.nn.functional.pad(asked.tokens_NT, (1, 0), value=start)


def targets(asked: Questions) -> Tensor:
    return torch.nn.functional.pad(asked.targets_NT, (1, 0), value=-1)


def train_on_puzzle(puzzle: Puzzle, family: str, steps: int, seed: int) -> LanguageModel:
    """A small model of a family, trained on the puzzle's small questions."""
    torch.manual_seed(seed)
    kind = family_class(family)
    options = {"width": 32, "dropout": 0.0, **SMALL.get(family, {})}
    if "positions" in {field.name for field in dataclasses.fields(kind.Config)}:
        options["positions"] = puzzle.positions
    model = kind(len(puzzle.vocabulary), kind.Config(**options))
    own = {
        key: value
        for key, value in kind.training_defaults.items()
        if key in ("optimiser", "learning_rate", "warmup")
    }
    rate = own.get("learning_rate", 0.002) / 2
    training = TrainingOptions(
        **{**own, "learning_rate": rate}, weight_decay=0.0, steps=steps, evaluate_every=steps
    )
    with tempfile.TemporaryDirectory() as folder:
        descend(
            model, PuzzleTask(puzzle), training, seed, Path(folder), choose_machine("fp32"), ignore_reports
        )
    return model.to("cpu").eval()


@torch.inference_mode()
def measure_on_puzzle(puzzle: Puzzle, family: str, models: list[LanguageModel], length: int) -> PuzzleResult:
    """The questions of all models are counted together."""
    right, asked_all, weights = 0, 0, list[float]()
    for seed, model in enumerate(models):
        asked = puzzle.test_questions(length, TESTED, torch.Generator().manual_seed(1000 + seed))
        for rows in torch.arange(TESTED).split(max(1, TEST_TOKENS // (length + 2))):
            part = Questions(asked.tokens_NT[rows], asked.targets_NT[rows], asked.right_NT[rows])
            look = Look([name for name, site in model.sites().items() if site.holds == "weights"])
            prediction, _ = model.read_from_start(read_rows(part, model.start), look=look)
            targets_NT = targets(part)
            answers_NT = prediction.log_probs().argmax(2)
            correct_N = ((answers_NT == targets_NT) | (targets_NT < 0)).all(1)  # every answer of a question
            right, asked_all = right + int(correct_N.sum()), asked_all + len(rows)
            weights += _right_weights(look, part)
    low, high = wilson(right, asked_all)
    mean_weight = sum(weights) / len(weights) if weights else None
    return PuzzleResult(family, length, right / asked_all, low, high, mean_weight)


@torch.inference_mode()
def answer(puzzle: Puzzle, model: LanguageModel, question: str) -> tuple[str, float]:
    """What a trained model answers to one question, and the probability of the answer."""
    tokens_1T = torch.tensor([[model.start, *puzzle.ids(question)]])
    best = model.read_from_start(tokens_1T)[0].log_probs()[0, -1].max(0)
    return puzzle.vocabulary[int(best.indices)], float(best.values.exp())


def _right_weights(look: Look, asked: Questions) -> list[float]:
    """The weight on the right place at each answer, by the site and head that has most of it."""
    question_M, place_M = (asked.right_NT >= 0).nonzero(as_tuple=True)
    if not look.maps or not len(question_M):
        return []
    target_M = asked.right_NT[question_M, place_M] + 1  # behind the start mark
    rows = place_M.unique()
    place = torch.searchsorted(rows, place_M)
    heads = [weights(rows + 1)[question_M, :, place, target_M] for weights in look.maps.values()]
    heads_MH = torch.cat(heads, 1)
    return heads_MH[:, int(heads_MH.mean(0).argmax())].tolist()


def wilson(right: int, asked: int, z: float = 1.96) -> tuple[float, float]:
    """The 95% interval of a share (Wilson 1927).

    >>> [round(end, 3) for end in wilson(8, 10)]
    [0.49, 0.943]
    """
    share = right / asked
    middle = (share + z * z / (2 * asked)) / (1 + z * z / asked)
    half = z / (1 + z * z / asked) * math.sqrt(share * (1 - share) / asked + z * z / (4 * asked * asked))
    return max(0.0, middle - half), min(1.0, middle + half)
