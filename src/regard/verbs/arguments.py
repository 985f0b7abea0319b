"""The types of arguments that several verbs have: wide in Python, plain text on the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from regard.parts.edits import Edit
from regard.runs.run import Run
from regard.verbs.options import Argument

RunLike = Annotated[Run | str | Path, Argument(str, positional=True, metavar="RUN")]
OtherRun = Annotated[Run | str | Path | None, Argument(str | None, metavar="RUN")]
Files = Annotated[str | Path | Sequence[str | Path], Argument(tuple[str, ...], metavar="PATH")]
File = Annotated[str | Path | None, Argument(str | None, metavar="FILE")]
Out = Annotated[str | Path | None, Argument(Path | None, metavar="FILE")]
Names = Annotated[str | Sequence[str], Argument(tuple[str, ...], metavar="NAME", commas=True)]
Edits = Annotated[Sequence[Edit] | str | Path | None, Argument(str | None, metavar="FILE")]
Numbers = Annotated[Sequence[int] | None, Argument(tuple[int, ...] | None, metavar="N")]
