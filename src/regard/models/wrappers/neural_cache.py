"""The neural cache (Grave, Joulin and Usunier 2017, equations 2 and 3), for any trained neural model.

    P(w) = (1 - share) P_model(w) + share P_cache(w)
    P_cache(w) is proportional to the sum over i < t with w_{i+1} = w of exp(theta h_t . h_i)

Words become likelier if they followed similar hidden states h_i in the recent past. The cache has no learned
parameters; theta and share are chosen on validation text.

Shape legend: B rows, T positions, D width, S stored pairs, K = S + T.
"""

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.machine.memory import check_memory
from regard.models.contract import LanguageModel, Member, Padded, Prediction, State
from regard.models.predictions import CopyPrediction
from regard.models.wrappers.wrapper import Wrapper
from regard.parts.attention import weigh
from regard.parts.look import Look, Site, attention_sites
from regard.parts.masks import causal, lookback, padding
from regard.parts.past import filled_up, newest
from regard.parts.recurrence import Packed, pack_left
from regard.parts.scores import Dot

COMPARED = 1 << 25  # comparisons in a call; caches of up to 8,192 states are read in calls of 4,096 tokens
FEWEST = 128  # tokens in a call, however large the cache is


@dataclass(frozen=True)
class CacheState(State):
    """The model's state and the cache, whose pairs are a hidden state and the word that was read after it.

    The cache is carried from window to window.
    """

    inner: State
    last_BSD: Tensor  # the newest hidden state, whose next word is unknown (S = 1; 0 at the beginning)
    key_BSD: Tensor  # earlier hidden states
    token_BS: Tensor  # the word after each hidden state
    slot_BS: Tensor  # the position of this word, 0 for an empty slot

    def trimmed(self) -> "CacheState":
        return replace(self, inner=self.inner.trimmed())

    def next_window(self) -> "CacheState":
        return replace(self, inner=self.inner.next_window())


@final
class NeuralCache(Wrapper):
    """A model with a neural cache of `size` pairs."""

    family = "cache"

    def __init__(self, model: LanguageModel, size: int, theta: float, share: float):
        super().__init__(model)
        self.size, self.theta, self.share = size, theta, share
        # Small calls: each hidden state of a call is compared with all others, and with the whole cache. The
        # number of comparisons of a call is limited, so that a cache of any size fits into memory.
        limits = [max(FEWEST, min(most, COMPARED // size)) for most in (1 << 12, 1 << 10)]
        self.batch_tokens, self.row_tokens = map(min, limits, (model.batch_tokens, model.row_tokens))

    @property
    def carries(self) -> bool:
        return True

    def cache(self) -> dict[str, float] | None:
        return {"size": self.size, "theta": self.theta, "share": self.share}

    def members(self) -> list[Member]:
        return [Member("", self, 1.0)]

    def sites(self) -> dict[str, Site]:
        return self.model.sites() | attention_sites("cache", "BHTK", mixes=False)

    def begin(self, given: int | Tensor, look: Look | None = None) -> CacheState:
        inner = self.model.begin(given, look)
        empty_BS = inner.position_B.unsqueeze(1)[:, :0]
        empty_BSD = torch.zeros(len(empty_BS), 0, 0, device=empty_BS.device)  # the first call sets the width
        return CacheState(torch.zeros_like(inner.position_B), inner, empty_BSD, empty_BSD, empty_BS, empty_BS)

    def with_room(self, state: CacheState, room: int) -> CacheState:
        width = state.key_BSD.shape[2]
        check_memory((4 * width + 16) * len(state.slot_BS) * self.size, f"`cache_size` {self.size}")
        memory = {
            name: filled_up(getattr(state, name), self.size) for name in ("key_BSD", "token_BS", "slot_BS")
        }
        return replace(state, inner=self.model.with_room(state.inner, room), **memory)

    def forward(
        self, tokens_BT: Tensor, state: CacheState, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, CacheState]:
        packed = pack_left(tokens_BT, self.padding, padded)
        prediction, inner = self.model(packed.tokens_BT, state.inner, look, padded)
        return self._mix(packed, prediction, state, inner, look)

    def slide(
        self, recent_BT: Tensor, state: CacheState, look: Look | None = None
    ) -> tuple[Prediction, CacheState]:
        """Let the model begin a new window. Words that it reads again are not added to the cache again."""
        prediction, inner = self.model.slide(recent_BT, state.inner, look)
        return self._mix(
            pack_left(recent_BT[:, -1:], self.padding, "anywhere"), prediction, state, inner, look
        )

    def _mix(
        self, packed: Packed, prediction: Prediction, state: CacheState, inner: State, look: Look | None
    ) -> tuple[Prediction, CacheState]:
        h_BTD = prediction.features_BTD
        if h_BTD is None:
            raise UserError(
                f"a cache compares hidden states, and {self.model.family} has none; put it on a neural run"
            )
        if state.last_BSD.shape[2] != h_BTD.shape[2]:  # the first call
            state = replace(state, last_BSD=torch.zeros_like(h_BTD[:, :1]), key_BSD=h_BTD[:, :0])
        position_BT = packed.positions(state.position_B)
        compared = position_BT.numel() * (state.key_BSD.shape[1] + position_BT.shape[1])
        check_memory(12 * compared, f"`cache_size` {self.size}")  # scores, weights and copied weights
        key_BKD = torch.cat([state.key_BSD, state.last_BSD, h_BTD[:, :-1]], 1)
        token_BK = torch.cat([state.token_BS, packed.tokens_BT], 1)
        slot_BK = torch.cat([state.slot_BS, torch.where(packed.real_BT, position_BT, 0)], 1)
        column_BK = torch.where(slot_BK > 0, slot_BK, -1)  # `<s>` at position 0 follows no hidden state
        mask = (causal & lookback(self.size - 1) & padding).over(position_BT, column_BK)
        query_B1TD, key_B1KD = self.theta * h_BTD.unsqueeze(1), key_BKD.unsqueeze(1)
        weights_B1TK = weigh(query_B1TD, key_B1KD, score=Dot(), mask=mask, look=look, site="cache")
        copied_BTK = self.share * weights_B1TK.squeeze(1)
        mixed: Prediction = CopyPrediction(
            prediction, copied_BTK, token_BK, column_BK, self.vocabulary_size, "cache"
        )
        if packed.place_BT is not None:
            mixed = mixed.at(packed.place_BT)
        end_B, keep = state.slot_BS.shape[1] + packed.length_B, min(self.size, slot_BK.shape[1])
        last_BSD = newest(torch.cat([state.last_BSD, h_BTD], 1), packed.length_B + 1, 1)
        cache = [newest(values, end_B, keep) for values in (key_BKD, token_BK, slot_BK)]
        return mixed, CacheState(state.position_B + packed.length_B, inner, last_BSD, *cache)
