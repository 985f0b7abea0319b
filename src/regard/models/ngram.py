"""The n-gram language model: P(w_i | w_1..w_{i-1}) = P(w_i | w_{i-n+1}..w_{i-1}), estimated from counts.

The state holds the n-grams that end at the last token, as a node for each order (see ngram_counts.py).

Shape legend: B rows, T positions, N = B x T, V vocabulary, O orders below the highest, G n-grams of an order,
A active positions (those whose context was counted), K selected positions.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.errors import UserError
from regard.machine.memory import usable_memory
from regard.machine.spill import Spill
from regard.models import ngram_counts, ngram_scoring, ngram_smoothing, ngram_streams
from regard.models.contract import LanguageModel, Padded, Part, Parts, Prediction, State
from regard.models.saved_tensors import check_tensor
from regard.parts.look import Look
from regard.ranges import Number, Order, Positive
from regard.tokens.contract import Encoded
from regard.tokens.lookup import Lookup

# Hash tables are made when a model has been asked for one token for so many of its n-grams. The search in the
# sorted keys for a token takes as long as the tables take for 20 n-grams.
NGRAMS_PER_TOKEN = 32
SHARE_OF_MEMORY = 0.25  # for hash tables at most; larger models are searched in their mapped files


@dataclass(frozen=True)
class NgramState(State):
    """The n-grams that end at the last token, the contexts of the next word."""

    # 1 + the node of the n-gram of order 1..n-1 that ends at the last token; 0 if it was never counted.
    nodes_BO: Tensor


@final
class Ngram(LanguageModel):
    family = "ngram"
    learns = "counting"
    token_defaults: ClassVar[dict[str, Any]] = {"tokens": "word"}
    batch_tokens = 1 << 18  # larger calls make better use of the processor's cache

    @dataclass(frozen=True, kw_only=True)
    class Config:
        order: Order = 5
        """Number of words in an n-gram: n-1 words of context, and the next word."""
        smoothing: Literal["maximum-likelihood", "add-k", "kneser-ney", "modified-kneser-ney"] = (
            "modified-kneser-ney"
        )
        """Smoothing, which gives probability to unseen words. Kneser-Ney smoothing is interpolated."""
        k: Positive = 1.0
        """The number that add-k smoothing adds to every count."""
        prune: tuple[Number, ...] = (0,)
        """Leave out n-grams with a count of at most this number: a number for each order, the last one for
        all higher orders (Kneser-Ney)."""

        def __post_init__(self) -> None:
            if self.k != 1 and self.smoothing != "add-k":
                raise UserError(f"`k` is for `smoothing` add-k, not for {self.smoothing}: leave out `k`")
            if not self.prune or self.prune[0] != 0 or list(self.prune) != sorted(self.prune):
                raise UserError(
                    "`prune` must begin with 0 and never decrease, for example 0 0 1 (`cutoff` prunes words)"
                )
            if any(self.prune) and not self.smoothing.endswith("kneser-ney"):
                raise UserError(f"`prune` is for Kneser-Ney smoothing, not for {self.smoothing}")

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.order = config.order
        self._asked = 0  # tokens of the texts that were scored
        self._lookups: dict[int, Lookup] | None = None  # the hash tables of each order, once they pay
        self._file: ngram_scoring.TablesInFile | None = None  # while the model has a memory budget

    def fit(self, text: Encoded) -> None:
        size = self.vocabulary_size
        counts = ngram_counts.count(text, size, self.order)
        self.take(ngram_smoothing.estimate(counts, size, self._smoothing(), self.config.prune))

    def fit_within(self, text: Encoded, spill: Spill) -> Path:
        file = ngram_streams.fit_in_files(
            text, self.vocabulary_size, self.order, self._smoothing(), self.config.prune, spill
        )
        self.assign(load_file(file))
        size = ngram_streams.pieces(spill, self.vocabulary_size)
        self._file = ngram_scoring.TablesInFile(file, size)
        return file

    def _smoothing(self) -> ngram_smoothing.Smoothing:
        config, size = self.config, self.vocabulary_size
        return {
            "maximum-likelihood": ngram_smoothing.maximum_likelihood,
            "add-k": ngram_smoothing.add_k(config.k, size),
            "kneser-ney": ngram_smoothing.kneser_ney(ngram_smoothing.one_discount),
            "modified-kneser-ney": ngram_smoothing.kneser_ney(ngram_smoothing.three_discounts),
        }[config.smoothing]

    def take(self, tables: list[ngram_smoothing.Table]) -> None:
        """Use these tables, order 0 first. The start mark is never predicted: its probability is left out."""
        self._lookups = None
        for order, table in enumerate(tables):
            self.register_buffer(f"log_prob_{order}", table.log_prob_G[: self.vocabulary_size])
            if order > 1:
                self.register_buffer(f"log_prob_{order}", table.log_prob_G)
                self.register_buffer(f"key_{order}", table.key_G)
            if table.backoff_G is not None:
                self.register_buffer(f"backoff_{order}", table.backoff_G)

    def check_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise a ValueError that names a tensor if the tables do not fit each other."""
        size, orders = self.vocabulary_size, range(self.order + 1)
        wanted = {f"log_prob_{order}" for order in orders} | {f"backoff_{order}" for order in orders[:-1]}
        wanted |= {f"key_{order}" for order in orders[2:]}
        if wanted != set(tensors):
            odd = min(wanted ^ set(tensors))
            raise ValueError(f"the tensor {odd} is {'missing' if odd in wanted else 'of no use'}")
        contexts = 1
        for order in orders:
            length = (1, size)[order] if order < 2 else tensors[f"key_{order}"].numel()
            _check_logs(f"log_prob_{order}", tensors, length, 1e-3)
            if order > 1:
                _check_keys(f"key_{order}", tensors, contexts * size)
            contexts = size + 1 if order == 1 else length
            if order < self.order:
                _check_logs(f"backoff_{order}", tensors, contexts, math.inf)

    def assign(self, tensors: Mapping[str, Tensor]) -> None:
        self._file = self._lookups = None
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def parameter_count(self) -> int:
        return sum(tensor.numel() for name, tensor in self.tensors().items() if not name.startswith("key"))

    def begin(self, given: int | Tensor, look: Look | None = None) -> NgramState:
        position_B = torch.zeros(int(given), dtype=torch.long, device=self.device)
        return NgramState(position_B, position_B.new_zeros(int(given), self.order - 1))

    def forward(
        self, tokens_BT: Tensor, state: NgramState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, NgramState]:
        real_BT = tokens_BT != self.padding
        number_T = torch.arange(1, real_BT.shape[1] + 1, device=real_BT.device)
        place_BT = torch.where(real_BT, number_T, 0)  # place 0 holds the nodes of the state
        at_last_token = _at_last_token(place_BT)
        word_N = (tokens_BT < self.vocabulary_size).flatten()
        node_BT, nodes = tokens_BT.masked_fill(~real_BT, -1), []
        for order in range(1, self.order):
            if order > 1:
                earlier_BT = torch.cat([state.nodes_BO[:, order - 2 : order - 1] - 1, node_BT], 1)
                context_N = at_last_token(earlier_BT).flatten()
                active = (context_N >= 0).logical_and_(word_N).nonzero().squeeze(1)
                node_BT = torch.full_like(tokens_BT, -1)
                node_BT.view(-1)[active] = self.find(order, context_N.take(active), tokens_BT.take(active))
            nodes.append(node_BT)
        last_B1 = place_BT.amax(1, keepdim=True)
        last = [
            torch.cat([state.nodes_BO[:, k : k + 1] - 1, node_BT], 1).gather(1, last_B1)
            for k, node_BT in enumerate(nodes)
        ]
        new = NgramState(
            state.position_B + real_BT.sum(1), torch.cat(last, 1) + 1 if last else state.nodes_BO
        )
        return NgramPrediction(self, tokens_BT.shape, nodes, tokens_BT), new

    def losses_of_text(self, text: Encoded) -> Iterator[Tensor] | None:
        tables = self._file or self._tables_in_memory(len(text))
        if tables is None:
            return None
        return ngram_scoring.TextScorer(self.vocabulary_size, self.order, tables).losses(text)

    def _tables_in_memory(self, tokens: int) -> ngram_scoring.Tables | None:
        """Return hash tables once enough tokens were asked for, if the memory holds the tables."""
        arrays = self.tensors()
        keys = {order: arrays[f"key_{order}"] for order in range(2, self.order + 1)}
        ngrams = sum(map(len, keys.values()))
        self._asked += tokens
        if self.device.type != "cpu" or self._asked * NGRAMS_PER_TOKEN < ngrams:
            return None
        if self._lookups is None:
            if ngrams * ngram_scoring.BYTES > usable_memory() * SHARE_OF_MEMORY:
                return None
            self._lookups = {order: Lookup(key_G.numpy()) for order, key_G in keys.items()}
        numbers = {name: tensor.numpy() for name, tensor in arrays.items()}
        return ngram_scoring.TablesInMemory(numbers, self._lookups)

    def find(self, order: int, context_N: Tensor, word_N: Tensor) -> Tensor:
        """Return the node of each n-gram (context, word) of this order, -1 if it was never counted."""
        keys = self.get_buffer(f"key_{order}")
        if not len(keys):
            return torch.full_like(context_N, -1)
        # Sorted keys are looked up in the order of the table, which makes better use of the processor's
        # cache.
        key_N, order_N = (context_N * self.vocabulary_size + word_N).sort()
        place_N = torch.searchsorted(keys, key_N).clamp_(max=len(keys) - 1)
        node_N = torch.where((keys.take(place_N) == key_N).logical_and_(key_N >= 0), place_N, -1)
        return torch.empty_like(node_N).index_copy_(0, order_N, node_N)


