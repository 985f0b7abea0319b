"""Search for the least change of attention that makes a model say a given word.

A model says the word that it finds likeliest. The search changes the row of weights of the last position, in
one site or in all sites together. The size of a change is the weight that it moves: the total variation
between a head's new and own weights, summed over heads.

    climb     moves weight between two positions of one head, or from all positions to one, where the word
              gains most on its strongest rival for each unit of weight
    corners   every head puts all weight on one position: the same one, or the one with the largest gradient
    refine    goes back towards the own weights where the word is reached, and up the gradient elsewhere
    trim      restores whole heads, drops small changes and shortens the way, while the word stays likeliest

The result is an upper bound of the least change. If no climb and no corner reaches the word, the search says
so; this is no proof that no weights reach it.

Shape legend: W worlds, H heads, K columns, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from regard.inside.moved_attention import Row

LEAD = 1e-3  # nats by which the word must be likelier than every other word
STEPS, CORNERS = 40, 6  # of a climb, and of the walk along corners
SHARES = (0.25, 0.5, 1.0)  # of the weight of a position, or of a row, in one step of a climb
REFINEMENTS, RATE = 80, 0.05  # steps of a refinement, and the weight that its first step moves at a position
POINTS = 33  # that are tried at a time between no change and a whole change
SLACK, WORTH = 1.1, 1.03  # a change grows by SLACK before small parts are left out, and may stay WORTH larger
LEAST = 1e-6  # weight that is not worth a move

Weights = dict[str, Tensor]  # (W, H, K) of each site


class Search:
    """The search over the weights of the last row in some sites.

    `predict` returns the (W, V) log-probabilities under the (W, H, K) weights of each site."""

    def __init__(self, predict: Callable[[Weights], Tensor], rows: Mapping[str, Row], word: int):
        self._predict, self.rows, self.word = predict, dict(rows), word
        # A column that is no position, such as the vocabulary of a copying model, keeps its weight.
        self.free = {name: row.seen_HK & (row.column_K >= 0) for name, row in rows.items()}
        self.highest = 0.0  # the highest probability of the word that was seen

    def own(self) -> Weights:
        return {name: row.weights_HK.unsqueeze(0) for name, row in self.rows.items()}

    def size(self, weights: Weights) -> Tensor:
        """(W,): the weight that is moved."""
        return self._distance(weights, self.own())

    def _distance(self, weights: Weights, others: Weights) -> Tensor:
        parts = [(own - others[name]).abs().sum((1, 2)) / 2 for name, own in weights.items()]
        return torch.stack(parts).sum(0)

    def lead(self, weights: Weights) -> Tensor:
        """(W,): the log-probability of the word minus that of its strongest rival."""
        log_probs_WV = self._predict(weights)
        own_W = log_probs_WV[:, self.word]
        self.highest = max(self.highest, float(own_W.detach().max().exp()))
        rival_WV = log_probs_WV.clone()
        rival_WV[:, self.word] = -torch.inf
        return own_W - rival_WV.max(1).values

    def _gradients(self, weights: Weights) -> tuple[Tensor, Weights]:
        """Return the lead in each world, and its (W, H, K) gradients."""
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
        lead_W = self.lead(leaves)
        gradients = torch.autograd.grad(lead_W.sum(), list(leaves.values()), allow_unused=True)
        filled = (
            torch.zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(leaves.values(), gradients, strict=True)
        )
        return lead_W.detach(), dict(zip(leaves, filled, strict=True))

    def least(self, known: Sequence[Weights] = ()) -> Weights | None:
        """Return the smallest change that reaches the word, (1, H, K) of each site, or None.

        `known` are changes that reach the word."""
        starts = [self.own(), self._corner()]
        climbs = [weights for weights in map(self.climb, starts) if weights is not None]
        refined = self._refined([*starts, *climbs, *known])
        found = [*known, *map(self.trim, [*climbs, *refined])]
        return min(found, key=lambda weights: float(self.size(weights)), default=None)

    def _refined(self, starts: Sequence[Weights]) -> list[Weights]:
        """Return the smallest change that reaches the word on a path from each start, if there is one.

        A path alternates (Polyak 1967): where the word is reached, each weight goes back towards the model's
        own; elsewhere, the weights follow the gradient of the lead."""
        weights = {name: torch.cat([start[name] for start in starts]) for name in self.rows}
        best, least_W = weights, torch.full((len(starts),), torch.inf)
        for step in range(REFINEMENTS):
            rate = RATE * (1 - step / REFINEMENTS)
            lead_W, gradients = self._gradients(weights)
            with torch.no_grad():
                reached_W = (lead_W >= LEAD).cpu()
                size_W = torch.where(reached_W, self.size(weights).cpu(), torch.inf)
                better_W = size_W < least_W
                least_W = torch.minimum(least_W, size_W)
                best = {name: _where(better_W, tensor, best[name]) for name, tensor in weights.items()}
                steepest_W = torch.stack([slope.abs().amax((1, 2)) for slope in gradients.values()]).amax(0)
                weights = {
                    name: self._stepped(name, tensor, gradients[name], steepest_W, reached_W, rate)
                    for name, tensor in weights.items()
                }
        return [_pick(best, world) for world in range(len(starts)) if torch.isfinite(least_W[world])]

    def _stepped(
        self,
        name: str,
        weights_WHK: Tensor,
        slope_WHK: Tensor,
        steepest_W: Tensor,
        reached_W: Tensor,
        rate: float,
    ) -> Tensor:
        own_HK, free_HK = self.rows[name].weights_HK, self.free[name]
        change_WHK = weights_WHK - own_HK
        back_WHK = own_HK + change_WHK.sign() * (change_WHK.abs() - rate).clamp(min=0)
        up_WHK = weights_WHK + rate * slope_WHK / steepest_W.clamp(min=1e-12).view(-1, 1, 1)
        return on_simplex(_where(reached_W, back_WHK, up_WHK), own_HK, free_HK)

    def climb(self, weights: Weights) -> Weights | None:
        """Follow the best steps until the word is reached. Return None if no step gains anything."""
        for _ in range(STEPS):
            lead_1, gradients = self._gradients(weights)
            lead = float(lead_1)
            if lead >= LEAD:
                return weights
            with torch.no_grad():
                tries = self._tries(weights, gradients)
                if not tries:
                    return None
                lead_W, length_W = self.lead(tries), self._distance(tries, weights)
            gain_W = torch.where(length_W > LEAST, (lead_W - lead) / length_W.clamp(min=LEAST), -torch.inf)
            # beyond the lead, more is not better: the shortest step that arrives
            arrives_W = lead_W >= LEAD
            best = int(
                torch.where(arrives_W, -length_W, -torch.inf).argmax() if arrives_W.any() else gain_W.argmax()
            )
            if not arrives_W[best] and float(lead_W[best]) <= lead:
                return None
            weights = _pick(tries, best)
        return None

    def _tries(self, weights: Weights, gradients: Weights) -> Weights:
        """Return one step in each world: weight of one position, or of the whole row, goes to another."""
        steps = list[tuple[str, int, Tensor]]()
        for name, gradient_1HK in gradients.items():
            for head, free_K in enumerate(self.free[name]):
                row_K, slope_K = weights[name][0, head], gradient_1HK[0, head]
                mass_K = torch.where(free_K, row_K, 0.0)
                if int(free_K.sum()) < 2 or float(mass_K.sum()) < LEAST:
                    continue
                to = int(slope_K.masked_fill(~free_K, -torch.inf).argmax())
                loss_K = slope_K[to] - slope_K
                sources = [
                    torch.where(mass_K > 0.01, loss_K, -torch.inf).argmax(),  # the worst with some weight
                    (loss_K * mass_K).argmax(),  # where most is to be gained
                ]
                one = [
                    torch.zeros_like(row_K).index_fill_(0, source, float(row_K[source])) for source in sources
                ]
                for part_K in [*one, mass_K]:
                    for share in SHARES:
                        moved_K = part_K * share
                        step_K = row_K - moved_K
                        step_K[to] = step_K[to] + moved_K.sum()
                        steps.append((name, head, step_K))
        worlds = {name: tensor.repeat(len(steps), 1, 1) for name, tensor in weights.items()}
        for world, (name, head, step_K) in enumerate(steps):
            worlds[name][world, head] = step_K
        return worlds if steps else {}

    @torch.no_grad()
    def _corner(self) -> Weights:
        """Return the best of the corners: all weight on one position, or where the gradient is largest."""
        corners, weights = list[Weights](), self.own()
        for _ in range(CORNERS):
            with torch.enable_grad():
                _, gradients = self._gradients(weights)
            weights = {
                name: self._all_on(name, gradient[0]).unsqueeze(0) for name, gradient in gradients.items()
            }
            corners.append(weights)
        columns = sorted(
            {int(column) for row in self.rows.values() for column in row.column_K if column >= 0}
        )
        for column in columns:
            at = {name: (row.column_K == column).to(row.weights_HK) for name, row in self.rows.items()}
            corners.append(
                {
                    name: self._all_on(name, own.expand_as(self.free[name])).unsqueeze(0)
                    for name, own in at.items()
                }
            )
        worlds = {name: torch.cat([corner[name] for corner in corners]) for name in weights}
        return _pick(worlds, int(self.lead(worlds).argmax()))

    def _all_on(self, name: str, wanted_HK: Tensor) -> Tensor:
        """(H, K): the free weight of each head on its most wanted column. Heads without a choice stay."""
        own_HK, free_HK = self.rows[name].weights_HK, self.free[name]
        to_H1 = wanted_HK.masked_fill(~free_HK, -torch.inf).argmax(1, keepdim=True)
        mass_H1 = torch.where(free_HK, own_HK, 0.0).sum(1, keepdim=True)
        moved_HK = torch.where(free_HK, 0.0, own_HK).scatter_add(1, to_H1, mass_H1)
        return torch.where(free_HK.any(1, keepdim=True), moved_HK, own_HK)

    @torch.no_grad()
    def trim(self, weights: Weights) -> Weights:
        """Return a smaller change that still reaches the word."""
        for smaller in (self._shorter, self._fewer_heads, self._fewer_columns, self._shorter):
            weights = smaller(weights)
        return weights

    def _smallest(self, worlds: Weights, otherwise: Weights) -> Weights:
        """Return the smallest of the worlds that reach the word."""
        size_W = torch.where(self.lead(worlds) >= LEAD, self.size(worlds), torch.inf)
        best = int(size_W.argmin())
        return _pick(worlds, best) if float(size_W[best]) < float(self.size(otherwise)) else otherwise

    def _shorter(self, weights: Weights) -> Weights:
        """Go back towards the model's own weights, on ever finer grids."""
        low = self.own()
        share_W11 = torch.linspace(0, 1, POINTS).to(next(iter(low.values()))).view(-1, 1, 1)
        for _ in range(3):
            worlds = {name: own + share_W11 * (weights[name] - own) for name, own in low.items()}
            reached_W = self.lead(worlds) >= LEAD
            if not bool(reached_W.any()):
                return weights
            first = int(reached_W.long().argmax())
            low, weights = _pick(worlds, max(0, first - 1)), _pick(worlds, first)
        return weights

    def _fewer_heads(self, weights: Weights) -> Weights:
        """Restore one head after another."""
        while True:
            own = self.own()
            changed = [
                (name, head)
                for name, tensor in weights.items()
                for head in range(tensor.shape[1])
                if not torch.equal(tensor[0, head], own[name][0, head])
            ]
            if len(changed) < 2:
                return weights
            worlds = {name: tensor.repeat(len(changed), 1, 1) for name, tensor in weights.items()}
            for world, (name, head) in enumerate(changed):
                worlds[name][world, head] = own[name][0, head]
            smaller = self._smallest(worlds, weights)
            if smaller is weights:
                return weights
            weights = smaller

    def _fewer_columns(self, weights: Weights) -> Weights:
        """Leave out as many small changes as possible, if the rest of the change need hardly grow."""
        own = self.own()
        larger = {
            name: on_simplex(start + SLACK * (weights[name] - start), start[0], self.free[name])
            for name, start in own.items()
        }
        change = {name: tensor - own[name] for name, tensor in larger.items()}
        sizes = torch.cat([tensor.abs().flatten() for tensor in change.values()])
        sizes = sizes[sizes > LEAST].sort().values
        if not len(sizes):
            return weights
        thresholds_W11 = sizes[torch.linspace(0, len(sizes) - 1, POINTS).long()].view(-1, 1, 1)
        worlds = {}
        for name, tensor in change.items():
            large_WHK = torch.where(tensor.abs() >= thresholds_W11, tensor, 0.0)
            up, down = large_WHK.clamp(min=0), (-large_WHK).clamp(min=0)
            kept = torch.minimum(up.sum(2, keepdim=True), down.sum(2, keepdim=True))
            up, down = (part * (kept / part.sum(2, keepdim=True).clamp(min=1e-12)) for part in (up, down))
            worlds[name] = own[name] + up - down
        reached_W = self.lead(worlds) >= LEAD
        if not bool(reached_W.any()):
            return weights
        fewest = self._shorter(_pick(worlds, int(reached_W.nonzero().max())))
        return fewest if float(self.size(fewest)) <= WORTH * float(self.size(weights)) else weights


