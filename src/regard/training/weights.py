"""The best weights of a training, and the average of the last ones."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from regard.models.contract import LanguageModel
from regard.training.task import Progress


class BestWeights:
    def __init__(self, model: LanguageModel, average: int):
        """With `average` above 1, the weights of so many last validations are kept as well."""
        self._model, self._average = model, average
        self._best: dict[str, Tensor] = {}
        self._recent = list[dict[str, Tensor]]()

    def judge(self, progress: Progress, judged: float) -> None:
        """Keep the model's weights if they are better than any before; lower is better."""
        if self._average > 1:
            self._recent = [*self._recent, self._weights()][-self._average :]
        if progress.best_loss is None or judged < progress.best_loss:
            progress.best_loss, progress.best_step, progress.worse = judged, progress.step, 0
            self._best = self._weights()
        else:
            progress.worse += 1

    def load_best(self, measure: Callable[[], float], progress: Progress) -> None:
        """Give the model its best weights, or the average of its last ones if that measures lower."""
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
        named = {f"best.{name}": tensor for name, tensor in self._best.items()}
        for number, weights in enumerate(self._recent):
            named |= {f"recent{number}.{name}": tensor for name, tensor in weights.items()}
        return named

    def restore(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        self._best = under("best.", tensors, device)
        every = (
            under(f"recent{number}.", tensors, device)
            for number in range(self._average if self._average > 1 else 0)
        )
        self._recent = [weights for weights in every if weights]

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self._model.state_dict().items()}


def under(prefix: str, tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, by the rest of their names."""
    chosen = {name: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): tensor.to(device) for name, tensor in chosen.items()}
