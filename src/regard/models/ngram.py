"""n-grams: P(w_i | w_1..w_{i-1}) = P(w_i | w_{i-n+1}..w_{i-1}), counted, not trained.

What must be remembered is which n-grams end at the last token read: one node an order (see `counting`), -1 where it was never seen.

Shape legend: B rows, T positions, N = B x T, V vocabulary, O orders below the highest, K positions asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models import counting, smoothing
from regard.models.contract import LanguageModel, Prediction, State
from regard.tokens.contract import Encoded


@dataclass(frozen=True)
class NgramState(State):
    nodes_BO: Tensor  # 1 + the node of the n-gram of order 1..n-1 that ends at the last token, 0 where there is none


@dataclass(frozen=True)
class Link:
    """One order in the chain that makes a probability: P_k = own + backoff x P_{k-1}."""

    order: int  # 0 is the uniform distribution
    found: bool  # whether the n-gram of this order was in the text
    own: float  # this order's own share of the probability
    backoff: float  # what this order's context hands down
    share: float  # own x all the backoffs above it: the shares sum to the probability


@final
class Ngram(LanguageModel):
    family = "ngram"
    training_defaults = None
    batch_tokens = 1 << 18  # the larger, the more the cache helps

    @dataclass(frozen=True, kw_only=True)
    class Config:
        order: int = 5
        """How many words an n-gram has: n-1 words of context and the next."""
        smoothing: Literal["maximum-likelihood", "add-k", "kneser-ney", "modified-kneser-ney"] = "modified-kneser-ney"
        """How unseen words get a share; Kneser-Ney is interpolated."""
        k: float = 1.0
        """What add-k adds to every count."""
        prune: tuple[int, ...] = (0,)
        """Leave out n-grams seen this many times or fewer, one number an order, the first 0, the last for all above (Kneser-Ney)."""

        def __post_init__(self) -> None:
            if self.order < 1:
                raise UserError("--order must be 1 or more")
            if not 0 < self.k < float("inf"):
                raise UserError("--k must be above 0")
            if self.k != 1 and self.smoothing != "add-k":
                raise UserError(f"--k goes with --smoothing add-k, not with {self.smoothing}")
            if not self.prune or self.prune[0] != 0 or list(self.prune) != sorted(self.prune):
                raise UserError("--prune must begin with 0 and never fall, for example --prune 0 0 1; --cutoff prunes words")
            if any(self.prune) and not self.smoothing.endswith("kneser-ney"):
                raise UserError(f"--prune goes with Kneser-Ney smoothing, not with {self.smoothing}")

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.order = config.order

    def fit(self, text: Encoded, descend: Callable[[LanguageModel], object]) -> None:
        config, size = self.config, self.vocabulary_size
        chosen = {
            "maximum-likelihood": smoothing.maximum_likelihood,
            "add-k": smoothing.add_k(config.k, size),
            "kneser-ney": smoothing.kneser_ney(smoothing.one_discount),
            "modified-kneser-ney": smoothing.kneser_ney(smoothing.three_discounts),
        }[config.smoothing]
        self.take(smoothing.estimate(counting.count(text, size, self.order), size, chosen, config.prune))

    def take(self, tables: list[smoothing.Table]) -> None:
        """Use these tables, order 0 first. Only words are predicted, so the start mark's probability is left out."""
        for order, table in enumerate(tables):
            self.register_buffer(f"log_prob_{order}", table.log_prob_G[: self.vocabulary_size])
            if order > 1:
                self.register_buffer(f"log_prob_{order}", table.log_prob_G)
                self.register_buffer(f"key_{order}", table.key_G)
            if table.backoff_G is not None:
                self.register_buffer(f"backoff_{order}", table.backoff_G)

    def assign(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def sizes(self) -> int:
        return sum(tensor.numel() for name, tensor in self.tensors().items() if not name.startswith("key"))

    def forward(self, tokens_BT: Tensor, state: NgramState | None = None, look: Any = None) -> tuple[Prediction, NgramState]:
        real_BT = tokens_BT != self.padding
        place_BT = torch.where(real_BT, torch.arange(1, real_BT.shape[1] + 1, device=real_BT.device), 0)  # 0: what was carried in
        carried_BO = tokens_BT.new_full((len(tokens_BT), self.order - 1), -1) if state is None else state.nodes_BO - 1
        before = _before(place_BT)
        word_N = (tokens_BT < self.vocabulary_size).flatten()
        node_BT, nodes = tokens_BT.masked_fill(~real_BT, -1), []
        for order in range(1, self.order):
            if order > 1:
                context_N = before(torch.cat([carried_BO[:, order - 2 : order - 1], node_BT], 1)).flatten()
                asked = (context_N >= 0).logical_and_(word_N).nonzero().squeeze(1)
                node_BT = torch.full_like(tokens_BT, -1)
                node_BT.view(-1)[asked] = self.find(order, context_N.take(asked), tokens_BT.take(asked))
            nodes.append(node_BT)
        last_B1 = place_BT.amax(1, keepdim=True)
        last = [torch.cat([carried_BO[:, k : k + 1], node_BT], 1).gather(1, last_B1) for k, node_BT in enumerate(nodes)]
        position_B = real_BT.sum(1) + (0 if state is None else state.position_B)
        new_state = NgramState(position_B, (torch.cat(last, 1) if last else carried_BO) + 1)
        return NgramPrediction(self, tokens_BT.shape, nodes, tokens_BT), new_state

    def find(self, order: int, context_N: Tensor, word_N: Tensor) -> Tensor:
        """Nodes of the n-grams `context word` of this order, -1 where there is none."""
        keys = self.get_buffer(f"key_{order}")
        if not len(keys):
            return torch.full_like(context_N, -1)
        # sorted first, so that neighbours in the table are looked up one after the other and the cache helps
        key_N, order_N = (context_N * self.vocabulary_size + word_N).sort()
        place_N = torch.searchsorted(keys, key_N).clamp_(max=len(keys) - 1)
        found_N = torch.where((keys.take(place_N) == key_N).logical_and_(key_N >= 0), place_N, -1)
        return torch.empty_like(found_N).index_copy_(0, order_N, found_N)

    def explain(self, context: list[int], word: int) -> list[Link]:
        """Why P(word | context) is what it is: own shares and backoffs from the highest order down, whose shares sum to it.

        The context begins with `model.start` at the start of a document.
        """
        prediction, _ = self(torch.tensor([context]))
        nodes = [0, *(int(node_BT[0, -1]) for node_BT in prediction.nodes)]
        links = [(0, True, 1 / self.vocabulary_size, 1.0)]
        below = 1 / self.vocabulary_size
        for order, context_node in enumerate(nodes, 1):
            found, backoff, probability = -1, 1.0, below
            if context_node >= 0:
                found = word if order == 1 else int(self.find(order, torch.tensor([context_node]), torch.tensor([word])))
                backoff = self._number("backoff", order - 1, context_node)
                probability = self._number("log_prob", order, found) if found >= 0 else backoff * below
            links.append((order, found >= 0, probability - backoff * below, backoff))
            below = probability
        chain, weight = [], 1.0
        for order, seen, own, backoff in reversed(links):
            chain.append(Link(order, seen, own, backoff, weight * own))
            weight *= backoff
        return chain

    def _number(self, kind: str, order: int, node: int) -> float:
        return float(self.get_buffer(f"{kind}_{order}")[node].double().exp())


@final
class NgramPrediction(Prediction):
    """`nodes[k - 1]` (B, T) are the nodes of the n-grams of order k that end at each position: the contexts of what comes next."""

    def __init__(self, model: Ngram, shape: torch.Size, nodes: list[Tensor], read_BT: Tensor | None):
        self.model, self.shape, self.nodes = model, shape, nodes
        self._read_BT = read_BT

    def at(self, positions_BK: Tensor) -> "NgramPrediction":
        nodes = [node_BT.gather(1, positions_BK) for node_BT in self.nodes]
        return NgramPrediction(self.model, positions_BK.shape, nodes, None)

    def nll(self, targets_BT: Tensor) -> Tensor:
        model, target_N = self.model, targets_BT.flatten()
        # where the target is the token read next, reading has found its n-grams already; what is left is mostly documents' ends
        unread_BT = torch.ones_like(targets_BT, dtype=torch.bool)
        if self._read_BT is not None:
            unread_BT[:, :-1] = self._read_BT[:, 1:] != targets_BT[:, :-1]
        unread = unread_BT.logical_and_(targets_BT >= 0).flatten().nonzero().squeeze(1)
        log_prob_N = model.get_buffer("log_prob_1").take(target_N.clamp(min=0))
        for order, context_BT in enumerate(self.nodes, 2):
            context_N = context_BT.flatten()
            active = (context_N >= 0).logical_and_(target_N >= 0).nonzero().squeeze(1)
            context_A = context_N.take(active)
            if order == model.order:
                found_A = model.find(order, context_A, target_N.take(active))
            else:
                found_N = torch.cat([self.nodes[order - 1][:, 1:], torch.empty_like(context_BT[:, :1])], 1).flatten()
                found_N[unread] = model.find(order, context_N.take(unread), target_N.take(unread))
                found_A = found_N.take(active)
            log_prob_N[active] += model.get_buffer(f"backoff_{order - 1}").take(context_A)
            hit = (found_A >= 0).nonzero().squeeze(1)
            log_prob_N[active.take(hit)] = model.get_buffer(f"log_prob_{order}")[found_A.take(hit)]
        return torch.where(targets_BT >= 0, -log_prob_N.view_as(targets_BT), 0.0)

    def log_probs(self) -> Tensor:
        model, size = self.model, self.model.vocabulary_size
        out_NV = model.get_buffer("log_prob_1").expand(self.shape[0] * self.shape[1], size).clone()
        for order, context_BT in enumerate(self.nodes, 2):
            rows = (context_BT.flatten() >= 0).nonzero().squeeze(1)
            context = context_BT.flatten()[rows]
            out_NV[rows] += model.get_buffer(f"backoff_{order - 1}")[context].unsqueeze(1)
            keys = model.get_buffer(f"key_{order}")
            first = torch.searchsorted(keys, context * size)
            many = torch.searchsorted(keys, (context + 1) * size) - first
            # every n-gram that continues a context: they lie side by side
            places = torch.arange(int(many.sum()), device=keys.device) + (first - many.cumsum(0) + many).repeat_interleave(many)
            out_NV[rows.repeat_interleave(many), keys[places] % size] = model.get_buffer(f"log_prob_{order}")[places]
        return out_NV.view(*self.shape, size)


def _before(place_BT: Tensor) -> Callable[[Tensor], Tensor]:
    """Picks, for each position, the value at the last real position before it, from values with what was carried in before them."""
    if not bool(((place_BT[:, 1:] > 0) & (place_BT[:, :-1] == 0)).any()):
        return lambda value_BT: value_BT[:, :-1]  # no padding before a real token
    before_BT = torch.nn.functional.pad(place_BT.cummax(1).values[:, :-1], (1, 0))
    return lambda value_BT: value_BT.gather(1, before_BT)
