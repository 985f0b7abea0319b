"""The film of a training: the weights at the beginning and at every validation, for `regard film`."""

import os
from pathlib import Path
from typing import final

from regard.machine.disk import flush, write_tensors
from regard.models.model import Model

FOLDER, PREFIX = "film", "step-"


@final
class Film:
    """Writes a frame of the film under a temporary name, then renames it. A repeated step writes it again."""

    def __init__(self, out: Path, model: Model, wanted: bool):
        self._folder, self._model, self._wanted = out / FOLDER, model, wanted

    def add(self, step: int) -> None:
        """Keep the weights of this step, if a film is wanted."""
        if not self._wanted:
            return
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{PREFIX}{step:08d}.safetensors"
        temporary = path.with_suffix(".tmp")
        write_tensors(self._model.tensors(), temporary)
        flush(temporary)
        os.replace(temporary, path)


def frames(out: Path) -> list[tuple[int, Path]]:
    """Return the steps and the files of the frames, in order."""
    paths = sorted((out / FOLDER).glob(f"{PREFIX}*.safetensors"))
    return [(int(path.stem.removeprefix(PREFIX)), path) for path in paths]
