"""The neural cache, put on any trained neural model: words that followed like states in the recent past are likelier now.

    P(w) = (1 - share) P_model(w) + share P_cache(w),   P_cache(w) proportional to sum over i < t with w_{i+1} = w of exp(theta h_t . h_i)

(Grave, Joulin and Usunier 2017, equations 2 and 3.) Nothing is learned; theta and share are chosen on validation text.

Shape legend: B rows, T positions, D width, S pairs remembered, K = S + T.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import LanguageModel, Prediction, State
from regard.models.predictions import CopyPrediction
from regard.parts.attention import weigh
from regard.parts.look import Look, weight_sites
from regard.parts.masks import causal, lookback, padding
from regard.parts.past import newest
from regard.parts.recurrence import pack_left
from regard.parts.scores import Dot


@dataclass(frozen=True)
class CacheState(State):
    inner: State | None  # None: what stands before the model's context is the cache's alone
    last_BD: Tensor  # the newest state, whose next word is not known yet
    key_BSD: Tensor  # earlier states
    token_BS: Tensor  # the word that followed each
    slot_BS: Tensor  # its position, 0 where there is none


@final
class NeuralCache(LanguageModel):
    family = "cache"
    batch_tokens, row_tokens = 1 << 12, 1 << 10  # each is compared with every state in the cache and in the call

    def __init__(self, model: LanguageModel, size: int, theta: float, share: float):
        super().__init__(model.vocabulary_size, None)
        self.model, self.size, self.theta, self.share = model, size, theta, share
        self.context = model.context
        self.cache = {"size": size, "theta": theta, "share": share}

    def sites(self) -> dict[str, str]:
        return self.model.sites() | weight_sites("cache", "(B, 1, T, K)")

    def tensors(self) -> dict[str, Tensor]:
        return self.model.tensors()

    def forward(self, tokens_BT: Tensor, state: CacheState | None = None, look: Look | None = None) -> tuple[Prediction, CacheState]:
        packed = pack_left(tokens_BT, self.padding, training=False)
        prediction, inner = self.model(packed.tokens_BT, None if state is None else state.inner, look)
        h_BTD = prediction.features_BTD
        if h_BTD is None:
            raise UserError(f"a cache needs a model with hidden states; {self.model.family} has none")
        if state is None:
            none_BS = tokens_BT.new_zeros(len(tokens_BT), 0)
            state = CacheState(none_BS.sum(1), inner, torch.zeros_like(h_BTD[:, 0]), h_BTD[:, :0], none_BS, none_BS)
        position_BT = packed.positions(state.position_B)
        # a pair is an earlier state and the word read after it; the start of a document follows nothing
        key_BKD = torch.cat([state.key_BSD, state.last_BD.unsqueeze(1), h_BTD[:, :-1]], 1)
        token_BK = torch.cat([state.token_BS, packed.tokens_BT], 1)
        slot_BK = torch.cat([state.slot_BS, torch.where(packed.real_BT, position_BT, 0)], 1)
        mask = (causal & lookback(self.size - 1) & padding).over(position_BT, torch.where(slot_BK > 0, slot_BK, -1))
        weights_B1TK = weigh(self.theta * h_BTD.unsqueeze(1), key_BKD.unsqueeze(1), score=Dot(), mask=mask, look=look, site="cache")
        mixed: Prediction = CopyPrediction(prediction, self.share * weights_B1TK.squeeze(1), token_BK, self.vocabulary_size)
        if packed.place_BT is not None:
            mixed = mixed.at(packed.place_BT)
        end_B, keep = state.slot_BS.shape[1] + packed.length_B, min(self.size, slot_BK.shape[1])
        last_BD = newest(torch.cat([state.last_BD.unsqueeze(1), h_BTD], 1), packed.length_B + 1, 1).squeeze(1)
        kept = [newest(values, end_B, keep) for values in (key_BKD, token_BK, slot_BK)]
        return mixed, CacheState(state.position_B + packed.length_B, inner, last_BD, *kept)