def on_simplex(wanted_WHK: Tensor, own_HK: Tensor, free_HK: Tensor) -> Tensor:
    """Return the nearest weights in which the free columns of each head keep their sum; others are its own.

    The algorithm is that of Duchi et al. (2008), figure 1."""
    mass_H1 = torch.where(free_HK, own_HK, 0.0).sum(1, keepdim=True)
    sorted_WHK = wanted_WHK.masked_fill(~free_HK, -1e9).sort(2, descending=True).values
    number_K = torch.arange(1, sorted_WHK.shape[2] + 1, device=sorted_WHK.device)
    excess_WHK = (sorted_WHK.cumsum(2) - mass_H1) / number_K
    last_WH1 = ((sorted_WHK > excess_WHK).long() * number_K).argmax(2, keepdim=True)
    nearest_WHK = (wanted_WHK - excess_WHK.gather(2, last_WH1)).clamp(min=0)
    return torch.where(free_HK & (mass_H1 > 0), nearest_WHK, own_HK)


def _where(chosen_W: Tensor, one_WHK: Tensor, other_WHK: Tensor) -> Tensor:
    return torch.where(chosen_W.to(one_WHK.device).view(-1, 1, 1), one_WHK, other_WHK)


def _pick(worlds: Weights, world: int) -> Weights:
    return {name: tensor[world : world + 1] for name, tensor in worlds.items()}
