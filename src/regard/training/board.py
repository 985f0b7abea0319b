"""Writes the rows of metrics.jsonl for TensorBoard, which is an optional dependency."""

from pathlib import Path
from typing import Any, final

from regard.errors import UserError


@final
class Board:
    """Writes rows into a folder that `tensorboard --logdir` reads."""

    def __init__(self, folder: Path, step: int):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "`tensorboard` needs an extra package: pip install 'regard[tensorboard]'"
            ) from None
        # TensorBoard hides the rows that a killed training wrote after its last checkpoint.
        self._writer = SummaryWriter(str(folder), purge_step=step)

    def write(self, row: dict[str, Any]) -> None:
        """Write the numbers of a row."""
        for name, value in row.items():
            if name != "step" and value is not None:
                self._writer.add_scalar(name, value, row["step"])
        self._writer.flush()
