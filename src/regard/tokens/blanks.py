"""Hidden words of rows, for masked readers.

Shape legend: B rows, T positions.
"""

import torch
from torch import Tensor

# The share of words that are predicted. More than the 15% of Devlin et al. (2019, section 3.1) teach more in
# few steps (Wettig et al. 2023).
SHARE = 0.3
BLANK, OTHER = 0.8, 0.1  # of these: the share that becomes a blank, and the share that becomes another word


def hide(
    ids_BT: Tensor, real_BT: Tensor, blank: int, size: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the rows with hidden words, and the hidden words as targets (-1 at all other positions).

    At least one word of the batch is hidden. Some words become other words or stay, so that the reader learns
    states of words that it sees as well.
    """
    chosen_BT = (torch.rand(ids_BT.shape, generator=generator) < SHARE) & real_BT
    if not bool(chosen_BT.any()):
        chosen_BT[0, 0] = bool(real_BT[0, 0])
    how_BT = torch.rand(ids_BT.shape, generator=generator)
    other_BT = torch.randint(size, ids_BT.shape, generator=generator)
    hidden_BT = torch.where(how_BT < BLANK, blank, torch.where(how_BT < BLANK + OTHER, other_BT, ids_BT))
    return torch.where(chosen_BT, hidden_BT, ids_BT), torch.where(chosen_BT, ids_BT, -1)
