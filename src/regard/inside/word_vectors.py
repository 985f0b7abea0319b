"""Word vectors of a model's embedding layers in a call: recorded, changed and differentiated.

A layer takes part if it is called with the very ids of the call. So the vectors of positions stay as they
are, and in families that use a word's vector twice (a Backpack: for its senses and for its context) both uses
change together.

Shape legend: B rows, T positions, D width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.models.contract import LanguageModel
from regard.models.model import Model, as_kind

Change = Callable[[int, Tensor], Tensor]  # (number of the layer, its vectors (B, T, D)) -> other vectors


@contextmanager
def changed_vectors(model: nn.Module, ids_BT: Tensor, change: Change) -> Iterator[None]:
    """Change the vectors of every layer that looks up `ids_BT`. Gradients go through the new vectors."""
    layers = [module for module in model.modules() if isinstance(module, nn.Embedding)]

    def hook(number: int):
        def replace(module: nn.Module, inputs: tuple[Tensor, ...], vectors: Tensor) -> Tensor:
            own = inputs[0].shape == ids_BT.shape and torch.equal(inputs[0], ids_BT)
            return change(number, vectors) if own else vectors

        return replace

    handles = [layer.register_forward_hook(hook(number)) for number, layer in enumerate(layers)]
    try:
        # cuDNN differentiates recurrent kernels in training mode alone
        with torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        for handle in handles:
            handle.remove()


def layers_that_read(model: Model) -> tuple[list[nn.Embedding], list[nn.Embedding]]:
    """Return the embedding layers of the model's tokens, and those of its source sentences.

    The layers are found in a call with one token, so a family does not have to name them.
    """
    ids_11 = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    # A source of ones, so that it differs from the tokens; a captioner sees a white image.
    given = None
    if model.source_size is not None:
        smallest = as_kind(model, LanguageModel).example()
        assert isinstance(smallest, Tensor)
        given = smallest + 1
    found: tuple[list[nn.Embedding], list[nn.Embedding]] = [], []

    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(module, nn.Embedding)
        for layers, own in zip(found, (ids_11, given), strict=True):
            if own is not None and torch.equal(inputs[0], own) and module not in layers:
                layers.append(module)

    layers = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    handles = [layer.register_forward_pre_hook(hook) for layer in layers]
    try:
        with torch.inference_mode():
            if given is None:
                model.watch(ids_11)
            else:
                as_kind(model, LanguageModel).read_from_start(ids_11, given)
    finally:
        for handle in handles:
            handle.remove()
    return found


class Vectors:
    """Keeps the vectors of a call, with a leaf tensor for each embedding layer."""

    def __init__(self) -> None:
        self.by_layer: dict[int, Tensor] = {}

    def keep(self, number: int, vectors: Tensor) -> Tensor:
        self.by_layer[number] = vectors.detach().clone().requires_grad_()
        return self.by_layer[number]

    def leaves(self, family: str) -> Sequence[Tensor]:
        if not self.by_layer:
            raise UserError(f"{family} reads no word vectors, so there is nothing to differentiate by")
        return list(self.by_layer.values())
