"""The library's recurrent kernels behind one form, with states as batch-first values and padding anywhere in a row.

    rnn   h_i = tanh(W x_i + V h_{i-1})
    lstm  c_i = f * c_{i-1} + i * g,  h_i = o * tanh(c_i)
    gru   h_i = (1 - z) * n + z * h_{i-1}

Shape legend: B rows, T positions, D width, L layers.
"""

from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

CellName = Literal["rnn", "lstm", "gru"]


@dataclass(frozen=True)
class Packed:
    """Rows with their real tokens moved to the left."""

    tokens_BT: Tensor
    length_B: Tensor
    place_BT: Tensor | None  # where each position of the original went (padding: the real token before it); None: nothing moved

    def restore(self, values_BTD: Tensor) -> Tensor:
        """Values of the packed positions, back at the original ones."""
        if self.place_BT is None:
            return values_BTD
        return values_BTD.gather(1, self.place_BT.unsqueeze(2).expand(-1, -1, values_BTD.shape[2]))


def pack_left(tokens_BT: Tensor, padding: int, training: bool) -> Packed:
    """In training rows are padded on the right only and padded rows are never continued, so nothing has to move."""
    if training:
        return Packed(tokens_BT, torch.full_like(tokens_BT[:, 0], tokens_BT.shape[1]), None)
    real_BT = tokens_BT != padding
    length_B = real_BT.sum(1)
    if bool(real_BT.all()):
        return Packed(tokens_BT, length_B, None)
    order_BT = (~real_BT).long().argsort(dim=1, stable=True)
    place_BT = (real_BT.cumsum(1) - 1).clamp(min=0)
    return Packed(tokens_BT.gather(1, order_BT), length_B, place_BT)


@final
class Recurrence(nn.Module):
    def __init__(self, cell: CellName, layers: int, input_size: int, width: int, dropout: float):
        super().__init__()
        library = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
        self.kernel = library(input_size, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.has_cell = cell == "lstm"

    def begin(self, rows: int) -> tuple[Tensor, Tensor | None]:
        """The states before anything was read: zeros."""
        zeros_BLD = self.kernel.weight_hh_l0.new_zeros(rows, self.kernel.num_layers, self.kernel.hidden_size)
        return zeros_BLD, zeros_BLD.clone() if self.has_cell else None

    def forward(
        self, x_BTD: Tensor, hidden_BLD: Tensor, cell_BLD: Tensor | None, length_B: Tensor, unequal: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """(out_BTD, hidden_BLD, cell_BLD): the states of the last layer at every position, and of all layers at each row's end."""
        hidden_LBD = hidden_BLD.transpose(0, 1).contiguous()
        state = hidden_LBD if cell_BLD is None else (hidden_LBD, cell_BLD.transpose(0, 1).contiguous())
        if unequal:  # packing costs time and a row needs one token at least; what an empty row gives is thrown away
            packed = pack_padded_sequence(x_BTD, length_B.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
            out, new = self.kernel(packed, state)
            out_BTD, _ = pad_packed_sequence(out, batch_first=True, total_length=x_BTD.shape[1])
        else:
            out_BTD, new = self.kernel(x_BTD, state)
        new_hidden, new_cell = new if self.has_cell else (new, None)
        read_B = (length_B > 0).view(-1, 1, 1)
        hidden_BLD = torch.where(read_B, new_hidden.transpose(0, 1), hidden_BLD)
        if cell_BLD is not None and new_cell is not None:
            cell_BLD = torch.where(read_B, new_cell.transpose(0, 1), cell_BLD)
        return out_BTD, hidden_BLD, cell_BLD
