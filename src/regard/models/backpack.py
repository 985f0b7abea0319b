"""Backpacks: every word carries several sense vectors, and a Transformer says only how much of each is used.

    C(x)_l from the embedding alone;  alpha_l = softmax(K_l^T Q_l) of what the Transformer knows, causal;
    o_i = sum_j sum_l alpha_{l,i,j} C(x_j)_l;   P(w_{i+1}) = softmax(E o_i)

The prediction is linear in the senses, so what a sense adds to any word's score can be read off.

Shape legend: B rows, T positions, S slots remembered, L senses, D width, E width of a sense's query.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.errors import UserError
from regard.models.contract import LanguageModel, Prediction, State
from regard.models.predictions import Readout
from regard.models.ranges import at_least
from regard.models.trunk import MEDIUM, Trunk, TrunkConfig, TrunkState, Where, remember
from regard.parts.attention import weigh
from regard.parts.layers import drop
from regard.parts.look import Look, at_site, weight_sites
from regard.parts.scores import ScaledDot
from regard.parts.senses import SenseNetwork, weave


@dataclass(frozen=True)
class BackpackState(State):
    trunk: TrunkState
    key_BLSE: Tensor
    senses_BLSD: Tensor


@final
class Backpack(LanguageModel):
    family = "backpack"
    training_defaults: ClassVar[dict[str, Any] | None] = {"optimiser": "muon", "learning_rate": 0.012, "batch": 32}
    compiles: ClassVar[bool] = False  # torch 2.11 compiles it to NaN on an H200; not on a CPU, nor with 2.13
    medium: ClassVar[dict[str, Any]] = MEDIUM | {"senses": 16}

    @dataclass(frozen=True, kw_only=True)
    class Config(TrunkConfig):
        senses: int = 4
        """How many sense vectors a word has."""

        def __post_init__(self) -> None:
            super().__post_init__()
            at_least(1, senses=self.senses)
            if self.width % self.senses:
                raise UserError(f"--width {self.width} cannot be divided among --senses {self.senses}; choose a multiple")

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.context = config.context
        self.trunk = Trunk(config)
        if self.trunk.embedding_width != config.width:
            raise UserError(f"--positions {config.positions} are appended to the embedding, which a backpack reads out by: choose others")
        self.embedding = nn.Embedding(vocabulary_size + 2, config.width)
        nn.init.normal_(self.embedding.weight, std=0.1)  # it reads the senses out, and no norm stands between
        self.senses = SenseNetwork(config.width, config.senses)
        self.project = nn.Linear(config.width, 2 * config.width)  # query and key side by side
        self.score = ScaledDot()
        self.readout = Readout(vocabulary_size, config.width, tied=True)

    def sites(self) -> dict[str, str]:
        senses = {"senses": "(B, L, T, D)", **weight_sites("senses.attention", "(B, L, T, S)")}
        return self.trunk.sites() | senses | {"features": "(B, T, D)"}

    def forward(self, tokens_BT: Tensor, state: BackpackState | None = None, look: Look | None = None) -> tuple[Prediction, BackpackState]:
        embedded_BTD = self.embedding(tokens_BT)
        before, kept = (None, None) if state is None else (state.trunk, (state.key_BLSE, state.senses_BLSD))
        x_BTD, where, trunk = self.trunk(embedded_BTD, tokens_BT != self.padding, before, look)
        if self.training:  # the senses, L x T x D, are worked out again in the backward pass instead of being held for it
            out = checkpoint(self._speak, x_BTD, embedded_BTD, where, kept, look, use_reentrant=False)
        else:
            out = self._speak(x_BTD, embedded_BTD, where, kept, look)
        o_BTD, key_BLSE, senses_BLSD = out
        o_BTD = at_site(look, "features", o_BTD)
        o_BTD = drop(o_BTD, self.config.dropout, self.training)
        return self.readout(o_BTD, self.embedding), BackpackState(trunk.position_B, trunk, key_BLSE, senses_BLSD)

    def _speak(
        self, x_BTD: Tensor, embedded_BTD: Tensor, where: Where, kept: tuple[Tensor, Tensor] | None, look: Look | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(o_BTD, keys, senses): how much of each sense of each word is used here, and their sum."""
        senses_BLTD = self.senses(embedded_BTD)
        senses_BLTD = at_site(look, "senses", senses_BLTD)
        query_BLTE, key_BLTE = self.project(x_BTD).unflatten(2, (2, self.config.senses, -1)).permute(2, 0, 3, 1, 4)
        key, senses, seen_key, seen_senses = remember(key_BLTE, senses_BLTD, kept, where.used)
        weights_BLTS = weigh(query_BLTE, seen_key, score=self.score, mask=where.mask, look=look, site="senses.attention")
        return weave(weights_BLTS.to(senses.dtype), seen_senses), key, senses
