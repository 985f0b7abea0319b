"""Recurrent layers: PyTorch's kernels with batch-first states, for rows with padding anywhere.

    rnn   h_i = tanh(W x_i + V h_{i-1})
    lstm  c_i = f * c_{i-1} + i * g,   h_i = o * tanh(c_i)            gates i, f, g, o
    gru   h_i = (1 - z) * n + z * h_{i-1}                             gates r, z, n

Shape legend: B rows, T positions, D width, L layers, G gates.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.parts.layers import drop_alike
from regard.parts.look import Look, Site, at_site, declare, values_at
from regard.parts.products import linear

CellName = Literal["rnn", "lstm", "gru"]
GATES: dict[str, tuple[str, ...]] = {
    "rnn": (),
    "lstm": ("input", "forget", "candidate", "output"),
    "gru": ("reset", "update", "candidate"),
}


def begin_embedding(table: nn.Embedding) -> None:
    """Initialise word vectors that are large enough to move the gates from the first step.

    After the usual initialisation (uniform between -0.1 and 0.1), narrow models hardly learn at first
    (docs/benchmarks.md).
    """
    nn.init.normal_(table.weight, std=2.5 / math.sqrt(table.embedding_dim))


@dataclass(frozen=True)
class Packed:
    """Rows with their real tokens moved to the left."""

    tokens_BT: Tensor
    length_B: Tensor  # the number of real tokens in each row
    # The packed position of each original position (for padding: of the real token before it). None: no token
    # was moved.
    place_BT: Tensor | None

    @property
    def real_BT(self) -> Tensor:
        """(B, T): True for packed tokens, False for padding."""
        return torch.arange(self.tokens_BT.shape[1], device=self.length_B.device) < self.length_B.unsqueeze(1)

    def positions(self, before_B: Tensor) -> Tensor:
        """(B, T): the position of each packed token in a row that has read `before_B` tokens."""
        return before_B.unsqueeze(1) + torch.arange(self.tokens_BT.shape[1], device=before_B.device)

    def restore(self, values_BTD: Tensor) -> Tensor:
        """Move values from the packed positions back to the original positions."""
        if self.place_BT is None:
            return values_BTD
        return values_BTD.gather(1, self.place_BT.unsqueeze(2).expand(-1, -1, values_BTD.shape[2]))


def pack_left(tokens_BT: Tensor, padding: int, padded: str) -> Packed:
    """Move the padding of each row to its end.

    With `padded="right"`, it already is at the end, and the rows are treated as if they had no padding.
    """
    if padded == "right":
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
    """A stack of recurrent layers.

    Between layers, the dropout mask of a row is the same at every position (Gal & Ghahramani 2016).
    `weight_dropout` sets recurrent weights to zero (Merity et al. 2018) and keeps the speed of PyTorch's
    kernel. Watched gates and cells are computed from the kernel's output. A layer with changed gates or cells
    runs position by position.
    """

    def __init__(
        self,
        cell: CellName,
        layers: int,
        width: int,
        dropout: float,
        weight_dropout: float,
        *,
        inputs: int | None = None,
        first: int = 0,
    ):
        """`inputs` is the width of the inputs, if it differs; `first` is the number of the first layer."""
        super().__init__()
        library = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
        widths = [inputs or width, *[width] * (layers - 1)]
        self.kernels = nn.ModuleList(library(size, width, batch_first=True) for size in widths)
        self.first = first
        self.cell = cell
        self.width = width
        self.dropout = dropout
        self.weight_dropout = weight_dropout

    def sites(self) -> dict[str, Site]:
        """Return the sites of each layer: gates in the order of GATES, the cell of an LSTM, hidden states."""
        parts = {"rnn": {}, "gru": {"gates": "BGTD"}, "lstm": {"gates": "BGTD", "cell": "BTD"}}[self.cell]
        parts = {**parts, "hidden": "BTD"}
        sites = list[Site]()
        for layer in range(len(self.kernels)):
            for part, axes in parts.items():
                names = GATES[self.cell] if part == "gates" else ()
                sites.append(
                    values_at(f"layer{self.first + layer}.{part}", axes, remembers=True, parts=names)
                )
        return declare(*sites)

    def begin(self, rows: int) -> tuple[Tensor, Tensor | None]:
        """Return the hidden states and cells before the first token: zeros."""
        zeros_BLD = next(self.parameters()).new_zeros(rows, len(self.kernels), self.width)
        return zeros_BLD, zeros_BLD.clone() if self.cell == "lstm" else None

    def forward(
        self, x_BTD: Tensor, hidden_BLD: Tensor, cell_BLD: Tensor | None, packed: Packed, look: Look | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the last layer's hidden states at every position, and the new states of all layers.

        The new states (hidden_BLD, and cell_BLD of an LSTM) are those after the last real token of each row.
        """
        before = [hidden_BLD] if cell_BLD is None else [hidden_BLD, cell_BLD]
        ends = []
        for layer, kernel in enumerate(self.kernels):
            assert isinstance(kernel, nn.RNNBase)
            if layer:
                x_BTD = drop_alike(x_BTD, self.dropout, self.training)
            begin = [state_BLD[:, layer] for state_BLD in before]
            out_BTD, *end = self._layer(kernel, x_BTD, begin, packed)
            if look is not None:
                site = f"layer{self.first + layer}"
                if look.changes(f"{site}.gates") or look.changes(f"{site}.cell"):
                    out_BTD, *end = self._step_by_step(kernel, x_BTD, begin, packed.length_B, look, site)
                elif self.cell != "rnn":
                    self._watch(kernel, x_BTD, out_BTD, begin, look, site)
            x_BTD = at_site(look, f"layer{self.first + layer}.hidden", out_BTD)
            ends.append(end)
        read_B = (packed.length_B > 0).view(-1, 1, 1)
        stacked = (torch.stack(end, 1) for end in zip(*ends, strict=True))
        after = [torch.where(read_B, end, start) for end, start in zip(stacked, before, strict=True)]
        return x_BTD, after[0], after[1] if cell_BLD is not None else None

    def _layer(
        self, kernel: nn.RNNBase, x_BTD: Tensor, begin: list[Tensor], packed: Packed
    ) -> tuple[Tensor, ...]:
        """Return a layer's hidden states at every position, its last hidden state, and an LSTM's cell."""
        state: Any = tuple(state_BD.unsqueeze(0).contiguous() for state_BD in begin)
        state = state if self.cell == "lstm" else state[0]
        if self.training and self.weight_dropout:
            w_ih, w_hh, *biases = kernel.all_weights[0]
            weights = [w_ih, F.dropout(w_hh, self.weight_dropout), *biases]
            flat = torch.cat([weight.flatten() for weight in weights]).split(
                [weight.numel() for weight in weights]
            )
            # cuDNN is fastest if the weights are adjacent in memory.
            weights = [part.view_as(weight) for part, weight in zip(flat, weights, strict=True)]
            body: Any = {"rnn": torch.rnn_tanh, "lstm": torch.lstm, "gru": torch.gru}[self.cell]
            out_BTD, *end = body(x_BTD, state, weights, True, 1, 0.0, True, False, True)
        elif packed.place_BT is not None:
            # Packing takes time, so it is done only for rows with padding. PyTorch requires at least one
            # token in each row; the output of an empty row is not used.
            rows = pack_padded_sequence(
                x_BTD, packed.length_B.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
            )
            out, end = kernel(rows, state)
            out_BTD, _ = pad_packed_sequence(out, batch_first=True, total_length=x_BTD.shape[1])
        else:
            out_BTD, end = kernel(x_BTD, state)
        return out_BTD, *(state_1BD.squeeze(0) for state_1BD in ([end] if isinstance(end, Tensor) else end))

    def _watch(
        self, kernel: nn.RNNBase, x_BTD: Tensor, out_BTD: Tensor, begin: list[Tensor], look: Look, site: str
    ) -> None:
        """Compute the gates at all positions at once.

        A gate depends only on the input and on the hidden state before it, which the kernel has returned.
        """
        if not look.watches(f"{site}.gates") and not look.watches(f"{site}.cell"):
            return
        gates = gates_of(self.cell, kernel, x_BTD, torch.cat([begin[0].unsqueeze(1), out_BTD[:, :-1]], 1))
        look.at(f"{site}.gates", torch.stack(gates, 1))
        if self.cell == "lstm":
            enter, forget, candidate, _ = gates
            cell_BD, cells = begin[1], []
            for i_BD, f_BD, g_BD in zip(enter.unbind(1), forget.unbind(1), candidate.unbind(1), strict=True):
                cell_BD = f_BD * cell_BD + i_BD * g_BD
                cells.append(cell_BD)
            look.at(f"{site}.cell", torch.stack(cells, 1))

    def _step_by_step(
        self, kernel: nn.RNNBase, x_BTD: Tensor, begin: list[Tensor], length_B: Tensor, look: Look, site: str
    ) -> tuple[Tensor, ...]:
        """Run a layer position by position with changed gates and cells, which affect all later positions."""
        states, gates, steps = list(begin), list[Tensor](), list[list[Tensor]]()
        for place in range(x_BTD.shape[1]):
            gates.append(torch.stack(gates_of(self.cell, kernel, x_BTD[:, place], states[0]), 1))
            gates_BGTD = look.at(f"{site}.gates", torch.stack(gates, 2))
            parts = gates_BGTD[:, :, -1].unbind(1)
            if self.cell == "gru":
                new = [(1 - parts[1]) * parts[2] + parts[1] * states[0]]
            else:
                cell_BD = parts[1] * states[1] + parts[0] * parts[2]
                cells_BTD = look.at(f"{site}.cell", torch.stack([*(step[1] for step in steps), cell_BD], 1))
                new = [parts[3] * torch.tanh(cells_BTD[:, -1]), cells_BTD[:, -1]]
            read_B1 = (place < length_B).unsqueeze(1)
            states = [torch.where(read_B1, after, before) for after, before in zip(new, states, strict=True)]
            steps.append(states)
        return torch.stack([step[0] for step in steps], 1), *states


def gates_of(cell: CellName, kernel: nn.RNNBase, x: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
    """Return the gates for an input and the hidden state before it, as in torch.nn.LSTM and torch.nn.GRU."""
    w_ih, w_hh, b_ih, b_hh = kernel.all_weights[0]
    from_input, from_state = linear(x, w_ih, b_ih), linear(hidden, w_hh, b_hh)
    if cell == "lstm":
        enter, forget, candidate, output = (from_input + from_state).chunk(4, -1)
        return enter.sigmoid(), forget.sigmoid(), candidate.tanh(), output.sigmoid()
    reset, update, candidate = from_input.chunk(3, -1)
    state_reset, state_update, state_candidate = from_state.chunk(3, -1)
    reset = (reset + state_reset).sigmoid()
    return reset, (update + state_update).sigmoid(), (candidate + reset * state_candidate).tanh()
