"""The Backpack language model: each word has several sense vectors, and a Transformer computes their weights.

    C(x)_l                    sense l of a word, a function of the word's embedding alone
    alpha_l = softmax(Q_l K_l^T)          causal; queries and keys are maps of the Transformer's features
    o_i = sum_j sum_l alpha_{l,i,j} C(x_j)_l,   P(w_{i+1}) = softmax(E o_i)      (Hewitt et al. 2023)

The scores are linear in the senses, so that each score is a sum of the contributions of senses.

Shape legend: B rows, T positions, S slots, L senses, D width, E width of a sense's query, K selected
positions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.errors import UserError
from regard.models.contract import LanguageModel, Padded, Part, Parts, Prediction, State
from regard.models.predictions import Readout, SoftmaxPrediction
from regard.models.trunk import Placement, Trunk
from regard.models.trunk_config import MEDIUM, TrunkConfig
from regard.models.trunk_state import TrunkState
from regard.parts.attention import at_value, weigh
from regard.parts.layers import drop
from regard.parts.look import Look, Site, at_site, attention_sites, declare, values_at
from regard.parts.products import Linear
from regard.parts.scores import ScaledDot
from regard.parts.senses import SenseNetwork, sum_senses
from regard.parts.slots import fixed_size, remember, shortened
from regard.ranges import Count


@dataclass(frozen=True)
class BackpackState(State):
    """The KV cache of the Transformer, and the keys and sense vectors of the words read so far."""

    fills_front: ClassVar[bool] = False

    trunk: TrunkState
    key_BLSE: Tensor
    senses_BLSD: Tensor

    def trimmed(self) -> Self:
        filled = int(self.position_B.max())
        return self._with_senses(self.trunk.trimmed(), lambda buffer: shortened(buffer, filled, 2))

    def next_window(self) -> Self:
        trunk = self.trunk.next_window()
        return self._with_senses(trunk, lambda buffer: buffer if trunk.fixed else shortened(buffer, 0, 2))

    def with_room(self, room: int) -> Self:
        return self._with_senses(self.trunk.with_room(room), lambda buffer: fixed_size(buffer, room, 2))

    def _with_senses(self, trunk: TrunkState, change: Callable[[Tensor], Tensor]) -> Self:
        senses = {"key_BLSE": change(self.key_BLSE), "senses_BLSD": change(self.senses_BLSD)}
        return replace(self, position_B=trunk.position_B, trunk=trunk, **senses)


@final
class Backpack(LanguageModel):
    family = "backpack"
    steady = True
    bounded: ClassVar[bool] = True
    training_defaults: ClassVar[dict[str, Any]] = {"optimiser": "muon", "learning_rate": 0.012, "batch": 32}
    # On an H200, the code that torch 2.11 compiles gives NaN. On a CPU, and with torch 2.13, it is right.
    compiles: ClassVar[bool] = False
    medium: ClassVar[dict[str, Any]] = MEDIUM | {"senses": 16}

    @dataclass(frozen=True, kw_only=True)
    class Config(TrunkConfig):
        senses: Count = 4
        """Number of sense vectors of a word."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.width % self.senses:
                raise UserError(
                    f"`width` {self.width} cannot be divided among `senses` {self.senses}; choose a multiple"
                )

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.context = config.context
        self.trunk = Trunk(config)
        if self.trunk.embedding_width != config.width:
            raise UserError(
                f"`positions` {config.positions} would lengthen the embedding, which is the readout of a "
                "backpack: choose other positions"
            )
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        # The embedding is the readout of the senses, without a norm before it.
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.senses = SenseNetwork(config.width, config.senses)
        self.project = Linear(config.width, 2 * config.width)  # one product computes queries and keys
        self.score = ScaledDot()
        self.readout = Readout(vocabulary_size, config.width, tied=True)

    def sites(self) -> dict[str, Site]:
        names = tuple(f"sense {sense}" for sense in range(self.config.senses))
        senses = declare(values_at("senses", "BLTD", parts=names))
        senses |= attention_sites("senses.attention", "BLTS", parts=names)
        return self.trunk.sites() | senses | declare(values_at("features"))

    def layer_sites(self) -> list[str]:
        return self.trunk.layer_sites()

    def begin(self, given: int | Tensor, look: Look | None = None) -> BackpackState:
        trunk, rows = self.trunk.begin(int(given), self.embedding.weight), int(given)
        sizes = (self.config.width // self.config.senses, self.config.width)
        empty = (self.embedding.weight.new_zeros(rows, self.config.senses, 0, size) for size in sizes)
        return BackpackState(trunk.position_B, trunk, *empty)

    def with_room(self, state: BackpackState, room: int) -> BackpackState:
        return state.with_room(min(room, self.config.context))

    def forward(
        self, tokens_BT: Tensor, state: BackpackState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, BackpackState]:
        embedded_BTD = self.embedding(tokens_BT)
        x_BTD, placement, trunk = self.trunk(
            embedded_BTD, tokens_BT != self.padding, state.trunk, look, padded
        )
        cache = (state.key_BLSE, state.senses_BLSD)
        if self.training:
            # The backward pass computes the senses (L x T x D for each row) again instead of storing them.
            out = checkpoint(
                self._sum_senses, x_BTD, embedded_BTD, placement, cache, look, use_reentrant=False
            )
        else:
            out = self._sum_senses(x_BTD, embedded_BTD, placement, cache, look)
        summed_BTD, key_BLSE, senses_BLSD, used = out
        o_BTD = at_site(look, "features", summed_BTD)
        prediction: Prediction
        prediction = softmax = self.readout(drop(o_BTD, self.config.dropout, self.training), self.embedding)
        if used is not None:
            edited_BTD = None if o_BTD is summed_BTD else o_BTD - summed_BTD
            prediction = SensePrediction(
                softmax, Terms(used[0], used[1], placement.slots.filled_columns(), edited_BTD)
            )
        return prediction, BackpackState(trunk.position_B, trunk, key_BLSE, senses_BLSD)

    def _sum_senses(
        self,
        x_BTD: Tensor,
        embedded_BTD: Tensor,
        placement: Placement,
        cache: tuple[Tensor, Tensor],
        look: Look | None,
    ) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor] | None]:
        """Return o_BTD, the new buffers of keys and senses, and (weights, senses) to explain a prediction.

        In training, None is returned instead of the weights and senses.
        """
        senses_BLTD = self.senses(embedded_BTD)
        senses_BLTD = at_site(look, "senses", senses_BLTD)
        query_BLTE, key_BLTE = (
            self.project(x_BTD).unflatten(2, (2, self.config.senses, -1)).permute(2, 0, 3, 1, 4)
        )
        key, senses, seen_key, seen_senses = remember(key_BLTE, senses_BLTD, cache, placement.slots)
        seen_senses = at_value(seen_senses, placement.mask, look, "senses.attention")
        weights_BLTS = weigh(
            query_BLTE, seen_key, score=self.score, mask=placement.mask, look=look, site="senses.attention"
        )
        used = None if self.training else (weights_BLTS, seen_senses)
        return sum_senses(weights_BLTS.to(senses.dtype), seen_senses), key, senses, used


