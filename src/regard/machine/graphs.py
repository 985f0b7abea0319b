"""CUDA graphs: the kernels of a function are recorded once and launched with one call.

A recorded function reads and writes tensors at fixed addresses, has fixed shapes and asks the host nothing.
On a CPU the function is called as it is, so that the code around a graph has a body that tests can run.
"""

from collections.abc import Callable
from typing import final

import torch

WARM_UP = 2  # calls before the recording: libraries choose their kernels and allocate their workspaces


@final
class Recorded:
    """A function without arguments, recorded as a CUDA graph on a GPU."""

    def __init__(self, function: Callable[[], None], device: torch.device):
        self._function, self._graph = function, None
        if device.type == "cuda":
            self._graph = _record(function)

    def __call__(self) -> None:
        if self._graph is None:
            self._function()
        else:
            self._graph.replay()


def _record(function: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Warm up on a side stream, as a recording needs, and record."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.empty_cache()  # the recording allocates memory of its own
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph
