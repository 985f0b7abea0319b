"""Beam search finds the likeliest continuations of any language model's state, for many rows at once.

A beam of size 1 is greedy search.

Shape legend: B sentences, K beams, V vocabulary, T steps, C candidates.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.machine.memory import check_memory
from regard.models.contract import LanguageModel, State
from regard.probabilities.measures import check_log_probs
from regard.tokens.batches import shift_right

CHECKED = 16  # after so many steps, the memory of the state is compared with that of the machine


@dataclass(frozen=True)
class Hypothesis:
    """A continuation of the state. Hypotheses are ranked by `score`."""

    ids: list[int]  # without the end token
    log_prob: float
    score: float  # log P / length ** penalty; the length includes the end token
    ended: bool = True  # False if the hypothesis reached the length limit without an end token


@torch.inference_mode()
def beam_search(
    model: LanguageModel,
    state: State,
    end: int,
    beam: int,
    longest_B: Tensor,
    penalty: float = 1.0,
    exactly: int | None = None,
    prefix: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each row of `state`, at most `beam` of them, the best first.

    Every hypothesis begins with `prefix`. Each token is read once: the states of the surviving beams are
    picked from the states of their parents. A row is finished when no running beam can overtake its `beam`
    best finished hypotheses. `exactly` gives every hypothesis this length (end token included); speed
    measurements use it.
    """
    device, rows = model.device, len(longest_B)
    alive = torch.arange(rows)  # the rows that are not finished
    score_BK = torch.full((rows, beam), -torch.inf, device=device)
    # All beams are equal at first, so only the first of them gets a finite score.
    score_BK[:, 0], state = _read_prefix(model, state, rows, prefix)
    state = state.pick(torch.arange(rows, device=device).repeat_interleave(beam))
    token_BK = torch.full((rows, beam), prefix[-1] if prefix else model.start, device=device)
    written_BKT = torch.tensor(prefix, dtype=torch.long, device=device).expand(rows, beam, -1)
    finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
    for step in range(len(prefix) + 1, int(longest_B.max()) + 1):
        if step % CHECKED == 1 or step == len(prefix) + 1:
            _check_room(model, state, token_BK)
        prediction, state = model(token_BK.reshape(-1, 1), state)
        log_probs_BKV = prediction.log_probs().view(len(alive), beam, -1)
        if exactly is not None:
            log_probs_BKV[:, :, end] = -torch.inf if step < exactly else 0
        size = log_probs_BKV.shape[2]
        # 2 * beam candidates: each parent has one candidate that ends, so at least `beam` candidates do not
        # end.
        best_BC = (score_BK.unsqueeze(2) + log_probs_BKV).flatten(1).topk(min(2 * beam, beam * size), 1)
        parent_BC, chosen_BC = best_BC.indices // size, best_BC.indices % size
        ends_BC = chosen_BC == end
        at_limit = longest_B[alive] <= step
        _collect(finished, alive, best_BC.values, parent_BC, ends_BC, written_BKT, step, penalty, beam)
        order_BC = ends_BC.long().argsort(dim=1, stable=True)[:, :beam]  # the best candidates that do not end
        score_BK = best_BC.values.gather(1, order_BC).masked_fill(ends_BC.gather(1, order_BC), -torch.inf)
        parent_BK, token_BK = parent_BC.gather(1, order_BC), chosen_BC.gather(1, order_BC)
        written_BKT = written_BKT.gather(1, parent_BK.unsqueeze(2).expand(-1, -1, step - 1))
        written_BKT = torch.cat([written_BKT, token_BK.unsqueeze(2)], 2)
        done = at_limit | _settled(finished, alive, score_BK, step, penalty, beam)
        for place in at_limit.nonzero().squeeze(1).tolist():
            unended = zip(written_BKT[place].tolist(), score_BK[place].tolist(), strict=True)
            _fill_up(finished[int(alive[place])], unended, step, penalty, beam)
        running = (~done).nonzero().squeeze(1)
        if not len(running):
            break
        parents = (torch.arange(len(alive), device=device).unsqueeze(1) * beam + parent_BK)[
            running.to(device)
        ]
        state = state.pick(parents.flatten())
        alive = alive[running]
        score_BK, token_BK, written_BKT = (
            tensor[running.to(device)] for tensor in (score_BK, token_BK, written_BKT)
        )
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:beam] for hypotheses in finished]


def _check_room(model: LanguageModel, state: State, token_BK: Tensor) -> None:
    """Refuse a beam whose scores (twice) and state, which is copied when parents are picked, do not fit."""
    held = sum(tensor.nbytes for tensor in state.tensors())
    scores = 8 * token_BK.numel() * model.vocabulary_size
    check_memory(scores + 2 * held, f"`beam` {token_BK.shape[1]}")


def _fill_up(
    hypotheses: list[Hypothesis],
    unended: Iterable[tuple[list[int], float]],
    step: int,
    penalty: float,
    beam: int,
) -> None:
    """Fill a row's hypotheses with running beams when the length limit is reached."""
    for ids, value in unended:
        if value > -torch.inf and len(hypotheses) < beam:
            hypotheses.append(Hypothesis(ids, value, value / step**penalty, ended=False))


def _read_prefix(
    model: LanguageModel, state: State, rows: int, prefix: Sequence[int]
) -> tuple[Tensor, State]:
    """Return log P of the prefix in each row, and the state before the last token of the prefix is read."""
    if not prefix:
        return torch.zeros(rows, device=model.device), state
    targets_BT = torch.tensor(prefix, device=model.device).expand(rows, -1)
    prediction, state = model(shift_right(targets_BT, model.start), state)
    return -prediction.nll(targets_BT).sum(1), state


def _collect(
    finished: list[list[Hypothesis]],
    alive: Tensor,
    value_BC: Tensor,
    parent_BC: Tensor,
    ends_BC: Tensor,
    written_BKT: Tensor,
    step: int,
    penalty: float,
    beam: int,
) -> None:
    """Add the candidates that end at this step, and are among the `beam` best, to the finished hypotheses."""
    check_log_probs(value_BC)
    place_N, candidate_N = (ends_BC[:, :beam] & (value_BC[:, :beam] > -torch.inf)).nonzero(as_tuple=True)
    if not len(place_N):
        return
    written_NT = written_BKT[place_N, parent_BC[place_N, candidate_N]].tolist()
    sentences = alive[place_N.to(alive.device)].tolist()
    for sentence, value, ids in zip(
        sentences, value_BC[place_N, candidate_N].tolist(), written_NT, strict=True
    ):
        finished[sentence].append(Hypothesis(ids, value, value / step**penalty))


def _settled(
    finished: list[list[Hypothesis]], alive: Tensor, score_BK: Tensor, step: int, penalty: float, beam: int
) -> Tensor:
    """(B): True for rows with `beam` finished hypotheses that no running beam would overtake if it ended."""
    best = (score_BK[:, 0] / step**penalty).tolist()
    settled = []
    for sentence, running in zip(alive.tolist(), best, strict=True):
        ranked = sorted((hypothesis.score for hypothesis in finished[sentence]), reverse=True)
        settled.append(len(ranked) >= beam and running <= ranked[beam - 1])
    return torch.tensor(settled)
