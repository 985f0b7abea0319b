"""The base class of the formats of a run. A new format is one file and one line in FORMATS."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from regard.errors import UserError
from regard.models.model import Model
from regard.runs.run import Run


class Format(ABC):
    name: ClassVar[str]
    about: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()  # of files; none for a folder
    any_family: ClassVar[bool] = False  # holds runs of any family, so that a class can be named for reading

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Whether the file or folder is in this format, by a look at its head."""

    @abstractmethod
    def read(self, path: Path, family: type[Model] | None = None) -> Run:
        """Open the run. `family` is the class of a family that is neither regard's nor installed."""

    def default_for(self, run: Run) -> bool:
        """Whether a folder is written in this format if no other is named."""
        return False

    def write(self, run: Run, out: Path) -> None:
        """Write a run to a path that does not exist yet."""
        raise UserError(f"{self.about} cannot be written")
