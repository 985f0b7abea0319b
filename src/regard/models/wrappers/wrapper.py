"""The base class of models that wrap another model."""

from abc import ABC
from collections.abc import Mapping

import torch
from torch import Tensor

from regard.models.contract import LanguageModel
from regard.parts.look import Site


class Wrapper(LanguageModel, ABC):
    """Delegates to the wrapped model. Subclasses implement `begin` and `forward`."""

    def __init__(self, model: LanguageModel):
        super().__init__(model.vocabulary_size, model.config)
        self.model = model
        self.learns, self.reads = model.learns, model.reads
        self.context, self.given = model.context, model.given
        self.steady = model.steady
        self.batch_tokens, self.row_tokens = model.batch_tokens, model.row_tokens
        self.train(model.training)

    @property
    def carries(self) -> bool:
        return self.model.carries

    @property
    def device(self) -> torch.device:
        return self.model.device

    def cache(self) -> dict[str, float] | None:
        return self.model.cache()

    def sites(self) -> dict[str, Site]:
        return self.model.sites()

    def layer_sites(self) -> list[str]:
        return self.model.layer_sites()

    def example(self) -> int | Tensor:
        return self.model.example()

    def parameter_count(self) -> int:
        return self.model.parameter_count()

    def tensors(self) -> dict[str, Tensor]:
        return self.model.tensors()

    def assign(self, tensors: Mapping[str, Tensor]) -> None:
        self.model.assign(tensors)
