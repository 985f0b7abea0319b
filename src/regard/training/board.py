"""TensorBoard, an extra: the same rows as metrics.jsonl, for those who watch their trainings there."""

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
        self._writer = SummaryWriter(
            str(folder), purge_step=step
        )  # what a killed run wrote after its last checkpoint is not shown

    def write(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if name != "step" and value is not None:
                self._writer.add_scalar(name, value, row["step"])
        self._writer.flush()