@dataclass(frozen=True)
class Terms:
    """The factors of the sum o_i, and the vector that an edit of the features added to o_i."""

    weights_BLTS: Tensor
    senses_BLSD: Tensor
    position_BS: Tensor  # the position of each slot, -1 for empty slots
    edited_BTD: Tensor | None


@final
class SensePrediction(Prediction):
    """A softmax whose scores are sums: score_i(w) = b_w + sum_l sum_j alpha_{l,i,j} C(x_j)_l . E_w."""

    def __init__(self, softmax: SoftmaxPrediction, terms: Terms):
        self.softmax, self.terms = softmax, terms
        self.features_BTD = softmax.features_BTD

    def log_probs(self) -> Tensor:
        return self.softmax.log_probs()

    def nll(self, targets_BT: Tensor) -> Tensor:
        return self.softmax.nll(targets_BT)

    def at(self, positions_BK: Tensor) -> "SensePrediction":
        terms = self.terms
        index_BLKS = positions_BK[:, None, :, None].expand(
            -1, terms.weights_BLTS.shape[1], -1, terms.weights_BLTS.shape[3]
        )
        edited_BTD = terms.edited_BTD
        if edited_BTD is not None:
            edited_BTD = edited_BTD.gather(1, positions_BK.unsqueeze(2).expand(-1, -1, edited_BTD.shape[2]))
        picked = replace(terms, weights_BLTS=terms.weights_BLTS.gather(2, index_BLKS), edited_BTD=edited_BTD)
        return SensePrediction(self.softmax.at(positions_BK), picked)

    def parts(self, targets_BT: Tensor) -> Parts:
        target_BT = targets_BT.clamp(min=0)
        embedded_BTD = F.embedding(target_BT, self.softmax.weight_VD)
        terms = list[Part]()
        for sense in range(self.terms.senses_BLSD.shape[1]):
            score_BTS = embedded_BTD @ self.terms.senses_BLSD[:, sense].transpose(1, 2)
            terms.append(
                Part(f"sense {sense}", self.terms.weights_BLTS[:, sense] * score_BTS, self.terms.position_BS)
            )
        if self.terms.edited_BTD is not None:
            terms.append(Part("edit", (self.terms.edited_BTD * embedded_BTD).sum(2)))
        return Parts("score", (*terms, Part("bias", self.softmax.bias_V[target_BT])))
