"""The Transformer language model: a stack of self-attention blocks, then a softmax over the vocabulary.

    x = trunk(embedding(w_1), ..., embedding(w_i)),   P(w_{i+1}) = softmax(U x + b)

With `projections` none, the embeddings are the only parameters: y_i = sum_j softmax_j(x_i . x_j) x_j.

Shape legend: B rows, T positions, S slots, D width, H heads, E head width.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor, nn

from regard.models.contract import Contribution, LanguageModel, Padded, Prediction, State
from regard.models.copying import CopyName, Pointer, copy_column
from regard.models.predictions import CopyPrediction, Readout
from regard.models.trunk import Block, Trunk
from regard.models.trunk_config import MEDIUM, TrunkConfig
from regard.models.trunk_state import TrunkState
from regard.parts.look import Look, Site, at_site, attention_sites, declare, values_at
from regard.parts.masks import earlier, padding
from regard.parts.products import Linear
from regard.parts.slots import fixed_size, shortened


@dataclass(frozen=True)
class TransformerState(State):
    """The KV cache, and the words to copy with the keys of the pointer."""

    fills_front: ClassVar[bool] = False

    trunk: TrunkState
    token_BS: Tensor  # the token in each slot; no slots if the model does not copy
    pointer_BSD: Tensor  # the pointer's key of each slot

    def trimmed(self) -> Self:
        filled = int(self.position_B.max())
        return self._with_words(self.trunk.trimmed(), lambda buffer: shortened(buffer, filled, 1))

    def next_window(self) -> Self:
        trunk = self.trunk.next_window()
        return self._with_words(trunk, lambda buffer: buffer if trunk.fixed else shortened(buffer, 0, 1))

    def with_room(self, room: int) -> Self:
        """Return the state with buffers of a fixed size. The buffers for copying stay empty if unused."""
        size = room if self.pointer_BSD.shape[1] else 0
        return self._with_words(self.trunk.with_room(room), lambda buffer: fixed_size(buffer, size, 1))

    def _with_words(self, trunk: TrunkState, change: Callable[[Tensor], Tensor]) -> Self:
        words = {"token_BS": change(self.token_BS), "pointer_BSD": change(self.pointer_BSD)}
        return replace(self, position_B=trunk.position_B, trunk=trunk, **words)


@final
class Transformer(LanguageModel):
    family = "transformer"
    steady = True
    bounded: ClassVar[bool] = True
    training_defaults: ClassVar[dict[str, Any]] = {"optimiser": "muon", "learning_rate": 0.012, "batch": 32}
    medium: ClassVar[dict[str, Any]] = MEDIUM

    @dataclass(frozen=True, kw_only=True)
    class Config(TrunkConfig):
        tied: bool = True
        """The readout shares the vectors of the embedding. Off: Give the readout its own vectors, instead of
        the embedding's."""
        readout_bias: bool = True
        """The readout adds a learned bias to each score. Off: Leave out the bias of the readout, as GPT-2
        does."""
        copy: CopyName = "none"
        """Copy earlier words: with weight 1/2 (average), or with a learned weight (gate: the pointer sentinel
        of Merity et al. 2017)."""

    def __init__(self, vocabulary_size: int, config: Config):
        super().__init__(vocabulary_size, config)
        self.context = config.context
        self.trunk = Trunk(config)
        embedding_width = self.trunk.embedding_width
        self.embedding = nn.Embedding(vocabulary_size + 2, embedding_width)
        self._initialise_embedding(config)
        # A tied readout cannot read the features that appended positions add to the width.
        narrow = config.tied and embedding_width != config.width
        self.narrow = Linear(config.width, embedding_width) if narrow else nn.Identity()
        self.readout = Readout(
            vocabulary_size, embedding_width if narrow else config.width, config.tied, config.readout_bias
        )
        self.pointer = Pointer(config.copy, config.width, config.context) if config.copy != "none" else None

    def _initialise_embedding(self, config: Config) -> None:
        """Initialise word vectors of norm 1, about the size of the vectors that the blocks add to them.

        With smaller vectors, no layer learns to look up a word (docs/benchmarks.md). The weight of the final
        norm starts small instead, so that the first predictions are nearly uniform.
        """
        norm, small, std = self.trunk.final_norm, 0.02, 1 / math.sqrt(config.width)
        if isinstance(norm, nn.Identity):
            nn.init.normal_(self.embedding.weight, std=small)
            return
        nn.init.normal_(self.embedding.weight, std=std)
        if config.tied:
            assert isinstance(norm, nn.LayerNorm)
            nn.init.constant_(norm.weight, small / std)

    def sites(self) -> dict[str, Site]:
        copying = (
            attention_sites("copy", extra=copy_column(self.config.copy), mixes=False) if self.pointer else {}
        )
        return self.trunk.sites() | declare(values_at("features")) | copying

    def layer_sites(self) -> list[str]:
        return self.trunk.layer_sites()

    def contributions(
        self, tokens_1T: Tensor, place: int, token: int, look: Look | None = None
    ) -> list[Contribution]:
        """Return the contributions of embedding, heads, feed-forward layers and biases to a token's score.

        In a pre-norm Transformer, the last state is the sum of the vectors p that the layers add to it. With
        the mean and the scale sigma of the final norm held constant, the score is a sum as well:

            score = sum_p (p - mean(p)) / sigma * g . W_token + b . W_token + bias_token

        with weight g and bias b of the final norm.
        """
        norm, simple = self.trunk.final_norm, isinstance(self.narrow, nn.Identity) and self.pointer is None
        if not isinstance(norm, nn.LayerNorm) or not simple:  # the score is not a sum over layers
            return super().contributions(tokens_1T, place, token, look)
        watch = Look(["embedding", "*.heads", "*.feed", "*.residual"])
        watch = watch if look is None else watch.with_changes_of(look)
        prediction, _ = self.read_from_start(tokens_1T, look=watch)
        parts = {"embedding": watch.values["embedding"][0, place]}
        for block in self.trunk.blocks:
            assert isinstance(block, Block)
            heads_HE = watch.values[f"{block.name}.heads"][0, :, place]
            weights = block.out.weight.chunk(len(heads_HE), 1)
            for head, (mixed_E, weight_DE) in enumerate(zip(heads_HE, weights, strict=True)):
                parts[f"{block.name} head {head}"] = weight_DE @ mixed_E
            parts[f"{block.name} attention bias"] = block.out.bias
            parts[f"{block.name} feed-forward"] = watch.values[f"{block.name}.feed"][0, place]
        last_D = watch.values[self.layer_sites()[-1]][0, place]
        if look is not None:
            parts["edits"] = last_D - torch.stack(list(parts.values())).sum(0)
        sigma = (last_D.var(correction=0) + norm.eps).sqrt()
        assert prediction.features_BTD is not None
        direction_D = self.readout(prediction.features_BTD, self.embedding).weight_VD[token]
        values = {
            name: (part_D - part_D.mean()) / sigma * norm.weight @ direction_D
            for name, part_D in parts.items()
        }
        if look is not None:  # an edit of the features adds to the score, too
            values["edits"] = (
                values["edits"] + (prediction.features_BTD[0, place] - norm(last_D)) @ direction_D
            )
        values["final norm bias"] = norm.bias @ direction_D
        values["readout bias"] = self.readout.bias[token]
        return [Contribution("score", name, float(value)) for name, value in values.items()]

    def begin(self, given: int | Tensor, look: Look | None = None) -> TransformerState:
        trunk = self.trunk.begin(int(given), self.embedding.weight)
        pointer_BSD = self.embedding.weight.new_zeros(int(given), 0, self.config.width)
        return TransformerState(
            trunk.position_B, trunk, trunk.position_B.new_zeros(int(given), 0), pointer_BSD
        )

    def with_room(self, state: TransformerState, room: int) -> TransformerState:
        return state.with_room(min(room, self.config.context))

    def forward(
        self,
        tokens_BT: Tensor,
        state: TransformerState,
        look: Look | None = None,
        padded: Padded = "anywhere",
    ) -> tuple[Prediction, TransformerState]:
        x_BTD, placement, trunk = self.trunk(
            self.embedding(tokens_BT), tokens_BT != self.padding, state.trunk, look, padded
        )
        x_BTD = at_site(look, "features", x_BTD)
        prediction: Prediction = self.readout(self.narrow(x_BTD), self.embedding)
        token_BS, pointer_BSD = state.token_BS, state.pointer_BSD
        if self.pointer is not None:
            token_BS, seen_BS = placement.slots.write(token_BS, tokens_BT, 1)
            pointer_BSD, seen_BSD = placement.slots.write(pointer_BSD, self.pointer.key(x_BTD), 1)
            column_BS = placement.slots.filled_columns()
            mask = (earlier & padding).over(placement.position_BT, column_BS)
            copied_BTS = self.pointer(x_BTD, seen_BSD, mask, look)
            prediction = CopyPrediction(prediction, copied_BTS, seen_BS, column_BS, self.vocabulary_size)
        return prediction, TransformerState(trunk.position_B, trunk, token_BS, pointer_BSD)
