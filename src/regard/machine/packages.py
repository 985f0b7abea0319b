"""Packages: functions of tensors that are compiled for this machine and kept in the user's cache.

torch writes down the operations of a module (torch.export), translates them to C++ and compiles them
(AOTInductor). That takes a quarter of a minute once; a package is loaded in a few hundredths of a second and
runs without Python. It holds no weights, but uses those of the module that it is loaded for. Packages are for
CPUs.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from regard.machine.cache import cache_folder
from regard.machine.disk import flush, wait_for_lock


@final
class Package:
    """A compiled function of tensors. It may change the tensors that it is given."""

    def __init__(self, path: Path, weights: Mapping[str, Tensor]):
        """Load a package that computes with these weights. The error of a damaged file is a RuntimeError."""
        # Private to torch. The public loader imports the compiler (2 s), and parses two texts in every call.
        loader = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", True, 1, -1)
        # the compiled code keeps the addresses of the weights, and this object the weights
        self._weights = {name: weights[name] for name in loader.get_constant_fqns()}
        loader.load_constants(self._weights, False, True, True)
        self._run = loader.run

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        return self._run(tensors)


def packages_folder() -> Path:
    return cache_folder() / "packages"


def package_path(*described: Any) -> Path:
    """The place of the package of a function. `described` says what the function computes."""
    machine = [torch.__version__, _processor_features(), torch.get_num_threads(), _sources()]
    text = json.dumps([machine, described], default=str)
    return packages_folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.pt2"


def compiler() -> str | None:
    """The path of the C++ compiler that torch calls, or None if there is none."""
    return shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++"))


def make_package(
    path: Path, module: nn.Module, tensors: Sequence[Tensor], sizes: Sequence[dict[int, Any]]
) -> None:
    """Compile module(tensors). `sizes` names the axes of each tensor whose sizes may change."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wait_for_lock(path.with_suffix(".lock"), "another regard compiles the same step"):
        if path.exists():
            return
        with (
            tempfile.TemporaryDirectory(dir=path.parent, prefix=".regard-") as folder,
            warnings.catch_warnings(),
            torch.inference_mode(False),
            torch.no_grad(),
        ):
            warnings.simplefilter("ignore")  # of torch, about its own code
            made = Path(folder) / "made.pt2"
            exported = torch.export.export(
                module, (list(tensors),), dynamic_shapes=(list(sizes),), strict=False
            )
            without_weights = {"aot_inductor.package_constants_in_so": False}
            torch._inductor.aoti_compile_and_package(
                exported, package_path=str(made), inductor_configs=without_weights
            )
            flush(made)
            os.replace(made, path)


@cache
def _sources() -> str:
    """A hash of regard's own modules: another version of the code needs another package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _processor_features() -> str:
    """The instructions that the processor knows: the compiler may use all of them."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text("utf-8", "replace").splitlines() if listed.is_file() else []
    features = [line for line in lines if line.startswith(("flags", "Features"))]
    return features[0] if features else torch.backends.cpu.get_cpu_capability()