def _check_logs(name: str, tensors: Mapping[str, Tensor], length: int, highest: float) -> None:
    """Check logs of probabilities or backoffs. The log of zero is minus infinity."""
    check_tensor(name, tensors[name], (length,))
    if bool(tensors[name].isnan().any()) or (length and float(tensors[name].max()) > highest):
        raise ValueError(f"the tensor {name} holds numbers that are no logs of probabilities")
    if length and float(tensors[name].max()) == math.inf:
        raise ValueError(f"the tensor {name} holds infinity")


def _check_keys(name: str, tensors: Mapping[str, Tensor], end: int) -> None:
    key_G = tensors[name]
    if key_G.dtype != torch.long or key_G.dim() != 1:
        raise ValueError(f"the tensor {name} is not a list of whole numbers")
    inside = not len(key_G) or (int(key_G[0]) >= 0 and int(key_G[-1]) < end)
    if not inside or bool((key_G[1:] <= key_G[:-1]).any()):
        raise ValueError(f"the tensor {name} is not sorted, or names contexts that do not exist")


@final
class NgramPrediction(Prediction):
    """The probabilities after the contexts that end at each position."""

    def __init__(self, model: Ngram, shape: torch.Size, nodes: list[Tensor], read_BT: Tensor | None):
        """`nodes[k - 1]` (B, T) are the nodes of the n-grams of order k that end at each position.

        `read_BT` are the tokens of the call, or None.
        """
        self.model, self.shape, self.nodes = model, shape, nodes
        self._read_BT = read_BT

    def at(self, positions_BK: Tensor) -> "NgramPrediction":
        nodes = [node_BT.gather(1, positions_BK) for node_BT in self.nodes]
        return NgramPrediction(self.model, positions_BK.shape, nodes, None)

    def nll(self, targets_BT: Tensor) -> Tensor:
        log_prob_N = self.model.get_buffer("log_prob_1").take(targets_BT.flatten().clamp(min=0))
        for order, active, context_A, node_A in self._chain(targets_BT):
            log_prob_N[active] += self.model.get_buffer(f"backoff_{order - 1}").take(context_A)
            hit = (node_A >= 0).nonzero().squeeze(1)
            log_prob_N[active.take(hit)] = self.model.get_buffer(f"log_prob_{order}")[node_A.take(hit)]
        return torch.where(targets_BT >= 0, -log_prob_N.view_as(targets_BT), 0.0)

    def _chain(self, targets_BT: Tensor):
        """Yield (order, active, contexts, nodes) for each order from 2.

        `active` are the flat positions whose context was counted. The nodes are those of the contexts, and of
        the n-grams that consist of a context and its target (-1 if never counted).
        """
        model, target_N = self.model, targets_BT.flatten()
        # If a target is also the next token of the call, forward() has found its n-grams already. Mostly the
        # targets at the ends of documents remain.
        unread_BT = torch.ones_like(targets_BT, dtype=torch.bool)
        if self._read_BT is not None:
            unread_BT[:, :-1] = self._read_BT[:, 1:] != targets_BT[:, :-1]
        unread = unread_BT.logical_and_(targets_BT >= 0).flatten().nonzero().squeeze(1)
        for order, context_BT in enumerate(self.nodes, 2):
            context_N = context_BT.flatten()
            active = (context_N >= 0).logical_and_(target_N >= 0).nonzero().squeeze(1)
            context_A = context_N.take(active)
            if order == model.order:
                node_A = model.find(order, context_A, target_N.take(active))
            else:
                node_N = torch.cat(
                    [self.nodes[order - 1][:, 1:], torch.empty_like(context_BT[:, :1])], 1
                ).flatten()
                node_N[unread] = model.find(order, context_N.take(unread), target_N.take(unread))
                node_A = node_N.take(active)
            yield order, active, context_A, node_A

    def parts(self, targets_BT: Tensor) -> Parts:
        """Return a term for each order, from P_k = own_k + backoff_k P_{k-1}.

        The term of an order is own_k times the backoffs of all higher orders. Order 0 is the uniform
        distribution. `seen` is True if the n-gram of an order was counted.
        """
        model, target_N = self.model, targets_BT.clamp(min=0).flatten()
        uniform_N = torch.full_like(target_N, 1 / model.vocabulary_size, dtype=torch.float64)
        one_N = torch.ones_like(uniform_N)
        below_N = model.get_buffer("log_prob_1").take(target_N).double().exp()
        backoff_N = model.get_buffer("backoff_0").double().exp().expand_as(uniform_N)
        chain = [(0, one_N > 0, uniform_N, one_N), (1, one_N > 0, below_N - backoff_N * uniform_N, backoff_N)]
        for order, active, context_A, node_A in self._chain(targets_BT.clamp(min=0)):
            seen_N, backoff_N, probability_N = one_N < 0, one_N.clone(), below_N.clone()
            backoff_N[active] = model.get_buffer(f"backoff_{order - 1}").take(context_A).double().exp()
            probability_N[active] = backoff_N[active] * below_N[active]
            hit = (node_A >= 0).nonzero().squeeze(1)
            seen_N[active.take(hit)] = True
            log_prob_H = model.get_buffer(f"log_prob_{order}")[node_A.take(hit)]
            probability_N[active.take(hit)] = log_prob_H.double().exp()
            chain.append((order, seen_N, probability_N - backoff_N * below_N, backoff_N))
            below_N = probability_N
        terms, weight_N = list[Part](), one_N
        for order, seen_N, own_N, backoff_N in reversed(chain):
            details = {"seen": seen_N, "own": own_N, "backoff": backoff_N}
            shaped = {name: value_N.view(targets_BT.shape) for name, value_N in details.items()}
            name = f"{order}-gram" if order else "uniform"
            terms.append(Part(name, (weight_N * own_N).view(targets_BT.shape), details=shaped))
            weight_N = weight_N * backoff_N
        return Parts("probability", tuple(terms))

    def log_probs(self) -> Tensor:
        model, size = self.model, self.model.vocabulary_size
        out_NV = model.get_buffer("log_prob_1").expand(self.shape[0] * self.shape[1], size).clone()
        for order, context_BT in enumerate(self.nodes, 2):
            rows = (context_BT.flatten() >= 0).nonzero().squeeze(1)
            context = context_BT.flatten()[rows]
            out_NV[rows] += model.get_buffer(f"backoff_{order - 1}")[context].unsqueeze(1)
            keys = model.get_buffer(f"key_{order}")
            first = torch.searchsorted(keys, context * size)
            count = torch.searchsorted(keys, (context + 1) * size) - first
            # The n-grams that continue a context are adjacent in the table.
            shift = (first - count.cumsum(0) + count).repeat_interleave(count)
            places = torch.arange(int(count.sum()), device=keys.device) + shift
            log_prob_G = model.get_buffer(f"log_prob_{order}")
            out_NV[rows.repeat_interleave(count), keys[places] % size] = log_prob_G[places]
        return out_NV.view(*self.shape, size)


def _at_last_token(place_BT: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function that selects, for each position, the value at the last real token before it.

    The argument of the function has one more column than the call: the value of the state comes first.
    """
    if not bool(((place_BT[:, 1:] > 0) & (place_BT[:, :-1] == 0)).any()):
        return lambda value_BT: value_BT[:, :-1]  # no padding before a real token
    before_BT = torch.nn.functional.pad(place_BT.cummax(1).values[:, :-1], (1, 0))
    return lambda value_BT: value_BT.gather(1, before_BT)
