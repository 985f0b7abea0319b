"""The best weights of a training, and the average of the last weights."""

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from regard.models.model import Model
from regard.training.task import Progress


class BestWeights:
    """Stores the weights of the best validation, and of the last validations if they are to be averaged."""

    def __init__(self, model: Model, average: int, keeps: Literal["best", "last"] = "best"):
        """`average` is the number of last validations whose weights are averaged; 1: no average.

        `keeps` last: every validation counts as the best so far, and the model itself holds its weights.
        """
        self._model, self._average, self._keeps = model, average, keeps
        self._best: dict[str, Tensor] = {}
        self._recent = list[dict[str, Tensor]]()

    def judge(self, progress: Progress, judged: float) -> None:
        """Store the model's weights if `judged` is lower than ever before."""
        if self._average > 1:
            self._recent = [*self._recent, self._weights()][-self._average :]
        if self._keeps == "last" or progress.best_loss is None or judged < progress.best_loss:
            progress.best_loss, progress.best_step, progress.worse = judged, progress.step, 0
            self._best = {} if self._keeps == "last" else self._weights()
        else:
            progress.worse += 1

    def load_best(self, measure: Callable[[], float], progress: Progress) -> None:
        """Load the best weights into the model, or the average of the last ones if its `measure` is lower."""
        if len(self._recent) > 1:
            count = len(self._recent)
            averaged = {
                name: sum(weights[name] for weights in self._recent) / count for name in self._recent[0]
            }
            self._model.load_state_dict(averaged)
            if progress.best_loss is None or measure() < progress.best_loss:
                return
        if self._best:
            self._model.load_state_dict(self._best)

    def tensors(self) -> dict[str, Tensor]:
        """Return the stored weights, for a checkpoint."""
        named = {f"best.{name}": tensor for name, tensor in self._best.items()}
        for number, weights in enumerate(self._recent):
            named |= {f"recent{number}.{name}": tensor for name, tensor in weights.items()}
        return named

    def restore(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Take the stored weights from a checkpoint."""
        self._best = with_prefix("best.", tensors, device)
        numbers = range(self._average if self._average > 1 else 0)
        recent = (with_prefix(f"recent{number}.", tensors, device) for number in numbers)
        self._recent = [weights for weights in recent if weights]

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self._model.state_dict().items()}


def with_prefix(prefix: str, tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the prefix, by the rest of their names."""
    chosen = {name: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): tensor.to(device) for name, tensor in chosen.items()}
