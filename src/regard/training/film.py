"""The film of a training: the weights at the beginning and at every validation, for `regard film`."""

import os
from pathlib import Path
from typing import final

from regard.machine.disk import flush, write_tensors
from regard.models.model import Model
from regard.training.task import Progress

FOLDER, PREFIX = "film", "step-"


@final
class Film:
    """Writes a frame at the beginning and at every validation. A repeated step writes its frame again."""

    def __init__(self, out: Path, model: Model, progress: Progress, wanted: bool):
        self._folder, self._model, self._progress, self._wanted = out / FOLDER, model, progress, wanted
        if progress.step == 0:
            self.add()

    def add(self) -> None:
        """Keep the weights of this step, if a film is wanted. The file is written beside and renamed."""
        if not self._wanted:
            return
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{PREFIX}{self._progress.step:08d}.safetensors"
        temporary = path.with_suffix(".tmp")
        write_tensors(self._model.tensors(), temporary)
        flush(temporary)
        os.replace(temporary, path)


def frames(out: Path) -> list[tuple[int, Path]]:
    """Return the steps and the files of the frames, in order."""
    paths = sorted((out / FOLDER).glob(f"{PREFIX}*.safetensors"))
    return [(int(path.stem.removeprefix(PREFIX)), path) for path in paths]
