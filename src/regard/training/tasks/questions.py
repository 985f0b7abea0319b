"""Training on the questions of a puzzle, and measuring the share of correct answers.

Shape legend: N questions, T positions, H heads, M answers with a right place.
"""

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.machine.device import Machine, choose_machine
from regard.machine.memory import check_memory
from regard.models import FAMILIES, family_class
from regard.models.building import build_model
from regard.models.contract import LanguageModel
from regard.models.model import as_kind
from regard.parts.look import Look
from regard.probabilities.intervals import wilson
from regard.text.puzzles import Puzzle, Questions
from regard.tokens.schedule import epoch_generator
from regard.training.loop import descend
from regard.training.options import TrainingOptions
from regard.training.task import Batch, Batches, Step, Task, ignore_reports

QUESTIONS = 64  # the number of questions in a batch
TESTED = 200  # the number of test questions at each length
TEST_TOKENS = 1 << 14  # the maximal number of tokens in a test batch
# The options of small models. A lookback or context of 1100 contains the longest test question.
SMALL: dict[str, dict[str, Any]] = {
    "dan": {"lookback": 0, "layers": 2},
    "window": {"layers": 2, "window": 8, "distant": 3},
    "attentive": {"lookback": 1100},
    "transformer": {"layers": 2, "heads": 2, "context": 1100},
    "backpack": {"layers": 2, "heads": 2, "senses": 4, "context": 1100},
}


@dataclass(frozen=True)
class PuzzleResult:
    """The result of a family at a length: the share of correct answers and its 95% interval (low, high).

    `right_weight` is the mean attention weight on the position that holds the answer, or None without
    attention.
    """

    family: str
    length: int
    accuracy: float
    low: float
    high: float
    right_weight: float | None


def puzzle_families() -> list[str]:
    """Return the families that can be trained on puzzles: those that read text and learn by descent."""
    classes = ((name, family_class(name)) for name in FAMILIES)
    return [name for name, family in classes if family.learns == "descent" and family.reads == "text"]


@final
@dataclass(frozen=True)
class PuzzleTask(Task[LanguageModel]):
    """Training on random questions of a puzzle."""

    puzzle: Puzzle

    def batches(self, model: LanguageModel, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        return QuestionBatches(self.puzzle, model.start, seed, machine.device)

    def objective(self, model: LanguageModel, options: TrainingOptions) -> Step:
        return Step(model, options.label_smoothing)


@final
@dataclass(frozen=True)
class QuestionBatches(Batches):
    """Batches of new random questions at every step."""

    puzzle: Puzzle
    start: int
    seed: int
    device: torch.device

    def steps(self, epoch: int) -> int:
        return 1 << 62

    def batch(self, epoch: int, step: int) -> Batch:
        generator = epoch_generator(self.seed, step)
        lengths = self.puzzle.training_lengths
        length = lengths[int(torch.randint(0, len(lengths), (), generator=generator))]
        questions = self.puzzle.training_questions(length, QUESTIONS, generator)
        rows = {"tokens_BT": read_rows(questions, self.start), "targets_BT": targets(questions)}
        real = int((questions.targets_NT >= 0).sum())
        inputs = {name: tensor.to(self.device) for name, tensor in rows.items()}
        return Batch(
            inputs,
            weight=real,
            tokens=questions.tokens_NT.numel(),
            fresh_B=torch.ones(QUESTIONS, dtype=torch.bool),
        )


def read_rows(questions: Questions, start: int) -> Tensor:
    """(N, 1 + T): the start mark, followed by the question."""
    return torch.nn.functional.pad(questions.tokens_NT, (1, 0), value=start)


def targets(questions: Questions) -> Tensor:
    """(N, 1 + T): the answers, -1 elsewhere."""
    return torch.nn.functional.pad(questions.targets_NT, (1, 0), value=-1)


def untrained(puzzle: Puzzle, family: str, seed: int = 1) -> LanguageModel:
    """Make a small model of a family for a puzzle."""
    torch.manual_seed(seed)
    kind = family_class(family)
    options = {"width": 32, "dropout": 0.0, **SMALL.get(family, {})}
    if "positions" in {field.name for field in dataclasses.fields(kind.Config)}:
        options["positions"] = puzzle.positions
    return as_kind(build_model(kind, len(puzzle.vocabulary), kind.Config(**options)), LanguageModel)


def check_length(puzzle: Puzzle, family: str, length: int) -> None:
    """Refuse test questions that the family cannot read, or that do not fit into memory."""
    name = f"`tests` {length}"
    if puzzle.longest is not None and length > puzzle.longest:
        raise UserError(f"{name}: {puzzle.name} asks for at most {puzzle.longest} {puzzle.measure}")
    check_memory(3 * 8 * TESTED * length, name)  # questions, answers and right places
    tokens = 1 + puzzle.test_questions(length, 1, torch.Generator()).tokens_NT.shape[1]
    model = untrained(puzzle, family)
    if model.context is not None and tokens > model.context:
        raise UserError(f"{name}: {family} reads at most {model.context} tokens here, and these are {tokens}")
    if any(site.holds == "weights" for site in model.sites().values()):
        check_memory(16 * tokens**2, name)  # scores and weights of two heads


def train_on_puzzle(puzzle: Puzzle, family: str, steps: int, seed: int) -> LanguageModel:
    """Train a small model of a family on short questions of a puzzle."""
    model, kind = untrained(puzzle, family, seed), family_class(family)
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
    """Measure models of a family with different seeds. The questions of all models are counted together."""
    correct, count, weights = 0, 0, list[float]()
    for seed, model in enumerate(models):
        questions = puzzle.test_questions(length, TESTED, torch.Generator().manual_seed(1000 + seed))
        for rows in torch.arange(TESTED).split(max(1, TEST_TOKENS // (length + 2))):
            part = Questions(questions.tokens_NT[rows], questions.targets_NT[rows], questions.right_NT[rows])
            look = Look([name for name, site in model.sites().items() if site.holds == "weights"])
            prediction, _ = model.read_from_start(read_rows(part, model.start), look=look)
            targets_NT = targets(part)
            answers_NT = prediction.log_probs().argmax(2)
            correct_N = ((answers_NT == targets_NT) | (targets_NT < 0)).all(1)  # all answers of a question
            correct, count = correct + int(correct_N.sum()), count + len(rows)
            weights += _right_weights(look, part)
    low, high = wilson(correct, count)
    mean_weight = sum(weights) / len(weights) if weights else None
    return PuzzleResult(family, length, correct / count, low, high, mean_weight)


@torch.inference_mode()
def answer(puzzle: Puzzle, model: LanguageModel, question: str) -> tuple[str, float]:
    """Return a trained model's answer to a question, and the probability of the answer."""
    tokens_1T = torch.tensor([[model.start, *puzzle.ids(question)]])
    best = model.read_from_start(tokens_1T)[0].log_probs()[0, -1].max(0)
    return puzzle.vocabulary[int(best.indices)], float(best.values.exp())


def _right_weights(look: Look, questions: Questions) -> list[float]:
    """Return the attention weight on the right place for each answer, from the best site and head."""
    question_M, place_M = (questions.right_NT >= 0).nonzero(as_tuple=True)
    if not look.maps or not len(question_M):
        return []
    target_M = questions.right_NT[question_M, place_M] + 1  # the start mark has column 0
    rows = place_M.unique()
    place = torch.searchsorted(rows, place_M)
    heads = [weights(rows + 1)[question_M, :, place, target_M] for weights in look.maps.values()]
    heads_MH = torch.cat(heads, 1)
    return heads_MH[:, int(heads_MH.mean(0).argmax())].tolist()
