"""Beam search, written once, on the contract: any language model, from any state, many rows at once. A beam of one is greedy.

Shape legend: B sentences, K beams, V vocabulary, T steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.models.contract import LanguageModel, State


@dataclass(frozen=True)
class Hypothesis:
    ids: list[int]  # without the end
    log_prob: float
    score: float  # log P / length ** penalty, the end counted
    ended: bool = True  # or there was no more room


@torch.inference_mode()
def beam_search(
    model: LanguageModel,
    state: State,
    end: int,
    beam: int,
    longest_B: Tensor,
    penalty: float = 1.0,
    forced: int | None = None,
    said: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """The best hypotheses of each row that `state` goes on from, at most `beam` of them, the best first.

    No prefix is read twice: the state goes on from the best parents. A row is done when its running beams cannot pass its finished ones;
    `forced` lets every hypothesis be exactly so long, for measuring speed; every one begins with what was `said`.
    """
    device, rows = model.device, len(longest_B)
    alive = torch.arange(rows)  # which sentences are still written
    score_BK = torch.full((rows, beam), -torch.inf, device=device)
    score_BK[:, 0], state = _begun(model, state, rows, said)  # all beams are alike at first: one goes on
    state = state.pick(torch.arange(rows, device=device).repeat_interleave(beam))
    token_BK = torch.full((rows, beam), said[-1] if said else model.start, device=device)
    written_BKT = torch.tensor(said, dtype=torch.long, device=device).expand(rows, beam, -1)
    finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
    for step in range(len(said) + 1, int(longest_B.max()) + 1):
        prediction, state = model(token_BK.reshape(-1, 1), state)
        log_probs_BKV = prediction.log_probs().view(len(alive), beam, -1)
        if forced is not None:
            log_probs_BKV[:, :, end] = -torch.inf if step < forced else 0
        size = log_probs_BKV.shape[2]
        # twice as many as beams: however many of them end, as many go on
        best_BC = (score_BK.unsqueeze(2) + log_probs_BKV).flatten(1).topk(min(2 * beam, beam * size), 1)
        parent_BC, chosen_BC = best_BC.indices // size, best_BC.indices % size
        ends_BC = chosen_BC == end
        out_of_room = longest_B[alive] <= step
        _collect(finished, alive, best_BC.values, parent_BC, ends_BC, written_BKT, step, penalty, beam)
        order_BC = ends_BC.long().argsort(dim=1, stable=True)[:, :beam]  # the best that do not end
        score_BK = best_BC.values.gather(1, order_BC).masked_fill(ends_BC.gather(1, order_BC), -torch.inf)
        parent_BK, token_BK = parent_BC.gather(1, order_BC), chosen_BC.gather(1, order_BC)
        written_BKT = torch.cat([written_BKT.gather(1, parent_BK.unsqueeze(2).expand(-1, -1, step - 1)), token_BK.unsqueeze(2)], 2)
        done = out_of_room | _settled(finished, alive, score_BK, step, penalty, beam)
        for place in out_of_room.nonzero().squeeze(1).tolist():  # what has not ended in time is taken as it is
            for hypothesis, value in zip(written_BKT[place].tolist(), score_BK[place].tolist(), strict=True):
                if value > -torch.inf and len(finished[int(alive[place])]) < beam:
                    finished[int(alive[place])].append(Hypothesis(hypothesis, value, value / step**penalty, ended=False))
        kept = (~done).nonzero().squeeze(1)
        if not len(kept):
            break
        parents = (torch.arange(len(alive), device=device).unsqueeze(1) * beam + parent_BK)[kept.to(device)]
        state = state.pick(parents.flatten())
        alive = alive[kept]
        score_BK, token_BK, written_BKT = (tensor[kept.to(device)] for tensor in (score_BK, token_BK, written_BKT))
    return [sorted(found, key=lambda one: -one.score)[:beam] for found in finished]


def _begun(model: LanguageModel, state: State, rows: int, said: Sequence[int]) -> tuple[Tensor, State]:
    """(log P of each row, state) after all but the last of what was said."""
    if not said:
        return torch.zeros(rows, device=model.device), state
    targets_BT = torch.tensor(said, device=model.device).expand(rows, -1)
    tokens_BT = torch.cat([torch.full_like(targets_BT[:, :1], model.start), targets_BT[:, :-1]], 1)
    prediction, state = model(tokens_BT, state)
    return -prediction.nll(targets_BT).sum(1), state


def _collect(
    finished: list[list[Hypothesis]], alive: Tensor, value_BC: Tensor, parent_BC: Tensor, ends_BC: Tensor, written_BKT: Tensor,
    step: int, penalty: float, beam: int,
) -> None:  # fmt: skip
    """Hypotheses among the best that end here."""
    place_N, candidate_N = (ends_BC[:, :beam] & (value_BC[:, :beam] > -torch.inf)).nonzero(as_tuple=True)
    if not len(place_N):
        return
    written_NT = written_BKT[place_N, parent_BC[place_N, candidate_N]].tolist()
    sentences = alive[place_N.to(alive.device)].tolist()
    for sentence, value, ids in zip(sentences, value_BC[place_N, candidate_N].tolist(), written_NT, strict=True):
        finished[sentence].append(Hypothesis(ids, value, value / step**penalty))


def _settled(finished: list[list[Hypothesis]], alive: Tensor, score_BK: Tensor, step: int, penalty: float, beam: int) -> Tensor:
    """Rows with enough finished hypotheses, none of which a running beam could pass if it ended now."""
    best = (score_BK[:, 0] / step**penalty).tolist()
    settled = []
    for sentence, running in zip(alive.tolist(), best, strict=True):
        found = finished[sentence]
        settled.append(len(found) >= beam and running <= sorted((one.score for one in found), reverse=True)[beam - 1])
    return torch.tensor(settled)
