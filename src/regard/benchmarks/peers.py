"""Peers of the benchmarks: models in plain PyTorch, and GPT-2 of Hugging Face if it is installed.

Shape legend: B rows, T positions, D width, V vocabulary.
"""

from importlib.util import find_spec
from typing import Any, final

import torch
from torch import Tensor, nn


@final
class PlainTransformer(nn.Module):
    """A causal Transformer of torch.nn's own layers, with learned positions and a tied readout."""

    def __init__(self, vocabulary: int, layers: int, heads: int, width: int, context: int):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, nn.functional.gelu, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        place_T = torch.arange(tokens_BT.shape[1])
        mask_TT = nn.Transformer.generate_square_subsequent_mask(len(place_T))
        x_BTD = self.embedding(tokens_BT) + self.positions(place_T)
        return self.encoder(x_BTD, mask_TT, is_causal=True) @ self.embedding.weight.T


@final
class PlainLstm(nn.Module):
    """Embedding, nn.LSTM and a readout, as in pytorch/examples' word_language_model."""

    def __init__(self, vocabulary: int, layers: int, width: int, dropout: float):
        super().__init__()
        self.embedding, self.drop = nn.Embedding(vocabulary, width), nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)
        self.readout = nn.Linear(width, vocabulary)

    def forward(self, tokens_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        out_BTD, state = self.lstm(self.drop(self.embedding(tokens_BT)), state)
        return self.readout(self.drop(out_BTD)), state


def hugging_face(vocabulary: int, layers: int, heads: int, width: int, context: int) -> Any | None:
    """A GPT-2 of the package transformers with random weights, or None if the package is not installed."""
    if find_spec("transformers") is None:
        return None
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=context,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        bos_token_id=0,
        eos_token_id=None,
        attn_implementation="eager",  # type: ignore[call-arg]  # the only one that returns attention weights
    )
    return GPT2LMHeadModel(config).eval()
