"""Every family at a puzzle: trained on small ones, tested at larger; and whether its attention goes where it must.

Shape legend: N questions, T positions, H heads, K positions seen.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.errors import UserError
from regard.models import FAMILIES, family_class
from regard.models.contract import LanguageModel
from regard.parts.look import Look
from regard.text.puzzles import PUZZLES, Puzzle, Questions
from regard.training.optimisers import TrainingOptions, make_optimisers, rate

TESTED = 200  # questions at each length
SMALL: dict[str, dict[str, Any]] = {
    "dan": {"lookback": 0, "layers": 2},
    "window": {"layers": 2, "window": 8, "distant": 3},
    "attentive": {"lookback": 1100},
    "transformer": {"layers": 2, "heads": 2, "context": 1100},
    "backpack": {"layers": 2, "heads": 2, "senses": 4, "context": 1100},
}


@dataclass(frozen=True)
class Solved:
    """One family at one length: the share of right answers, its 95% interval, and the weight on the right place, where there is one."""

    family: str
    length: int
    accuracy: float
    low: float
    high: float
    right_weight: float | None


def solvers() -> list[str]:
    """The families that learn by descent: counts cannot see past their order."""
    return [family for family in FAMILIES if family_class(family).training_defaults is not None]


def puzzle(
    name: str, families: Sequence[str] = (), *, steps: int = 400, seeds: int = 1, tests: Sequence[int] = (),
    finished: Callable[[list[Solved]], None] = lambda rows: None,
) -> list[Solved]:  # fmt: skip
    """Train each family on a puzzle's small questions and test it at its larger ones.

    >>> regard.puzzle("ab", ["dan", "transformer"], steps=50)  # doctest: +SKIP
    """
    if steps < 1 or seeds < 1 or any(test < 1 for test in tests):
        raise UserError("--steps, --seeds and --tests must be 1 or more")
    chosen, found = _checked(name, families), list[Solved]()
    for family in families or solvers():
        models = [_trained(chosen, family, steps, seed) for seed in range(1, seeds + 1)]
        rows = [_tested(chosen, family, models, length) for length in tests or chosen.tested]
        finished(rows)
        found += rows
    return found


def _checked(name: str, families: Sequence[str]) -> Puzzle:
    if name not in PUZZLES:
        raise UserError(f"unknown puzzle {name!r}; there are: {', '.join(PUZZLES)}")
    for family in families:
        if family not in solvers():
            raise UserError(f"{family} does not solve puzzles; those that do: {', '.join(solvers())}")
    return PUZZLES[name]


def answers(name: str, question: str, families: Sequence[str] = (), *, steps: int = 400) -> dict[str, tuple[str, float]]:
    """What each family, trained on a puzzle, answers to a question (`AABA?`), and how sure it is.

    >>> answers("ab", "AABA?", ["lstm"])  # doctest: +SKIP
    {'lstm': ('B', 0.999)}
    """
    chosen = _checked(name, families)
    ids, found = chosen.ids(question), {}
    for family in families or solvers():
        model = _trained(chosen, family, steps, seed=1)
        with torch.inference_mode():
            best = model(torch.tensor([[model.start, *ids]]))[0].log_probs()[0, -1].max(0)
        found[family] = (chosen.vocabulary[int(best.indices)], float(best.values.exp()))
    return found


def _trained(chosen: Puzzle, family: str, steps: int, seed: int) -> LanguageModel:
    torch.manual_seed(seed)
    kind = family_class(family)
    options = {"width": 32, "dropout": 0.0, **SMALL.get(family, {})}
    if "positions" in {field.name for field in dataclasses.fields(kind.Config)}:
        options["positions"] = chosen.positions
    model = kind(len(chosen.vocabulary), kind.Config(**options)).train()
    own = {key: value for key, value in kind.training_defaults.items() if key in ("optimiser", "learning_rate", "warmup")}
    training = TrainingOptions(**{**own, "learning_rate": own.get("learning_rate", 0.002) / 2, "weight_decay": 0.0})
    optimisers, chance = make_optimisers(model, training), torch.Generator().manual_seed(seed)
    for step in range(steps):
        length = chosen.trained[int(torch.randint(0, len(chosen.trained), (), generator=chance))]
        asked = chosen.ask(length, 64, chance)
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = training.learning_rate * rate(step / steps, training)
        model(_begun(model, asked))[0].loss(_targets(asked)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
    return model.eval()


def _begun(model: LanguageModel, asked: Questions) -> torch.Tensor:
    """(N, 1 + T): the questions behind the start mark."""
    return torch.cat([torch.full_like(asked.tokens_NT[:, :1], model.start), asked.tokens_NT], 1)


def _targets(asked: Questions) -> torch.Tensor:
    return torch.cat([torch.full_like(asked.targets_NT[:, :1], -1), asked.targets_NT], 1)


@torch.inference_mode()
def _tested(chosen: Puzzle, family: str, models: list[LanguageModel], length: int) -> Solved:
    right, asked_all, weights = 0, 0, list[float]()
    for seed, model in enumerate(models):
        asked = chosen.test(length, TESTED, torch.Generator().manual_seed(1000 + seed))
        for rows in torch.arange(TESTED).split(max(1, (1 << 14) // (length + 2))):
            part = Questions(asked.tokens_NT[rows], asked.targets_NT[rows], asked.right_NT[rows])
            look = Look(["*attention"])
            prediction, _ = model(_begun(model, part), look=look if model.sites() else None)
            targets_NT = _targets(part)
            said_NT = prediction.log_probs().argmax(2)
            correct_N = ((said_NT == targets_NT) | (targets_NT < 0)).all(1)  # every answer of a question
            right, asked_all = right + int(correct_N.sum()), asked_all + len(rows)
            weights += _weights(look, part)
    low, high = wilson(right, asked_all)
    return Solved(family, length, right / asked_all, low, high, sum(weights) / len(weights) if weights else None)


def _weights(look: Look, asked: Questions) -> list[float]:
    """The weight on the right place at each answer, by the site and head that has most of it."""
    question_M, place_M = (asked.right_NT >= 0).nonzero(as_tuple=True)
    if not look.seen or not len(question_M):
        return []
    target_M = asked.right_NT[question_M, place_M] + 1  # behind the start mark
    found = []
    for weights in look.seen.values():
        rows = place_M.unique()
        weights_NHQK = weights(rows + 1)
        place = torch.searchsorted(rows, place_M)
        found.append(weights_NHQK[question_M, :, place, target_M])
    heads_MH = torch.cat(found, 1)
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
